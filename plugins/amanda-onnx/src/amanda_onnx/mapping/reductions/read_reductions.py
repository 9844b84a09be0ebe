"""From ONNX: reductions. Axes are an attribute in old opsets, an input in new ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amanda.mapping import Decline
from amanda_onnx.mapping.static_values import content, ints
from amanda_std import ops

__all__ = ["READ"]

_MEANING: dict[str, tuple[Callable[..., Any], Callable[..., Any], int]] = {
    # what is done to x first, how it is reduced, and the first opset with axes as input
    "ReduceSum": (lambda x: x, ops.sum, 13),
    "ReduceMean": (lambda x: x, ops.mean, 18),
    "ReduceMax": (lambda x: x, ops.max, 18),
    "ReduceMin": (lambda x: x, ops.min, 18),
    "ReduceProd": (lambda x: x, ops.prod, 18),
    "ReduceL1": (ops.abs, ops.sum, 18),
    "ReduceL2": (ops.square, lambda *a, **k: ops.sqrt(ops.sum(*a, **k)), 18),
    "ReduceSumSquare": (ops.square, ops.sum, 18),
    "ReduceLogSum": (lambda x: x, lambda *a, **k: ops.log(ops.sum(*a, **k)), 18),
    "ReduceLogSumExp": (lambda x: x, ops.logsumexp, 18),
}


def _reduced(type: str, x: Any, axes: Any, keepdims: int) -> Any:
    before, reduce, _ = _MEANING[type]
    is_truth = str(x.dtype.kind) == "bool" and type in ("ReduceMax", "ReduceMin")
    if is_truth:
        reduce = ops.any if type == "ReduceMax" else ops.all
    return reduce(before(x), axes, keepdims=bool(keepdims))


def _with_attribute(type: str) -> Callable[..., Any]:
    def reduction(x: Any, *, axes: Any = None, keepdims: int = 1) -> Any:
        return _reduced(type, x, axes or None, keepdims)

    return reduction


def _with_input(type: str) -> Callable[..., Any]:
    def reduction(
        x: Any, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Any:
        if axes is None or _is_empty(axes):
            none = () if noop_with_empty_axes else None
            return _reduced(type, x, none, keepdims)
        return _reduced(type, x, ints(axes), keepdims)

    return reduction


def _is_empty(axes: Any) -> bool:
    told = content(axes)
    if told is not None:
        return not told
    shape = axes.type.shape
    if not shape.is_static:
        raise Decline("whether there are any axes is known at run time only")
    return int(shape.size) == 0


READ: dict[str, Any] = {}
for _type, (_, _, _first) in _MEANING.items():
    READ[f"{_type}[:{_first - 1}]"] = _with_attribute(_type)
    READ[f"{_type}[{_first}:]"] = _with_input(_type)
