"""Conversion of Python numbers, lists and arrays to tensors.

| operand | combines with tensors | alone |
|---|---|---|
| `bool` | of bools | bool |
| `int` | of integers, floats or complex numbers that represent it exactly | int64 |
| `float` | of floats or complex numbers, rounded to their precision | float64 |
| `complex` | of complex numbers, rounded to their precision | complex128 |
| a list, nested or not | as its numbers do | the widest of them |
| an array, a tensor | of its own dtype only | its own |

A number that the dtype cannot represent is refused, and so is a float that would
overflow. Arrays and tensors are never converted implicitly: use
`x.astype("float32")`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from amanda.errors import InvalidTypeError
from amanda.tensors import Tensor
from amanda.types import DType, Sym

__all__ = [
    "DEFAULT_DTYPES",
    "NUMBER_KINDS",
    "as_tensor",
    "is_literal",
    "is_number",
    "normalize_attribute",
]

NUMBER_KINDS: Final[dict[type, tuple[str, ...]]] = {
    bool: ("bool",),
    int: ("int", "uint", "float", "complex"),
    float: ("float", "complex"),
    complex: ("complex",),
}
"""The kinds of dtypes that a Python number converts to; the widest number last."""

DEFAULT_DTYPES: Final = {
    bool: "bool",
    int: "int64",
    float: "float64",
    complex: "complex128",
}
"""The dtype of a Python number without a tensor operand."""


def is_number(value: object) -> bool:
    """Whether this is a Python number, which has no dtype of its own."""
    return type(value) in NUMBER_KINDS


def is_literal(value: object) -> bool:
    """Whether this is a Python number, or nested lists of numbers."""
    if isinstance(value, list | tuple):
        return all(map(is_literal, value))
    return is_number(value)


def as_tensor(value: Any, dtype: DType | None = None) -> Tensor:
    """A number, or a list of numbers, as data of an element type.

    >>> as_tensor([1, 2.5]).dtype, as_tensor(1, DType("float32")).dtype
    (float64, float32)
    """
    numbers = list(_numbers(value))
    widest = max(map(type, numbers), key=list(NUMBER_KINDS).index, default=float)
    if dtype is None:
        return Tensor.of(value, DEFAULT_DTYPES[widest])
    if dtype.kind == "unknown":
        raise AssertionError("the caller knows the element type")
    if numbers and dtype.kind not in NUMBER_KINDS[widest]:
        raise InvalidTypeError(
            f"the number {_first(numbers, widest)!r} is none of {dtype}",
            expected=f"a number that {dtype} has",
            got=f"a Python {widest.__name__}",
            hint="convert the tensor first: ops.astype(x, dtype=...)",
        )
    if dtype.kind in ("float", "complex"):
        return _round_literals(value, numbers, dtype)
    return Tensor.of(value, dtype)


def _numbers(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple):
        for item in value:
            yield from _numbers(item)
    else:
        yield value


def _first(numbers: list[Any], kind: type) -> Any:
    return next(n for n in numbers if type(n) is kind)


def _round_literals(value: Any, numbers: list[Any], dtype: DType) -> Tensor:
    """Convert literals: round floats to the dtype; raise if an integer is inexact."""
    import numpy as np

    with np.errstate(over="ignore"):
        made = Tensor.of(value, dtype)
    kept = made.numpy().reshape(-1)
    wide = kept.astype("complex128" if dtype.kind == "complex" else "float64")
    for number, found in zip(numbers, wide.tolist(), strict=True):
        if type(number) is int and found != number:
            raise _lost(number, dtype, found)
        if np.isfinite(number) and not np.isfinite(found):
            raise _lost(number, dtype, found)
    return made


def _lost(number: Any, dtype: DType, found: Any) -> InvalidTypeError:
    return InvalidTypeError(
        f"the number {number!r} would be another one as {dtype}",
        expected=f"a number that {dtype} holds",
        got=f"{found!r} in its place",
        hint="convert the tensor to a wider type first: ops.astype(x, dtype=...)",
    )


def normalize_attribute(key: str, value: Any) -> Any:
    """An attribute in its stored form: hashable Python or Amanda types."""
    if isinstance(value, list | tuple):
        return tuple(normalize_attribute(key, item) for item in value)
    if key == "dtype" and value is not None and not isinstance(value, DType):
        return DType(value) if isinstance(value, str) else DType.of(value)
    if hasattr(value, "tolist") and not isinstance(value, Sym):
        return normalize_attribute(key, value.tolist())
    return value
