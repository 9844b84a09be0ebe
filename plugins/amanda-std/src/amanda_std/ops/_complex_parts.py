"""Complex numbers as real ones: by parts, or as pairs along a new last axis.

What rules of `op.on_complex_parts` receive in the place of complex arguments, and
return for complex results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from amanda.errors import UsageError
from amanda.types import DType
from amanda_std.engine.links import find_operation
from amanda_std.inference.element_types import PART_TYPES

__all__ = ["ComplexParts", "compute_by_parts", "real_dtype_of"]


def real_dtype_of(dtype: Any) -> DType | None:
    """The dtype of the parts of complex numbers; None for other dtypes."""
    name = PART_TYPES.get(getattr(dtype, "name", ""))
    return None if name is None else DType(name)


class ComplexParts:
    """A complex tensor: real and imaginary part of one shape, or pairs of them.

    Either form is derived from the other one when it is first read. Without `imag` and
    `pairs` the numbers are real, and ops on zeros are left out."""

    def __init__(self, real: Any = None, imag: Any = None, pairs: Any = None) -> None:
        if (real is None) == (pairs is None) or (imag is not None and real is None):
            raise UsageError("complex parts are given by the parts or by pairs")
        self._given = real, imag, pairs
        self._real, self._imag, self._pairs = self._given
        self.is_real = imag is None and pairs is None
        """Whether the imaginary part is 0."""

    def copy(self) -> ComplexParts:
        """The same numbers, without the forms that were derived."""
        return ComplexParts(*self._given)

    @property
    def ndim(self) -> int:
        """The number of axes, without that of pairs."""
        known = self._pairs if self._real is None else self._real
        return known.ndim - (self._real is None)  # type: ignore[no-any-return]

    @property
    def known_pairs(self) -> Any:
        """Pairs if they were computed, else None."""
        return self._pairs

    @property
    def real(self) -> Any:
        """The real part."""
        if self._real is None:
            self._real = self._part(0)
        return self._real

    @property
    def imag(self) -> Any:
        """The imaginary part; zeros where it is 0."""
        if self._imag is None:
            is_real = self.is_real
            self._imag = (
                find_operation("zeros_like")(self.real) if is_real else (self._part(1))
            )
        return self._imag

    @property
    def pairs(self) -> Any:
        """Both parts along a new last axis."""
        if self._pairs is None:
            self._pairs = self._stack()
        return self._pairs

    def _part(self, index: int) -> Any:
        return find_operation("gather")(self._pairs, np.asarray(index), -1)

    def _stack(self) -> Any:
        return find_operation("stack")(self.real, self.imag, axis=-1)

    @property
    def parts(self) -> tuple[Any, Any]:
        return self.real, self.imag

    def conj(self) -> ComplexParts:
        return self if self.is_real else ComplexParts(self.real, -self.imag)

    def scale(self, factor: Any) -> ComplexParts:
        """The product with a real tensor."""
        if self.is_real:
            return ComplexParts(self.real * factor)
        return ComplexParts(self.real * factor, self.imag * factor)

    def __neg__(self) -> ComplexParts:
        return self.scale(-1.0)

    def __add__(self, other: ComplexParts) -> ComplexParts:
        if self.is_real and other.is_real:
            return ComplexParts(self.real + other.real)
        return ComplexParts(self.real + other.real, self.imag + other.imag)

    def __sub__(self, other: ComplexParts) -> ComplexParts:
        if self.is_real and other.is_real:
            return ComplexParts(self.real - other.real)
        return ComplexParts(self.real - other.real, self.imag - other.imag)

    def __mul__(self, other: ComplexParts) -> ComplexParts:
        if other.is_real:
            return self.scale(other.real)
        if self.is_real:
            return other.scale(self.real)
        (a, b), (c, d) = self.parts, other.parts
        return ComplexParts(a * c - b * d, a * d + b * c)

    def times_i(self) -> ComplexParts:
        """The product with the imaginary unit."""
        return ComplexParts(-self.imag, self.real)


def compute_by_parts(
    operation: Callable[..., Any], args: Sequence[Any], attrs: Mapping[str, Any]
) -> Any:
    """An op f with f(a + bi) = f(a) + f(b)i; real arguments are those of both calls."""
    real = operation(*[a.real if _is_complex(a) else a for a in args], **attrs)
    if all(a.is_real for a in args if _is_complex(a)):
        if isinstance(real, tuple):
            return tuple(map(ComplexParts, real))
        return ComplexParts(real)
    imag = operation(*[a.imag if _is_complex(a) else a for a in args], **attrs)
    if isinstance(real, tuple):
        return tuple(map(ComplexParts, real, imag))
    return ComplexParts(real, imag)


def _is_complex(value: object) -> bool:
    return isinstance(value, ComplexParts)
