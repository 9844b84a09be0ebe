"""The element types of a framework, by the numbers that its files have for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amanda.errors import FormatError
from amanda.types import DType

__all__ = ["DTypeCodes"]


class DTypeCodes:
    """Numbers and element types of one framework, both ways.

    >>> codes = DTypeCodes("Mine", {1: "float32", 2: "int64"})
    >>> codes.dtype(2), codes.code(DType("float32"))
    (int64, 1)
    """

    def __init__(self, framework: str, names: Mapping[int, str]) -> None:
        self.framework = framework
        self.dtypes = {code: DType(name) for code, name in names.items()}
        self.codes = {dtype: code for code, dtype in self.dtypes.items()}

    def dtype(self, code: int, position: int | None = None) -> DType:
        """The element type with a number; `position` is for the error."""
        found = self.dtypes.get(code)
        if found is None:
            raise FormatError(
                f"{self.framework} has no element type with this number",
                where=None if position is None else f"byte {position}",
                got=code,
            )
        return found

    def code(self, dtype: Any) -> int:
        """The number of an element type."""
        found = self.codes.get(dtype)
        if found is None:
            raise FormatError(f"{self.framework} has no such element type", got=dtype)
        return found
