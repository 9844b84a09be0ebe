"""Primitives of networks: products and convolutions; conditionals and loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from math import prod
from string import ascii_lowercase
from typing import Any, Final

import jax.numpy as jnp
import numpy as np

from amanda.types import DType
from amanda_jax.formats.jaxprs.shapes import expect, interleave, pad_ends
from amanda_jax.formats.jaxprs.sizes import compute_dims, has_symbols, shape_argument
from amanda_std import ops
from amanda_std.backends import inverse_permutation
from amanda_std.mappings import cast_to, inline_body

__all__ = ["READ", "permute"]

_EXACT_BITS: Final = 53
"""Integers of so many bits are exact as float64."""


def dot_general(
    a: Any, b: Any, *, dimension_numbers: Any, context: Any, precision: Any = None,
    preferred_element_type: Any = None, out_sharding: Any = None,
) -> Any:  # fmt: skip
    """A product in a type that holds the operands and the result; of conditions,
    whether any two of them are both true."""
    del precision, out_sharding, preferred_element_type
    result = context.source.output.type.dtype
    wide = _wide_type(a.dtype, b.dtype, result)
    if result.kind == "bool":
        count = _product(cast_to(a, "int32"), cast_to(b, "int32"), dimension_numbers)
        return ops.greater(count, np.int32(0))
    return cast_to(
        _product(cast_to(a, wide), cast_to(b, wide), dimension_numbers), result
    )


def _wide_type(*dtypes: DType) -> DType:
    """The element type that a product of these types is computed in."""
    if len(set(dtypes)) == 1:
        return dtypes[0]
    return DType.of(reduce(jnp.promote_types, map(_promotable, dtypes)))


def _promotable(dtype: DType) -> Any:
    """A type that has a promotion in JAX, which the smallest have not."""
    if dtype.kind == "float":
        return dtype.numpy if dtype.bits > 8 else jnp.bfloat16
    return dtype.numpy if dtype.bits >= 8 else np.dtype(f"{dtype.kind}8")


def _product(a: Any, b: Any, dimension_numbers: Any) -> Any:
    """A matrix product where the axes are in that order, else an einsum."""
    (left, right), (left_batch, right_batch) = dimension_numbers
    count = len(left_batch)
    batch = list(range(count))
    is_in_order = list(left_batch) == batch == list(right_batch)
    has_one_contraction = (
        len(left) == len(right) == 1 and left[0] == a.ndim - 1 and right[0] == count
    )
    if (
        is_in_order
        and has_one_contraction
        and b.ndim == count + 2
        and (not count or a.ndim == count + 2)
    ):
        return ops.matmul(a, b)
    return _einsum(a, b, left, right, left_batch, right_batch)


def _einsum(
    a: Any, b: Any, left: Any, right: Any, left_batch: Any, right_batch: Any
) -> Any:
    names = iter(ascii_lowercase)
    lhs_labels = {axis: next(names) for axis in range(a.ndim)}
    rhs_labels = dict(zip(right, (lhs_labels[axis] for axis in left), strict=True))
    rhs_labels.update(
        zip(right_batch, (lhs_labels[axis] for axis in left_batch), strict=True)
    )
    for axis in range(b.ndim):
        rhs_labels.setdefault(axis, "")
        rhs_labels[axis] = rhs_labels[axis] or next(names)
    batch = [lhs_labels[axis] for axis in left_batch]
    contracted = {lhs_labels[axis] for axis in left}
    free_labels = [
        n
        for n in (*_labels_in_order(lhs_labels), *_labels_in_order(rhs_labels))
        if n not in contracted
    ]
    result_labels = [*batch, *dict.fromkeys(n for n in free_labels if n not in batch)]
    terms = (_labels_in_order(lhs_labels), _labels_in_order(rhs_labels), result_labels)
    x, y, z = ("".join(side) for side in terms)
    return ops.einsum(a, b, equation=f"{x},{y}->{z}")


def _labels_in_order(names: dict[int, str]) -> list[str]:
    return [names[axis] for axis in sorted(names)]


def conv(
    x: Any, w: Any, *sizes: Any, window_strides: Any, padding: Any, lhs_dilation: Any,
    rhs_dilation: Any, dimension_numbers: Any, feature_group_count: int,
    batch_group_count: int, context: Any, precision: Any = None,
    preferred_element_type: Any = None, out_sharding: Any = None,
) -> Any:  # fmt: skip
    del precision, out_sharding, preferred_element_type
    result = context.source.output.type.dtype
    wide = _wide_type(x.dtype, w.dtype, result)
    numbers = {key: tuple(order) for key, order in dimension_numbers.items()}
    x, w = permute(x, numbers["lhs_spec"]), permute(w, numbers["rhs_spec"])
    if batch_group_count > 1:
        x = _batch_groups_as_channels(x, batch_group_count)
    for axis, dilation in enumerate(lhs_dilation, start=2):
        x = interleave(x, axis, dilation - 1)
    if has_symbols(padding) or any(n < 0 for pair in padding for n in pair):
        zero = np.zeros((), x.dtype.numpy)
        x = pad_ends(x, zero, [(0, 0), (0, 0), *padding], sizes)
        padding = [(0, 0)] * len(padding)
    convolve = partial(
        ops.conv,
        strides=tuple(window_strides),
        padding=tuple(map(tuple, padding)),
        dilations=tuple(rhs_dilation),
        groups=max(feature_group_count, batch_group_count),
    )
    if wide.kind in ("int", "uint"):
        y = _convolve_integers(convolve, x, w)
    else:
        y = convolve(cast_to(x, wide), cast_to(w, wide))
    return permute(cast_to(y, result), inverse_permutation(numbers["out_spec"]))


def _batch_groups_as_channels(x: Any, groups: int) -> Any:
    """Groups of the batch side by side, as groups of the channels."""
    batch, channels, *spatial = x.shape
    size = batch // groups
    split = ops.reshape(x, shape_argument([groups, size, channels, *spatial]))
    swapped = ops.transpose(split, perm=(1, 0, *range(2, x.ndim + 1)))
    return ops.reshape(swapped, shape_argument([size, channels * groups, *spatial]))


def _convolve_integers(convolve: Callable[..., Any], x: Any, w: Any) -> Any:
    """The convolution of integers modulo 2**64, computed with floats that are exact.

    Integers of 32 bits are convolved in halves, of which no term is above 2**32."""
    terms = prod(int(dim) for dim in w.type.shape[1:])
    bits = [v.dtype.bits - (v.dtype.kind == "int") for v in (x, w)]
    largest = terms << sum(bits)
    if largest <= 1 << _EXACT_BITS:
        dtype = "float32" if largest <= 1 << 24 else "float64"
        y = convolve(cast_to(x, dtype), cast_to(w, dtype))
        return ops.astype(y, dtype="int64")
    expect(max(bits) <= 32, "integers of 64 bits are convolved")
    expect(terms << 32 <= 1 << _EXACT_BITS, "too many integers are convolved")
    (x_high, x_low), (w_high, w_low) = _halves(x), _halves(w)
    parts = [(x_low, w_low), (x_high, w_low), (x_low, w_high)]
    low, *middle = (ops.astype(convolve(*pair), dtype="int64") for pair in parts)
    return low + (middle[0] + middle[1]) * np.int64(1 << 16)


def _halves(x: Any) -> tuple[Any, Any]:
    """The upper bits of integers, and their 16 lower ones, as float64."""
    wide = ops.astype(x, dtype="int64")
    low = ops.bitwise_and(wide, np.int64(0xFFFF))
    high = ops.bitwise_right_shift(wide, np.int64(16))
    return cast_to(high, "float64"), cast_to(low, "float64")


def permute(x: Any, order: Sequence[int]) -> Any:
    perm = tuple(order)
    return x if perm == tuple(range(x.ndim)) else ops.transpose(x, perm=perm)


# -- conditionals and loops -----------------------------------------------------------


def cond(
    index: Any, *xs: Any, branches0: Any, branches_platforms: Any = None, **others: Any
) -> Any:
    """An index beyond the last selects the last branch; a negative one the first."""
    del branches_platforms  # the index is that of a branch for any platform
    bodies = [branches0, *(others[f"branches{i}"] for i in range(1, len(others) + 1))]
    return ops.case(ops.maximum(index, 0), bodies, *xs)


def composite(*xs: Any, jaxpr: Any, name: str, attributes: Any, version: int) -> Any:
    """What its jaxpr computes; targets that have it under its name are not asked."""
    del name, attributes, version
    return tuple(inline_body(jaxpr, xs))


def empty(
    *, dtype: Any, context: Any, shape: Any = (), memory_space: Any = None,
    out_sharding: Any = None,
) -> Any:  # fmt: skip
    """Zeros, for values that nothing reads, such as those of a branch not taken."""
    del dtype, memory_space, out_sharding  # the type of the result is told
    zero = np.zeros((), context.source.output.type.dtype.numpy)
    return ops.broadcast_to(zero, list(shape))


def platform_index(*, platforms: Any) -> Any:
    """The number of the branch that is for any platform."""
    expect(None in platforms, f"only for the platforms {platforms}")
    return np.int32(list(platforms).index(None))


def scan(
    *values: Any, jaxpr: Any, length: int, num_carry: int, num_consts: int,
    reverse: bool, unroll: Any = None,
) -> Any:  # fmt: skip
    del unroll
    count = len(jaxpr.parameters)
    constants, operands = values[:num_consts], values[num_consts:count]
    scanned_inputs = len(operands) - num_carry
    scanned_outputs = len(jaxpr.results) - num_carry

    def body(*carry: Any) -> Any:
        return inline_body(jaxpr, (*constants, *carry))

    reverse_inputs: Any = (
        (reverse,) * scanned_inputs if reverse and scanned_inputs else None
    )
    reverse_outputs: Any = (
        (reverse,) * scanned_outputs if reverse and scanned_outputs else None
    )
    [trips] = [None] if scanned_inputs else compute_dims([length], values[count:])
    return ops.scan(
        body,
        trips,
        *operands,
        carried=num_carry,
        reverse=reverse_inputs,
        out_reverse=reverse_outputs,
    )


def while_(
    *values: Any, cond_jaxpr: Any, body_jaxpr: Any, cond_nconsts: int, body_nconsts: int
) -> Any:
    both = cond_nconsts + body_nconsts
    condition_constants, constants = values[:cond_nconsts], values[cond_nconsts:both]
    is_batched = cond_jaxpr.results[0].type.shape.rank > 0

    def condition(*carry: Any) -> Any:
        flag = inline_body(cond_jaxpr, (*condition_constants, *carry))[0]
        return ops.any(flag) if is_batched else flag

    def step(*carry: Any) -> Any:
        """In a batch of loops, those that have ended keep their values."""
        updated = inline_body(body_jaxpr, (*constants, *carry))
        if not is_batched:
            return updated
        flag = inline_body(cond_jaxpr, (*condition_constants, *carry))[0]
        rows = zip(updated, carry, strict=True)
        return [ops.where(_expand_condition(flag, new), new, old) for new, old in rows]

    return ops.while_(condition, step, *values[both:])


def _expand_condition(flag: Any, value: Any) -> Any:
    """Conditions for the first axes of a value, expanded to its rank."""
    new_axes = range(flag.ndim, value.ndim)
    return ops.expand_dims(flag, tuple(new_axes)) if new_axes else flag


READ: Final[dict[str, Callable[..., Any]]] = {
    "dot_general": dot_general,
    "conv_general_dilated": conv,
    "cond": cond,
    "composite": composite,
    "empty": empty,
    "empty2": empty,
    "platform_index": platform_index,
    "scan": scan,
    "while": while_,
}
