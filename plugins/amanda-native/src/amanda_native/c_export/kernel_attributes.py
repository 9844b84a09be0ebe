"""The attributes of ops as their kernels in C want them: complete, from the front."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from amanda.errors import BackendError
from amanda.graph import OutputPort
from amanda_native.c_export.static_graph import tensor_type
from amanda_std.backends import (
    SHAPE_ARG,
    channels_first_permutation,
    explicit_padding,
    op_arguments,
    operation_of,
    per_axis,
    permute,
    to_integers,
)

if TYPE_CHECKING:
    from amanda.graph import Op

__all__ = ["kernel_attributes"]

Arguments = Mapping[str, Any]
"""Arguments and attributes of an op by name: values as ports, integers in tuples."""
Fields = dict[str, Any]
"""Fields of the struct `attributes`: lists in capitals."""


def kernel_attributes(op: Op) -> Fields:
    """The fields that differ from 0, by name."""
    make = _MAKERS.get(op.type or "")
    return {} if make is None else make(op, _arguments(op))


def _arguments(op: Op) -> dict[str, Any]:
    """The arguments of an op by name; constant shape arguments are integers."""
    args, attrs = op_arguments(op, lambda port: port)
    params = operation_of(op).form.params_of(len(args))
    named = {p.name: a for p, a in zip(params, args, strict=True)}
    for param in params:
        if param.role == SHAPE_ARG:
            named[param.name] = _integers(op, named[param.name])
    return {**named, **attrs}


def _integers(op: Op, value: Any) -> Any:
    if not isinstance(value, OutputPort):
        return value
    if not value.op.is_constant:
        raise BackendError(
            "a shape argument is known only when the graph runs",
            who=op.label,
            expected="a constant",
            got=value,
        )
    return to_integers(value.op.attrs["value"])


def _rank(op: Op) -> int:
    return len(_shape(op))


def _shape(op: Op, i: int = 0) -> tuple[int, ...]:
    value = op.inputs[i]
    assert value is not None
    return tensor_type(value)[1]


def _axes(axes: Any, rank: int) -> list[int]:
    """Axes from the front; all of them by default."""
    if axes is None:
        return list(range(rank))
    given = (axes,) if isinstance(axes, int) else axes
    return [axis % rank for axis in given]


def _reduction(op: Op, given: Arguments) -> Fields:
    return {"AXES": _axes(given["axes"], _rank(op))}


def _argmax(op: Op, given: Arguments) -> Fields:
    return {"AXES": _axes(given["axis"], _rank(op)), "flag": int(given["last"])}


def _one_axis(op: Op, given: Arguments) -> Fields:
    return {"AXES": _axes(given["axis"], _rank(op)), "groups": len(op.inputs)}


def _stack(op: Op, given: Arguments) -> Fields:
    return {"AXES": _axes(given["axis"], _rank(op) + 1), "groups": len(op.inputs)}


def _arange(op: Op, given: Arguments) -> Fields:
    del op
    step = 1 if given["step"] is None else given["step"]
    return {"STARTS": [_one(given["start"])], "STEPS": [_one(step)]}


def _one(number: Any) -> int:
    """A single integer, which may be in a tuple."""
    return int(number[0] if isinstance(number, tuple) else number)


def _transpose(op: Op, given: Arguments) -> Fields:
    rank = _rank(op)
    return {"AXES": _axes(given["perm"] or range(rank)[::-1], rank)}


def _slice(op: Op, given: Arguments) -> Fields:
    shape = _shape(op)
    starts, steps = [0] * len(shape), [1] * len(shape)
    count = len(given["starts"])
    axes = _axes(range(count) if given["axes"] is None else given["axes"], len(shape))
    for i, axis in enumerate(axes):
        steps[axis] = given["steps"][i] if given["steps"] else 1
        cut = slice(given["starts"][i], given["stops"][i], steps[axis])
        starts[axis] = cut.indices(shape[axis])[0]
    return {"STARTS": starts, "STEPS": steps}


def _flip(op: Op, given: Arguments) -> Fields:
    shape = _shape(op)
    axes = _axes(given["axes"], len(shape))
    starts = [n - 1 if i in axes else 0 for i, n in enumerate(shape)]
    return {
        "STARTS": starts,
        "STEPS": [-1 if i in axes else 1 for i in range(len(shape))],
    }


def _pad(op: Op, given: Arguments) -> Fields:
    rank = _rank(op)
    pairs = dict(zip(_axes(given["axes"], rank), given["pads"], strict=True))
    return {"PADS": [n for i in range(rank) for n in pairs.get(i, (0, 0))]}


def _windows(op: Op, given: Arguments, kernel: Any) -> Fields:
    """Strides, dilations and explicit padding, over the spatial axes."""
    shape = permute(_shape(op), channels_first_permutation(given["layout"], _rank(op)))
    count = len(kernel)
    steps, gaps = per_axis(given["strides"], count), per_axis(given["dilations"], count)
    pairs = explicit_padding(given["padding"], shape[2:], kernel, steps, gaps)
    return {
        "STEPS": list(steps),
        "DILATIONS": list(gaps),
        "PADS": [n for pair in pairs for n in pair],
        "channels_last": int(given["layout"] == "N*C"),
    }


def _conv(op: Op, given: Arguments) -> Fields:
    layout = given["kernel_layout"]
    shape = _shape(op, 1)
    kernel = permute(shape, channels_first_permutation(layout, len(shape)))[2:]
    number = ("OI*", "IO*", "*IO", "O*I").index(layout)
    own = {"groups": given["groups"], "kernel_layout": number}
    return {**_windows(op, given, kernel), **own}


def _pool(op: Op, given: Arguments) -> Fields:
    own = {
        "SIZES": list(given["window"]),
        "count_pads": int(given.get("count_pads", False)),
    }
    return {**_windows(op, given, given["window"]), **own}


_MAKERS: Final[Mapping[str, Callable[[Op, Arguments], Fields]]] = MappingProxyType(
    {
        **dict.fromkeys(("sum", "prod", "max", "min", "all", "any"), _reduction),
        "argmax": _argmax,
        "arange": _arange,
        "concat": _one_axis,
        "dim": _one_axis,
        "stack": _stack,
        "gather": _one_axis,
        "gather_elements": _one_axis,
        "transpose": _transpose,
        "slice": _slice,
        "flip": _flip,
        "pad": _pad,
        "conv": _conv,
        "max_pool": _pool,
        "avg_pool": _pool,
    }
)
