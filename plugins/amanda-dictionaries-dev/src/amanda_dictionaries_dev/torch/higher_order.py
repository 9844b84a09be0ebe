"""Higher-order operators of PyTorch, with signatures, since they have no schemas.

Each row has the releases that introduced and removed the operator, according to the
sources in their packages. Where arguments are arbitrary, or differ between releases,
the definition is open (`...`).
"""

from __future__ import annotations

from typing import NamedTuple

from amanda.dictionary import OpDef, parse_signature, version_key

SPACE = "higher_order"


class HigherOrderOp(NamedTuple):
    """One operator: the releases that have it, until exclusive, and its signature."""

    spans: tuple[tuple[str, str | None], ...]
    text: str

    def is_in(self, version: str) -> bool:
        at = version_key(version)
        return any(
            version_key(since) <= at and (until is None or at < version_key(until))
            for since, until in self.spans
        )


def _since(since: str, text: str) -> HigherOrderOp:
    return HigherOrderOp(((since, None),), text)


_ANY = "*args: any >= 0"
_REST = f"({_ANY}, *, ...) -> (*any >= 0)"
_ROWS = (
    _since(
        "1.13.0",
        "cond(pred: any, attr true_fn: graph(inputs - 1, outputs), "
        "attr false_fn: graph(inputs - 1, outputs), *operands: any >= 0)"
        " -> (*any >= 0)",
    ),
    _since(
        "2.14.0",
        "switch(index: any, attr branches: graph[], *operands: any >= 0)"
        " -> (*any >= 0)",
    ),
    _since(
        "2.3.0",
        "while_loop(attr cond_fn: graph(inputs, 1), "
        "attr body_fn: graph(inputs, outputs), *carried_inputs: any >= 0, "
        "*additional_inputs: any >= 0, *, ...) -> (*any >= 0)",
    ),
    _since(
        "2.9.0",
        "while_loop_stack_output(attr cond_fn: graph(inputs, 1), "
        "attr body_fn: graph, *carried_inputs: any >= 0, "
        "*additional_inputs: any >= 0) -> (*any >= 0)",
    ),
    _since(
        "2.6.0",
        "scan(attr combine_fn: graph(inputs, outputs), *init: any >= 0, "
        "*xs: any >= 0, *additional_inputs: any >= 0) -> (*any >= 0)",
    ),
    _since(
        "2.4.0",
        "associative_scan(attr combine_fn: graph, *xs: any >= 0, "
        "*additional_inputs: any >= 0, *, ...) -> (*any >= 0)",
    ),
    HigherOrderOp(
        (("2.0.0", "2.1.0"), ("2.5.0", "2.8.0")),
        f"map(attr f: graph, {_ANY}) -> (*any >= 0)",
    ),
    _since("2.1.0", f"map_impl(attr f: graph, {_ANY}) -> (*any >= 0)"),
    _since("2.7.0", f"foreach_map(attr fn: any, {_ANY}, *, ...) -> (*any >= 0)"),
    _since(
        "2.4.0",
        "flex_attention(query: tensor, key: tensor, value: tensor, "
        "attr score_mod: graph, attr block_mask: any, attr scale: double, "
        "attr kernel_options: any, *score_mod_other_buffers: tensor >= 0, "
        "*mask_mod_other_buffers: tensor >= 0, *, ...) -> (*tensor)",
    ),
    _since(
        "2.4.0",
        "flex_attention_backward(query: tensor, key: tensor, value: tensor, "
        "out: tensor, logsumexp: tensor, grad_out: tensor?, *, ...) -> (*any)",
    ),
    _since("2.14.0", f"flex_gemm{_REST}"),
    _since(
        "2.6.0",
        "invoke_subgraph(attr subgraph: graph(inputs, outputs), "
        "attr identifier: string?, *operands: any >= 0) -> (*any >= 0)",
    ),
    _since("2.7.0", f"invoke_quant(attr subgraph: graph, {_ANY}, *, ...) -> (*any)"),
    _since(
        "2.7.0", f"invoke_quant_packed(attr subgraph: graph, {_ANY}, *, ...) -> (*any)"
    ),
    _since("2.11.0", f"invoke_leaf_function{_REST}  [stateful]"),
    _since("2.10.0", f"local_map_hop(attr gm: graph, {_ANY}, *, ...) -> (*any >= 0)"),
    _since("2.5.0", "run_const_graph(attr graph: graph, *args: any >= 0) -> (*any)"),
    _since(
        "2.3.0",
        "strict_mode(attr callable: graph(inputs, outputs), *operands: any >= 0)"
        " -> (*any >= 0)",
    ),
    _since("2.5.0", f"hints_wrapper(attr body_fn: graph, {_ANY}, *, ...) -> (*any)"),
    _since("2.1.0", f"wrap(attr func: graph, {_ANY}, *, ...) -> (*any >= 0)"),
    _since(
        "2.1.0",
        f"wrap_activation_checkpoint(attr function: graph, {_ANY}, *, ...)"
        " -> (*any >= 0)",
    ),
    _since(
        "2.1.0",
        f"tag_activation_checkpoint(attr gmod: graph, {_ANY}, *, ...) -> (*any >= 0)",
    ),
    _since(
        "2.3.0",
        "wrap_with_set_grad_enabled(attr enable_grad: bool, attr wrapped_func: graph, "
        f"{_ANY}, *, ...) -> (*any >= 0)",
    ),
    _since(
        "2.5.0",
        "wrap_with_autocast(attr device_type: string, attr dtype: dtype?, "
        "attr enabled: bool, attr cache_enabled: bool?, attr wrapped_func: graph, "
        f"{_ANY}, *, ...) -> (*any >= 0)",
    ),
    _since("2.8.0", f"dynamo_bypassing_wrapper{_REST}"),
    _since("2.10.0", f"inductor_compiled_code{_REST}"),
    _since(
        "2.12.0",
        "inline_asm_elementwise(*inputs: tensor, *, asm_str: string, "
        "constraints: string, dtype: dtype, is_pure: bool = true, pack: int = 1)"
        " -> (tensor)",
    ),
    _since(
        "2.1.0",
        f"out_dtype(attr op: any, attr output_dtype: dtype, {_ANY}) -> (*any >= 0)",
    ),
    _since(
        "2.3.0",
        f"call_torchbind(obj: any, attr method: string, {_ANY}, *, ...)"
        " -> (*any >= 0)  [stateful]",
    ),
    _since(
        "2.3.0",
        f"with_effects(token: any, attr op: any, {_ANY}, *, ...) -> (*any)  [stateful]",
    ),
    _since(
        "2.10.0", f"print(attr format_str: string, {_ANY}, *, ...) -> ()  [stateful]"
    ),
    _since(
        "2.13.0",
        "register_hook(tensor: tensor, attr hook_body: graph, "
        "*freevars: any >= 0) -> (tensor)  [stateful]",
    ),
    _since(
        "2.1.0",
        f"run_and_save_rng_state(attr op: any, {_ANY}, *, ...)"
        " -> (*any)  [nondeterministic]",
    ),
    _since(
        "2.1.0",
        f"run_with_rng_state(rng_state: any, attr op: any, {_ANY}, *, ...) -> (*any)",
    ),
    _since(
        "2.7.0",
        f"graphsafe_run_with_rng_state(attr op: any, {_ANY}, *, ...)"
        " -> (*any)  [stateful]",
    ),
    _since("2.12.0", f"run_dtensor_rng_op{_REST}  [stateful]"),
    _since("2.2.0", "auto_functionalized(attr _mutable_op: any, *, ...) -> (*any)"),
    _since("2.5.0", "auto_functionalized_v2(attr _mutable_op: any, *, ...) -> (*any)"),
    _since(
        "2.3.0",
        f"autograd_function_apply(attr fwd: graph, attr bwd: graph, {_ANY},"
        " *, ...) -> (*any >= 0)",
    ),
    _since(
        "2.0.0",
        f"custom_function_call(attr autograd_function: any, {_ANY}, *, ...)"
        " -> (*any >= 0)",
    ),
    _since(
        "2.2.0",
        "triton_kernel_wrapper_functional(*, kernel_idx: int, "
        "constant_args_idx: int, grid: any, kwargs: any, tensors_to_clone: string[],"
        " ...) -> (*any >= 0)",
    ),
    _since(
        "2.2.0",
        "triton_kernel_wrapper_mutation(*, kernel_idx: int, "
        "constant_args_idx: int, grid: any, kwargs: any, ...) -> ()"
        "  [stateful]",
    ),
    _since("2.1.0", f"_export_tracepoint{_REST}  [stateful]"),
    _since(
        "2.7.0",
        f"flat_apply(attr func: any, attr in_spec: any, {_ANY}, *, ...) -> (*any >= 0)",
    ),
    _since(
        "2.7.0",
        "aoti_call_delegate(attr lowered_module: any, attr original_gm: any,"
        " *weight_args: tensor >= 0, *input_args: tensor >= 0)"
        " -> (*tensor >= 0)",
    ),
    _since(
        "2.5.0",
        f"executorch_call_delegate(attr lowered_module: any, {_ANY}) -> (*any >= 0)",
    ),
)

TABLE: dict[str, HigherOrderOp] = {row.text.partition("(")[0]: row for row in _ROWS}


def op_def_of_name(name: str) -> OpDef:
    """The definition of an operator; without arguments if the table lacks it.

    >>> print(op_def_of_name("run_const_graph"))
    higher_order.run_const_graph(attr graph: graph, *args: any >= 0) -> (*any)
    """
    row = TABLE.get(name)
    return parse_signature(f"{SPACE}.{row.text if row else name + _REST}")


def op_defs_of_version(version: str) -> list[OpDef]:
    """The operators of a release."""
    return [op_def_of_name(name) for name, row in TABLE.items() if row.is_in(version)]
