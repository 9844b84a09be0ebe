"""From ONNX: reductions. Axes are an attribute in old opsets, an input in new ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from amanda.mapping import Decline
from amanda_std import ops
from amanda_std.mappings import known_content, known_or_value, tensor_type_of

__all__ = ["READ"]


class _Reduction(NamedTuple):
    before: Callable[..., Any]
    """What is applied to the data first."""
    reduce: Callable[..., Any]
    axes_input_since: int = 18


def _same(x: Any) -> Any:
    return x


_REDUCTIONS = {
    "ReduceSum": _Reduction(_same, ops.sum, 13),
    "ReduceMean": _Reduction(_same, ops.mean),
    "ReduceMax": _Reduction(_same, ops.max),
    "ReduceMin": _Reduction(_same, ops.min),
    "ReduceProd": _Reduction(_same, ops.prod),
    "ReduceL1": _Reduction(ops.abs, ops.sum),
    "ReduceL2": _Reduction(ops.square, lambda *a, **k: ops.sqrt(ops.sum(*a, **k))),
    "ReduceSumSquare": _Reduction(ops.square, ops.sum),
    "ReduceLogSum": _Reduction(_same, lambda *a, **k: ops.log(ops.sum(*a, **k))),
    "ReduceLogSumExp": _Reduction(_same, ops.logsumexp),
}
_REAL = ("ReduceL2", "ReduceLogSum", "ReduceLogSumExp")
"""Reductions whose results are no integers, even of integers."""


def _reduce(type: str, x: Any, axes: Any, keepdims: int) -> Any:
    before, reduce, _ = _REDUCTIONS[type]
    if str(x.dtype.kind) in ("int", "uint"):
        return _reduce_integers(type, x, axes, bool(keepdims))
    if str(x.dtype.kind) == "bool" and type in ("ReduceMax", "ReduceMin"):
        reduce = ops.any if type == "ReduceMax" else ops.all
    return reduce(before(x), axes, keepdims=bool(keepdims))


def _reduce_integers(type: str, x: Any, axes: Any, keepdims: bool) -> Any:
    """A reduction of integers: what is no integer is truncated, as by onnxruntime."""
    before, reduce, _ = _REDUCTIONS[type]
    if type == "ReduceMean":
        total = ops.sum(x, axes, keepdims=keepdims)
        return ops.divide(total, ops.sum(ops.ones_like(x), axes, keepdims=keepdims))
    if type in _REAL:
        wide = ops.astype(x, dtype="float64")
        found = reduce(before(wide), axes, keepdims=keepdims)
        return ops.astype(found, dtype=x.dtype)
    return reduce(before(x), axes, keepdims=keepdims)


def _axes_as_attribute(type: str) -> Callable[..., Any]:
    def reduction(x: Any, *, axes: Any = None, keepdims: int = 1) -> Any:
        return _reduce(type, x, axes or None, keepdims)

    return reduction


def _axes_as_input(type: str) -> Callable[..., Any]:
    def reduction(
        x: Any, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Any:
        if axes is not None and noop_with_empty_axes:
            return _reduce(type, x, known_or_value(axes), keepdims)
        if axes is None or _is_empty(axes):
            return _reduce(type, x, () if noop_with_empty_axes else None, keepdims)
        return _reduce(type, x, known_or_value(axes), keepdims)

    return reduction


def _is_empty(axes: Any) -> bool:
    known = known_content(axes)
    if known is not None:
        return not known
    shape = tensor_type_of(axes).shape
    if not shape.is_static:
        raise Decline("the number of axes is dynamic; it may be 0")
    return int(shape.size) == 0


READ: dict[str, Any] = {}
for _type, _reduction in _REDUCTIONS.items():
    _since = _reduction.axes_input_since
    READ[f"{_type}[:{_since - 1}]"] = _axes_as_attribute(_type)
    READ[f"{_type}[{_since}:]"] = _axes_as_input(_type)
