"""The entry `amanda` of `torch_dynamo_backends`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from amanda_torch.compiler.options import CompilerOptions

__all__ = ["compile_module"]


def compile_module(
    module: Any, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """Compile one graph of a model, for forward and backward.

    `options`: `backend`, by default the fastest; `freeze`; the options of that backend.
    PyTorch runs the ops that have no rule, with a warning that names them."""
    from functorch.compile import min_cut_rematerialization_partition
    from torch._dynamo.backends.common import aot_autograd

    from amanda_torch.compiler.formulas import use_activation_ops

    settings = CompilerOptions.read(options)
    if settings.runs_on_torch:
        use_activation_ops(module)
    compiler: Callable[..., Any] = aot_autograd(
        fw_compiler=partial(_compile_graph, options=settings),
        inference_compiler=partial(_compile_graph, options=settings, infers=True),
        decompositions=find_decompositions(settings),
        partition_fn=min_cut_rematerialization_partition,
    )
    run: Callable[..., Any] = compiler(module, inputs)
    return run


def _compile_graph(
    module: Any, examples: Sequence[Any], *, options: CompilerOptions,
    infers: bool = False,
) -> Callable[..., Any]:  # fmt: skip
    """A graph of AOTAutograd as a function of a list of arguments."""
    import torch
    from torch._guards import tracing
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    from amanda_torch.compiler.pieces import compile_pieces

    del examples
    frozen = _find_weights() if options.may_freeze and infers else frozenset()
    with tracing(None), unset_fake_temporarily(), torch.no_grad():
        compute = compile_pieces(module, options, frozen, trains=not infers)

    def run(args: list[Any]) -> Any:
        return compute(args)

    run._boxed_call = True  # type: ignore[attr-defined]  # it clears the arguments
    return run


def _find_weights() -> frozenset[int]:
    """The indices of the parameters and buffers that the graph does not write."""
    from torch._guards import TracingContext

    facts = TracingContext.get().fw_metadata
    if facts is None:
        return frozenset()
    return frozenset(
        i for i in facts.static_input_indices
        if not facts.input_info[i].mutates_data
    )  # fmt: skip


def find_decompositions(options: CompilerOptions) -> dict[Any, Any]:
    """PyTorch's decompositions into core ops, of ops that nothing runs as they are."""
    from torch._decomp import core_aten_decompositions

    from amanda_torch.backend.eager_ops import is_gradient_op
    from amanda_torch.mapping import MAPPING

    mapped = set(MAPPING.rules.types(forward=True))
    return {
        overload: function
        for overload, function in core_aten_decompositions().items()
        if str(overload) not in mapped
        and not (options.runs_on_torch and is_gradient_op(overload))
    }
