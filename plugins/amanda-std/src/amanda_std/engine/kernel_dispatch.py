"""Several implementations of one op, chosen by dtype and attributes.

    matmul = dispatch(
        when(int8_matmul, dtype=("int8", "uint8")),
        when(blas_matmul, dtype="float32"),
        otherwise=np.matmul,
    )
    Kernels("mine", {"matmul": matmul, ...})

The first row whose conditions hold is used. A program chooses it once, when it is
built, if the graph has dtypes; else every call looks at its arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from amanda.types import DType, TensorType, Type, unknown

__all__ = ["KernelDispatch", "DispatchRow", "dispatch", "when"]

Implementation = Callable[..., Any]


class DispatchRow(NamedTuple):
    """An implementation, with the dtypes and attributes that it supports."""

    implementation: Implementation
    dtypes: frozenset[Any]
    """Dtypes of the first tensor; empty: any."""
    attrs: Mapping[str, Any]

    def fits(self, dtype: Any, attrs: Mapping[str, Any]) -> bool:
        """Whether the row supports this dtype and these attributes."""
        if self.dtypes and dtype not in self.dtypes:
            return False
        return all(attrs.get(key) == value for key, value in self.attrs.items())


def when(
    implementation: Implementation, *, dtype: str | Sequence[str] = (), **attrs: Any
) -> DispatchRow:
    """A row for one or several dtypes and for given attribute values."""
    names = (dtype,) if isinstance(dtype, str) else dtype
    return DispatchRow(implementation, frozenset(map(DType, names)), attrs)


class KernelDispatch:
    """A kernel that is one of several; created by `dispatch`."""

    def __init__(self, rows: Sequence[DispatchRow], otherwise: Implementation) -> None:
        self.rows = tuple(rows)
        self.otherwise = otherwise

    def of(self, dtype: Any, attrs: Mapping[str, Any]) -> Implementation:
        """The implementation for a dtype and attributes."""
        for row in self.rows:
            if row.fits(dtype, attrs):
                return row.implementation
        return self.otherwise

    def built(
        self, types: Sequence[Type | None], attrs: Mapping[str, Any]
    ) -> Implementation:
        """The implementation for an op of these types; itself if the dtype is
        unknown."""
        found = next((t.dtype for t in types if isinstance(t, TensorType)), unknown)
        return self if found is unknown else self.of(found, attrs)

    def __iter__(self) -> Iterator[tuple[tuple[str, ...], Implementation]]:
        """Each implementation, with the dtypes that choose it; none: all others."""
        for row in self.rows:
            yield tuple(sorted(map(str, row.dtypes))), row.implementation
        yield (), self.otherwise

    def __call__(self, *args: Any, **attrs: Any) -> Any:
        own = next((a.dtype for a in args if hasattr(a, "dtype")), None)
        dtype = unknown if own is None else DType.of(own)
        return self.of(dtype, attrs)(*args, **attrs)


def dispatch(*rows: DispatchRow, otherwise: Implementation) -> KernelDispatch:
    """The implementation of the first row that fits, else the other one.

    >>> pick = dispatch(when(abs, dtype="int8"), otherwise=float)
    >>> pick.of(DType("int8"), {}) is abs, pick.of(DType("int16"), {}) is float
    (True, True)
    """
    return KernelDispatch(rows, otherwise)
