"""Several implementations of one op: rows of what each is for, and what is else.

    matmul = chosen(
        when(in_bytes, dtype=("int8", "uint8")),
        when(by_blas, dtype="float32"),
        otherwise=np.matmul,
    )
    Kernels("mine", {"matmul": matmul, "softmax": chosen(when(rows, axes=(-1,)), ...)})

The first row whose conditions hold is taken. A program takes it once, when it is built
and the element type is known from the graph; else each call looks at its arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from amanda.types import DType, TensorType, Type, unknown

__all__ = ["KernelDispatch", "DispatchRow", "dispatch", "when"]

Implementation = Callable[..., Any]


class DispatchRow(NamedTuple):
    """An implementation, and the element types and attributes that it is for."""

    implementation: Implementation
    dtypes: frozenset[Any]
    """Element types of the first tensor; empty: any."""
    attrs: Mapping[str, Any]

    def fits(self, dtype: Any, attrs: Mapping[str, Any]) -> bool:
        if self.dtypes and dtype not in self.dtypes:
            return False
        return all(attrs.get(key) == value for key, value in self.attrs.items())


def when(
    implementation: Implementation, *, dtype: str | Sequence[str] = (), **attrs: Any
) -> DispatchRow:
    """What is for an element type, or several, and for attributes that are so."""
    names = (dtype,) if isinstance(dtype, str) else dtype
    return DispatchRow(implementation, frozenset(map(DType, names)), attrs)


class KernelDispatch:
    """A kernel that is one of several. Made by `chosen`."""

    def __init__(self, rows: Sequence[DispatchRow], otherwise: Implementation) -> None:
        self.rows = tuple(rows)
        self.otherwise = otherwise

    def of(self, dtype: Any, attrs: Mapping[str, Any]) -> Implementation:
        """The implementation for this element type and these attributes."""
        for row in self.rows:
            if row.fits(dtype, attrs):
                return row.implementation
        return self.otherwise

    def built(
        self, types: Sequence[Type | None], attrs: Mapping[str, Any]
    ) -> Implementation:
        """The one that an op of these types has; this itself where that is open."""
        found = next((t.dtype for t in types if isinstance(t, TensorType)), unknown)
        return self if found is unknown else self.of(found, attrs)

    def __call__(self, *args: Any, **attrs: Any) -> Any:
        own = next((a.dtype for a in args if hasattr(a, "dtype")), None)
        dtype = unknown if own is None else DType.of(own)
        return self.of(dtype, attrs)(*args, **attrs)


def dispatch(*rows: DispatchRow, otherwise: Implementation) -> KernelDispatch:
    """The implementation of the first row that fits, else the other one.

    >>> pick = chosen(when(abs, dtype="int8"), otherwise=float)
    >>> pick.of(DType("int8"), {}) is abs, pick.of(DType("int16"), {}) is float
    (True, True)
    """
    return KernelDispatch(rows, otherwise)
