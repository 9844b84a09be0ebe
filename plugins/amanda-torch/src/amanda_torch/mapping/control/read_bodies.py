"""From PyTorch: branches, loops, maps, scans, and regions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from amanda.mapping import Decline
from amanda_std import ops
from amanda_std.mappings import Value, inline_body, rank_of
from amanda_torch.codes import op_type
from amanda_torch.mapping.calls import torch_functions

__all__ = ["READ"]


def read_cond(
    pred: Any, true_fn: Any, false_fn: Any, operands: Sequence[Any] = ()
) -> Any:
    return tuple(
        ops.if_(
            _truth(pred),
            lambda *v: inline_body(true_fn, v),
            lambda *v: inline_body(false_fn, v),
            *operands,
        )
    )


def _truth(value: Any) -> Any:
    return ops.reshape(value, []) if rank_of(value) else value


def read_while(cond_fn: Any, body_fn: Any, carried: Sequence[Any],
               others: Sequence[Any] = ()) -> Any:  # fmt: skip
    """The other inputs are the same in each iteration."""
    return tuple(
        ops.while_(
            lambda *v: _truth(inline_body(cond_fn, [*v, *others])[0]),
            lambda *v: inline_body(body_fn, [*v, *others]),
            *carried,
        )
    )


def read_scan(combine_fn: Any, init: Sequence[Any], xs: Sequence[Any],
              others: Sequence[Any] = ()) -> Any:  # fmt: skip
    return tuple(
        ops.scan(
            lambda *v: inline_body(combine_fn, [*v, *others]), None, *init, *xs,
            carried=len(init),
        )
    )  # fmt: skip


def read_map(f: Any, args: Sequence[Any]) -> Any:
    """The rows of tensors, then values that are the same for each row."""
    xs, others = args
    return tuple(
        ops.scan(lambda *row: inline_body(f, [*row, *others]), None, *xs, carried=0)
    )


def read_associative_scan(
    combine_fn: Any, xs: Sequence[Any], others: Sequence[Any] = ()
) -> Any:
    """The first rows, and what each further row combines with those before it."""
    count = len(xs)
    first = [ops.gather(x, np.asarray(0), axis=0) for x in xs]
    rest = [ops.slice_(x, [1], [np.iinfo("int64").max], [0]) for x in xs]

    def step(*values: Any) -> Any:
        new = inline_body(combine_fn, [*values, *others])
        return [*new, *new]

    found = ops.scan(step, None, *first, *rest, carried=count)[count:]
    return tuple(
        ops.concat(ops.expand_dims(row, [0]), rows, axis=0)
        for row, rows in zip(first, found, strict=True)
    )


def read_wrap(body: Any, args: Sequence[Any] = ()) -> Any:
    return tuple(inline_body(body, _flatten(args)))


def _flatten(args: Any) -> list[Any]:
    if isinstance(args, Mapping):
        args = list(args.values())
    if isinstance(args, list | tuple):
        return [item for arg in args for item in _flatten(arg)]
    return [args]


def read_hints(body: Any, args: Sequence[Any] = (), *, hints: Any = None) -> Any:
    del hints
    return read_wrap(body, args)


def read_gradient_region(enable: bool, body: Any, args: Sequence[Any] = ()) -> Any:
    """Values that a region without gradients computes are constants to those."""
    values = _flatten(args)
    found = inline_body(body, values)
    if enable:
        return tuple(found)
    given = [value.port for value in values if isinstance(value, Value)]
    return tuple(
        ops.stop_gradient(result)
        if result.dtype.kind in ("float", "complex") and result.port not in given
        else result
        for result in found
    )  # fmt: skip


def read_autocast(
    _device: str, _dtype: Any, _enabled: bool, _cache: Any, body: Any,
    args: Sequence[Any] = (),
) -> Any:  # fmt: skip
    """The casts of the region are ops of its body already."""
    return read_wrap(body, args)


def read_subgraph(subgraph: Any, _identifier: Any, operands: Sequence[Any] = ()) -> Any:
    return tuple(inline_body(subgraph, operands))


def decline_triton(**arguments: Any) -> Any:
    del arguments
    raise Decline(
        "a kernel in Triton is code for GPUs; write the function in ops of PyTorch, "
        "for instance with a flag that selects it for export"
    )


def decline_functionalized(*values: Any, _mutable_op: Any) -> Any:
    """One that is declared is a call by now; its other attributes are left out."""
    del values
    name = op_type(str(_mutable_op))
    library, _, op = name.partition(".")
    raise Decline(
        f"{name} is an op of torch.library without a definition: declare it, "
        f'@amanda.custom_op("torch/{library}@1", "{op.removesuffix(".default")}(...)")'
    )


READ = torch_functions(
    {
        "higher_order.cond": read_cond,
        "higher_order.while_loop": read_while,
        "higher_order.scan": read_scan,
        "higher_order.map_impl higher_order.map": read_map,
        "higher_order.associative_scan": read_associative_scan,
        "higher_order.wrap higher_order.wrap_activation_checkpoint": read_wrap,
        "higher_order.tag_activation_checkpoint higher_order.strict_mode": read_wrap,
        "higher_order.run_const_graph higher_order.foreach_map": read_wrap,
        "higher_order.hints_wrapper": read_hints,
        "higher_order.invoke_subgraph": read_subgraph,
        "higher_order.wrap_with_set_grad_enabled": read_gradient_region,
        "higher_order.wrap_with_autocast": read_autocast,
    },
    domain="",
) | {
    **{
        f"higher_order.triton_kernel_wrapper_{kind}": decline_triton
        for kind in ("functional", "mutation")
    },
    **{
        f"higher_order.auto_functionalized{version}": decline_functionalized
        for version in ("", "_v2")
    },
}
