"""Element types of results: the type promotion of PyTorch.

Tensors with dims decide first, then scalar tensors, then numbers; those of a lower rank
count only where their category (bool, integer, float, complex) is higher.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from amanda.types import DType
from amanda_std import ops
from amanda_std.mappings import cast_to, rank_of

__all__ = [
    "BOOL",
    "FLOAT",
    "INT",
    "SymbolicNumber",
    "as_float",
    "as_ordered",
    "as_truth",
    "as_value",
    "is_number",
    "number",
    "promote",
    "promote_types",
    "result_type",
    "wide",
    "with_order",
]

BOOL: Final = DType("bool")
INT: Final = DType("int64")
FLOAT: Final = DType("float32")
COMPLEX: Final = DType("complex64")
_CATEGORIES: Final = {"bool": 0, "uint": 1, "int": 1, "float": 2, "complex": 3}


@dataclass(frozen=True)
class SymbolicNumber:
    """A scalar that promotes element types as a number of Python does."""

    value: Any

    @property
    def dtype(self) -> Any:
        return self.value.dtype


def is_number(operand: Any) -> bool:
    """Whether an operand is a number and no tensor."""
    return isinstance(operand, bool | int | float | complex | SymbolicNumber)


def _number_type(operand: Any) -> DType:
    if isinstance(operand, SymbolicNumber):
        kind = operand.dtype.kind
        return {"bool": BOOL, "float": FLOAT, "complex": COMPLEX}.get(kind, INT)
    if isinstance(operand, bool):
        return BOOL
    return INT if isinstance(operand, int) else (
        FLOAT if isinstance(operand, float) else COMPLEX
    )  # fmt: skip


def category(dtype: Any) -> int:
    """The category of an element type: bool, integer, float or complex, in order."""
    return _CATEGORIES[dtype.kind]


def _to_complex(dtype: Any) -> DType:
    return DType("complex128" if dtype.bits == 64 else "complex64")


def promote_types(a: Any, b: Any) -> Any:
    """The element type that holds elements of both types."""
    if a == b:
        return a
    low, high = sorted((a, b), key=category)
    if category(low) != category(high):
        if high.kind != "complex":
            return high
        double = low.kind == "float" and low.bits == 64
        return DType("complex128") if double else high
    if high.kind in ("float", "complex"):
        if low.bits != high.bits:
            return low if low.bits > high.bits else high
        return FLOAT
    return _promote_integers(low, high)


def _promote_integers(a: Any, b: Any) -> Any:
    if a.kind == b.kind:
        return a if a.bits > b.bits else b
    signed, unsigned = (a, b) if a.kind == "int" else (b, a)
    if signed.bits > unsigned.bits:
        return signed
    return DType(f"int{min(2 * unsigned.bits, 64)}")


def _combine(higher: Any, lower: Any) -> Any:
    """The type of operands of a higher rank together with those of a lower one."""
    if higher is None or lower is None:
        return higher or lower
    if category(higher) >= category(lower):
        return higher
    if higher.kind == "float":
        return _to_complex(higher)
    return promote_types(higher, lower)


def result_type(*operands: Any) -> Any:
    """The common element type of tensors and numbers."""
    found: list[Any] = [None, None, None]
    for operand in operands:
        if operand is None:
            continue
        rank = 2 if is_number(operand) else int(rank_of(operand) == 0)
        dtype = _number_type(operand) if rank == 2 else operand.dtype
        known = found[rank]
        found[rank] = dtype if known is None else promote_types(known, dtype)
    return _combine(found[0], _combine(found[1], found[2]))


def number(value: Any, dtype: Any) -> Any:
    """A number as a scalar of an element type."""
    if isinstance(value, SymbolicNumber):
        return cast_to(value.value, dtype)
    if isinstance(value, complex) and dtype.kind != "complex":
        value = value.real
    if dtype.kind in ("int", "uint"):
        bits = int(value) & ((1 << dtype.bits) - 1)
        top = dtype.kind == "int" and bits >> (dtype.bits - 1)
        return np.asarray(bits - (1 << dtype.bits) if top else bits, dtype.numpy)
    return np.asarray(value, dtype.numpy)


def as_value(operand: Any, dtype: Any) -> Any:
    """An operand of an element type; None stays None."""
    if operand is None:
        return None
    if is_number(operand):
        return number(operand, dtype)
    return cast_to(operand, dtype)


def promote(*operands: Any, floating: bool = False) -> list[Any]:
    """The operands in their common element type; of floats if `floating`."""
    dtype = result_type(*operands)
    if floating and category(dtype) < 2:
        dtype = FLOAT
    return [as_value(operand, dtype) for operand in operands]


def as_float(x: Any) -> Any:
    """Integers and booleans as float32, others as they are."""
    return cast_to(x, FLOAT) if category(x.dtype) < 2 else x


def as_ordered(x: Any) -> Any:
    """Truth values as 0 and 1, which have an order; others as they are."""
    if isinstance(x, np.ndarray):
        return x.astype("uint8") if x.dtype == np.bool_ else x
    return cast_to(x, DType("uint8")) if x.dtype.kind == "bool" else x


def with_order(op: Callable[..., Any]) -> Callable[..., Any]:
    """An op on elements with an order, that takes truth values, and returns them."""

    def compute(x: Any, *values: Any, **attrs: Any) -> Any:
        given = [as_ordered(v) if hasattr(v, "dtype") else v for v in values]
        return cast_to(op(as_ordered(x), *given, **attrs), DType(str(x.dtype)))

    return compute


def as_truth(x: Any) -> Any:
    """Whether elements are not zero."""
    return x if x.dtype.kind == "bool" else ops.not_equal(x, number(0, x.dtype))


def wide(x: Any, dtype: Any = None) -> Any:
    """What sums and products are computed in: `dtype`, else int64 for integers."""
    if dtype is not None:
        return cast_to(x, dtype)
    return cast_to(x, INT) if category(x.dtype) < 2 else x
