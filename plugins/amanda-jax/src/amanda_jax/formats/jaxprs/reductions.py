"""Reductions by functions of two elements, and of the bits of integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from amanda_jax.formats.jaxprs.shapes import READ as OF_SHAPES
from amanda_jax.formats.jaxprs.shapes import expect
from amanda_std import ops
from amanda_std.mappings import inline_body

__all__ = ["READ", "combine_by", "fold"]

Values: TypeAlias = Sequence[Any]
Combine: TypeAlias = Callable[[Values, Values], Values]
"""What two elements of each operand become; also applied to tensors of elements."""


def reduce(
    *operands: Any,
    jaxpr: Any,
    dimensions: Any,
    computation: Any,
    out_sharding: Any = None,
) -> Any:
    """The elements are combined two by two, then with the initial values."""
    del computation, out_sharding
    count = len(operands) // 2
    xs, initial = operands[:count], operands[count:]

    combine = partial(combine_by, jaxpr)
    return tuple(combine(initial, fold(xs, dimensions, combine)))


def combine_by(jaxpr: Any, left: Values, right: Values) -> Values:
    """What a jaxpr makes of elements of the operands and as many others."""
    return inline_body(jaxpr, (*left, *right))


def fold(xs: Values, axes: Sequence[int], combine: Combine) -> Values:
    """The elements along axes, combined two by two."""
    for axis in axes:
        xs = _fold_axis(xs, axis, combine)
    return [ops.squeeze(x, tuple(axes)) if axes else x for x in xs]


def _fold_axis(xs: Values, axis: int, combine: Combine) -> Values:
    """The elements along an axis combined, the first half of them with the second."""
    size = int(xs[0].type.shape[axis])
    expect(size, "no elements are reduced")
    while size > 1:
        half, odd = divmod(size, 2)
        first = [ops.slice(x, [0], [half], [axis]) for x in xs]
        second = [ops.slice(x, [half], [2 * half], [axis]) for x in xs]
        folded = combine(first, second)
        is_elementwise = all(
            y.type.shape == x.type.shape for x, y in zip(first, folded, strict=True)
        )
        expect(is_elementwise, "elements are combined by what is not elementwise")
        if odd:
            rest = [ops.slice(x, [size - 1], [size], [axis]) for x in xs]
            rows = zip(folded, rest, strict=True)
            folded = [ops.concat(*row, axis=axis) for row in rows]
        xs, size = folded, half + odd
    return xs


def _reduction_of_bits(name: str, logical: str, bitwise: str) -> Callable[..., Any]:
    """A reduction of conditions that the hub has, or else one of bits."""
    reduce_conditions = OF_SHAPES.get(name)

    def read(x: Any, *, axes: Any, out_sharding: Any = None) -> Any:
        is_logical = x.dtype.kind == "bool"
        if is_logical and reduce_conditions is not None:
            return reduce_conditions(x, axes=axes, out_sharding=out_sharding)
        operation = ops.OPS[logical if is_logical else bitwise]
        return fold([x], axes, lambda a, b: [operation(*a, *b)])[0]

    read.__name__ = name
    return read


READ: Final[dict[str, Callable[..., Any]]] = {
    "reduce": reduce,
    "reduce_and": _reduction_of_bits("reduce_and", "logical_and", "bitwise_and"),
    "reduce_or": _reduction_of_bits("reduce_or", "logical_or", "bitwise_or"),
    "reduce_xor": _reduction_of_bits("reduce_xor", "logical_xor", "bitwise_xor"),
}
