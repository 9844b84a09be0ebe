"""Primitives of networks: products, convolutions, windows; choices and loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from string import ascii_lowercase
from typing import Any, Final

from amanda_jax.formats.jaxprs.shapes import expect
from amanda_std import ops
from amanda_std.backends import inverse_permutation
from amanda_std.mappings import inline_body

__all__ = ["READ"]


def dot_general(
    a: Any, b: Any, *, dimension_numbers: Any, precision: Any = None,
    preferred_element_type: Any = None, out_sharding: Any = None,
) -> Any:  # fmt: skip
    """A product of matrices where it is one as it stands, else a sum over names."""
    del precision, out_sharding
    wide = preferred_element_type
    if wide is not None and wide != a.dtype:
        a, b = ops.astype(a, dtype=wide), ops.astype(b, dtype=wide)
    (left, right), (left_batch, right_batch) = dimension_numbers
    count = len(left_batch)
    batch = list(range(count))
    straight = list(left_batch) == batch == list(right_batch)
    one = len(left) == len(right) == 1 and left[0] == a.ndim - 1 and right[0] == count
    if straight and one and b.ndim == count + 2 and (not count or a.ndim == count + 2):
        return ops.matmul(a, b)
    return _summed(a, b, left, right, left_batch, right_batch)


def _summed(
    a: Any, b: Any, left: Any, right: Any, left_batch: Any, right_batch: Any
) -> Any:
    names = iter(ascii_lowercase)
    first = {axis: next(names) for axis in range(a.ndim)}
    second = dict(zip(right, (first[axis] for axis in left), strict=True))
    second.update(zip(right_batch, (first[axis] for axis in left_batch), strict=True))
    for axis in range(b.ndim):
        second.setdefault(axis, "")
        second[axis] = second[axis] or next(names)
    batch = [first[axis] for axis in left_batch]
    gone = {first[axis] for axis in left}
    rest = [n for n in (*_ordered(first), *_ordered(second)) if n not in gone]
    kept = [*batch, *dict.fromkeys(n for n in rest if n not in batch)]
    sides = (_ordered(first), _ordered(second), kept)
    x, y, z = ("".join(side) for side in sides)
    return ops.einsum(a, b, equation=f"{x},{y}->{z}")


def _ordered(names: dict[int, str]) -> list[str]:
    return [names[axis] for axis in sorted(names)]


def conv(
    x: Any, w: Any, *, window_strides: Any, padding: Any, lhs_dilation: Any,
    rhs_dilation: Any, dimension_numbers: Any, feature_group_count: int,
    batch_group_count: int, precision: Any = None, preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:  # fmt: skip
    del precision, out_sharding
    expect(all(d == 1 for d in lhs_dilation), "the data is spread by strides")
    expect(batch_group_count == 1, "the batch is in groups")
    expect(all(a >= 0 and b >= 0 for a, b in padding), "the data is cropped")
    wide = preferred_element_type
    expect(wide is None or wide == x.dtype, "the sum is of another type")
    numbers = {key: tuple(order) for key, order in dimension_numbers.items()}
    x, w = _turned(x, numbers["lhs_spec"]), _turned(w, numbers["rhs_spec"])
    y = ops.conv(
        x,
        w,
        strides=tuple(window_strides),
        padding=tuple(map(tuple, padding)),
        dilations=tuple(rhs_dilation),
        groups=feature_group_count,
    )
    return _turned(y, inverse_permutation(numbers["out_spec"]))


def _turned(x: Any, order: Sequence[int]) -> Any:
    told = tuple(order)
    return x if told == tuple(range(x.ndim)) else ops.transpose(x, perm=told)


def _windows(pool: Callable[..., Any]) -> Callable[..., Any]:
    def read(
        x: Any, *, window_dimensions: Any, window_strides: Any, padding: Any,
        base_dilation: Any, window_dilation: Any,
    ) -> Any:  # fmt: skip
        expect(all(d == 1 for d in base_dilation), "the data is spread by strides")
        first = _first(window_dimensions, window_strides, padding)
        behind = x.ndim - 1
        cut = slice(2, None) if first == 1 else slice(1, behind)
        return pool(
            x,
            window=tuple(window_dimensions[cut]),
            strides=tuple(window_strides[cut]),
            padding=tuple(map(tuple, padding[cut])),
            dilations=tuple(window_dilation[cut]),
            layout="NC*" if first == 1 else "N*C",
        )

    return read


def _first(window: Any, strides: Any, padding: Any) -> int:
    """The axis of the channels: one on which no window moves, beside the batch."""
    rows = zip(window, strides, padding, strict=True)
    still = [w == s == 1 and tuple(p) == (0, 0) for w, s, p in rows]
    expect(len(still) > 2 and still[0], "windows move along the batch")
    expect(still[1] or still[-1], "windows move along the channels")
    return 1 if still[1] else len(still) - 1


def _total(x: Any, *, window: Any, **rest: Any) -> Any:
    mean = ops.avg_pool(x, window=window, count_pads=True, **rest)
    return mean * float(prod(window))


def _least(x: Any, **rest: Any) -> Any:
    return -ops.max_pool(-x, **rest)


# -- choices and loops ---------------------------------------------------------------


def cond(index: Any, *xs: Any, branches0: Any, **others: Any) -> Any:
    """An index beyond the last is the last; below 0 it is the first."""
    bodies = [branches0, *(others[f"branches{i}"] for i in range(1, len(others) + 1))]
    return ops.case(ops.maximum(index, 0), bodies, *xs)


def scan(
    *values: Any, jaxpr: Any, length: int, num_carry: int, num_consts: int,
    reverse: bool, unroll: Any = None,
) -> Any:  # fmt: skip
    del unroll
    around, rest = values[:num_consts], values[num_consts:]
    rows = len(rest) - num_carry
    scanned = len(jaxpr.results) - num_carry

    def body(*now: Any) -> Any:
        return inline_body(jaxpr, (*around, *now))

    back: Any = (reverse,) * rows if reverse and rows else None
    out: Any = (reverse,) * scanned if reverse and scanned else None
    told = None if rows else length
    return ops.scan(body, told, *rest, carried=num_carry, reverse=back, out_reverse=out)


def while_(
    *values: Any, cond_jaxpr: Any, body_jaxpr: Any, cond_nconsts: int, body_nconsts: int
) -> Any:
    both = cond_nconsts + body_nconsts
    asked, around = values[:cond_nconsts], values[cond_nconsts:both]
    many = cond_jaxpr.results[0].type.shape.rank > 0

    def goes_on(*now: Any) -> Any:
        told = inline_body(cond_jaxpr, (*asked, *now))[0]
        return ops.any(told) if many else told

    def once(*now: Any) -> Any:
        """Where several loops run side by side, those that have ended stay."""
        after = inline_body(body_jaxpr, (*around, *now))
        if not many:
            return after
        told = inline_body(cond_jaxpr, (*asked, *now))[0]
        rows = zip(after, now, strict=True)
        return [ops.where(_beside(told, new), new, old) for new, old in rows]

    return ops.while_(goes_on, once, *values[both:])


def _beside(told: Any, value: Any) -> Any:
    """Flags for the first axes of a value, with an axis for each that it has more."""
    more = range(told.ndim, value.ndim)
    return ops.expand_dims(told, tuple(more)) if more else told


READ: Final[dict[str, Callable[..., Any]]] = {
    "dot_general": dot_general,
    "conv_general_dilated": conv,
    "reduce_window_max": _windows(ops.max_pool),
    "reduce_window_min": _windows(_least),
    "reduce_window_sum": _windows(_total),
    "cond": cond,
    "scan": scan,
    "while": while_,
}
