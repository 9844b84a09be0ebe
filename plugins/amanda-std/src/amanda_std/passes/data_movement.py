"""Simplification of data movement, where dims and permutations are computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from amanda.graph import Op
from amanda.mapping import Decline, RuleSet
from amanda.types import Shape, dims_equal
from amanda_std import ops
from amanda_std.engine.traits import Trait
from amanda_std.engine.values import Value
from amanda_std.hub.op_access import (
    has_trait,
    is_std,
    operation_of,
    traced_arguments,
)
from amanda_std.inference.shape_arguments import to_dims

__all__ = [
    "TRANSPOSE",
    "add_rules",
    "first_producer",
    "inverse_permutation",
    "full_permutation",
    "transpose",
    "transpose_once",
]

TRANSPOSE: Final = ops.OPS["transpose"]


def add_rules(rules: RuleSet) -> None:
    """Add the functions of this module to a rule set."""
    for name, call in _RULES.items():
        rules.read(name)(call)


def full_permutation(perm: Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """A permutation in full, with non-negative axes; None reverses all.

    >>> full_permutation(None, 3), full_permutation([0, -1, 1], 3)
    ((2, 1, 0), (0, 2, 1))
    """
    if perm is None:
        return tuple(range(rank))[::-1]
    return tuple([axis % rank for axis in perm])


def inverse_permutation(order: Sequence[int]) -> tuple[int, ...]:
    """The permutation that undoes another.

    >>> inverse_permutation((2, 0, 1))
    (1, 2, 0)
    """
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def _producer(value: Any, name: str) -> Op:
    """The op that computes a value, if it has this type; else Decline."""
    op = value.port.op
    if value.port.graph is not op.graph or not is_std(op) or op.type != name:
        raise Decline(f"it is not made by {name}")
    return op  # type: ignore[no-any-return]


def first_producer(op: Op) -> Any:
    """The first operand of an op, as a `Value`."""
    return Value(op.inputs[0])  # type: ignore[arg-type]


def _is_shape_of(x: Any, shape: Shape) -> bool:
    """Whether this is surely the shape of x."""
    own = x.type.shape
    if not (own.has_rank and shape.has_rank) or own.rank != shape.rank:
        return False
    return all(dims_equal(a, b) is True for a, b in zip(own, shape, strict=True))


def _result_shape(name: str, x: Any, shape: Any, **attrs: Any) -> Shape:
    """The result shape of an op whose second argument is a shape."""
    found = ops.OPS[name].types([x.type, to_dims(shape)], attrs)
    return found[0].shape  # type: ignore[attr-defined, no-any-return]


# -- rules -------------------------------------------------------------------------


def _identity(x: Any) -> Any:
    return x


def transpose(x: Any, *, perm: Any) -> Any:
    """Remove an identity transpose; merge two into one."""
    rank = x.ndim
    order = full_permutation(perm, rank)
    if order == tuple(range(rank)):
        return x
    return _merge_transposes(_producer(x, "transpose"), order)


def transpose_once(x: Any, order: tuple[int, ...]) -> Any:
    """Transpose a value, merged with a transpose that computes it."""
    first = x.port.op
    if not has_trait(first, Trait.PERMUTES_AXES):
        return TRANSPOSE(x, perm=order)
    return _merge_transposes(first, order)


def _merge_transposes(first: Op, order: tuple[int, ...]) -> Any:
    """One transpose in place of two."""
    before = full_permutation(first.attrs.get("perm"), len(order))
    joined = tuple([before[axis] for axis in order])
    if joined == tuple(range(len(order))):
        return first_producer(first)
    return TRANSPOSE(first_producer(first), perm=joined)


def _reshape(x: Any, shape: Any, *, copy_zero: bool) -> Any:
    """Remove a reshape to the same shape; skip the first of two; replace a computed
    shape of which at most one dim is unknown.

    If the second copies a dim of the first one's result, both stay."""
    found = _result_shape("reshape", x, shape, copy_zero=copy_zero)
    if _is_shape_of(x, found):
        return x
    if isinstance(shape, Value) and (dims := _with_one_inferred(found)):
        return ops.reshape(x, dims)
    if copy_zero:
        raise Decline("it may copy a dim of what it reads")
    if has_trait(x.port.op, Trait.REDUCTION) and len(x.port.users) == 1:
        return _reduction_with_axes(x.port.op, found)
    first = _producer(x, "reshape")
    return ops.reshape(first_producer(first), shape)


def _reduction_with_axes(op: Op, shape: Shape) -> Any:
    """A reduction that keeps its axes, if a reshape to this shape adds them again."""
    args, attrs = traced_arguments(op)
    result = operation_of(op)(*args, **{**attrs, "keepdims": True})
    if not _is_shape_of(result, shape):
        raise Decline("other axes are added")
    return result


def _with_one_inferred(shape: Shape) -> list[int] | None:
    """The dims with -1 for the only unknown one; None where that is ambiguous."""
    if not shape.has_rank:
        return None
    dims = [int(dim) if isinstance(dim, int) else -1 for dim in shape]
    return dims if dims.count(-1) <= 1 and 0 not in dims else None


def _astype(x: Any, *, dtype: Any) -> Any:
    if x.dtype == dtype:
        return x
    first = _producer(x, "astype")
    source = first_producer(first)
    if not _can_represent(x.dtype, source.dtype):
        raise Decline(f"{x.dtype} does not hold all of {source.dtype}")
    return ops.astype(source, dtype=dtype)


def _can_represent(wide: Any, narrow: Any) -> bool:
    """Whether one dtype represents every number of another."""
    if wide.kind == narrow.kind and wide.kind in ("int", "uint"):
        return bool(wide.bits >= narrow.bits)
    if narrow.kind == "bool":
        return wide.kind in ("int", "uint", "float")
    if narrow.kind == "uint" and wide.kind == "int":
        return bool(wide.bits > narrow.bits)
    return (wide.name, narrow.name) in _WIDER_FLOATS


_WIDER_FLOATS = frozenset(
    [("float64", name) for name in ("float32", "float16", "bfloat16")]
    + [("float32", "float16"), ("float32", "bfloat16"), ("complex128", "complex64")]
)


def _broadcast_to(x: Any, shape: Any) -> Any:
    if not _is_shape_of(x, _result_shape("broadcast_to", x, shape)):
        raise Decline("it may be repeated")
    return x


def _concat(*xs: Any, **_: Any) -> Any:
    if len(xs) != 1:
        raise Decline("there are several parts")
    return xs[0]


def _tile(x: Any, repeats: Any) -> Any:
    if not isinstance(repeats, list | tuple) or any(n != 1 for n in repeats):
        raise Decline("something is repeated")
    return x


def _pad(x: Any, pads: Any, *_: Any, **_attrs: Any) -> Any:
    if not isinstance(pads, list | tuple) or any(a or b for a, b in pads):
        raise Decline("something is put around")
    return x


def _sum_to(x: Any, like: Any) -> Any:
    if not _is_shape_of(x, like.type.shape):
        raise Decline("something may be summed")
    return x


def _squeeze(x: Any, axes: Any = None) -> Any:
    first = _producer(x, "expand_dims")
    source = first_producer(first)
    added = first.attrs.get("axes")
    if (
        added is None
        or axes is None
        or not _are_integers(added)
        or not _are_integers(axes)
    ):
        raise Decline("the axes are not constant")
    if {a % x.ndim for a in _as_sequence(added)} != {
        a % x.ndim for a in _as_sequence(axes)
    }:
        raise Decline("other axes are taken out")
    return source


def _are_integers(axes: Any) -> bool:
    return isinstance(axes, int) or (
        isinstance(axes, list | tuple) and all(isinstance(a, int) for a in axes)
    )


def _as_sequence(axes: Any) -> Sequence[int]:
    return (axes,) if isinstance(axes, int) else axes


_RULES: dict[str, Callable[..., Any]] = {
    "identity": _identity,
    "transpose": transpose,
    "reshape": _reshape,
    "astype": _astype,
    "broadcast_to": _broadcast_to,
    "concat": _concat,
    "tile": _tile,
    "pad": _pad,
    "sum_to": _sum_to,
    "squeeze": _squeeze,
}
