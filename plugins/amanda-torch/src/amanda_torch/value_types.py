"""The types of values, as files say of tensors and symbolic numbers, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from amanda.errors import FormatError
from amanda.types import (
    Dim,
    OpaqueType,
    Shape,
    Sym,
    TensorType,
    TokenType,
    Type,
    bool_,
    float64,
    int64,
)
from amanda_torch.codes import DTYPES
from amanda_torch.expressions import Expressions, format_expression

__all__ = ["NUMBER_TYPES", "TypeReader", "contiguous_strides", "size_entries",
           "tensor_entry"]  # fmt: skip

NUMBER_TYPES: Final[Mapping[str, TensorType]] = {
    "as_sym_int": TensorType(int64, []),
    "as_sym_float": TensorType(float64, []),
    "as_sym_bool": TensorType(bool_, []),
}
"""The types of symbolic numbers whose expression is no dim."""

_TABLES: Final = {
    "as_sym_int": "sym_int_values", "as_sym_float": "sym_float_values",
    "as_sym_bool": "sym_bool_values", "as_custom_obj": "custom_obj_values",
}  # fmt: skip
_STRIDED: Final = 7


class TypeReader:
    """The types of the values of a program; `ranges` are those of its symbols."""

    def __init__(self, ranges: Mapping[str, Any]) -> None:
        self.expressions = Expressions()
        self._natural = {
            name for name, range in ranges.items()
            if isinstance(least := range.get("min_val"), int) and least >= 0
        }  # fmt: skip

    def dim(self, size: Mapping[str, Any]) -> Dim:
        """A size of a tensor."""
        if "as_int" in size:
            found: int = size["as_int"]
            return found
        return self.expressions.dim(size["as_expr"]["expr_str"])

    def tensor(self, entry: Mapping[str, Any]) -> TensorType:
        """The type of a tensor."""
        shape = Shape([self.dim(size) for size in entry["sizes"]])
        return TensorType(DTYPES.dtype(entry["dtype"]), shape)

    def value(
        self, kind: str, name: str, tables: Mapping[str, Any]
    ) -> tuple[Type | None, Any]:
        """The type of a value of a graph, and the entry of the tables that has it."""
        if kind == "as_tensor":
            entry = tables["tensor_values"].get(name)
            if entry is None and kind == "as_tensor":
                return self._number_by_name(name, tables)
            return self.tensor(entry), entry
        if kind == "as_token":
            return TokenType(), None
        table = _TABLES.get(kind)
        entry = (tables.get(table) or {}).get(name) if table else None
        if entry is None:
            return NUMBER_TYPES.get(kind), None
        if kind == "as_custom_obj":
            return OpaqueType(entry["class_fqn"]), entry
        return (self._int(entry) if kind == "as_sym_int" else NUMBER_TYPES[kind]), entry

    def _number_by_name(
        self, name: str, tables: Mapping[str, Any]
    ) -> tuple[Type | None, Any]:
        """The type of a symbolic number in a list of tensors."""
        for kind, table in _TABLES.items():
            if name in (tables.get(table) or {}):
                return self.value(kind, name, tables)
        return None, None

    def _int(self, entry: Mapping[str, Any]) -> TensorType:
        """An integer; its expression is its content if it cannot be negative."""
        dim = self.dim(entry)
        if isinstance(dim, Sym):
            names = [each.name for each in dim.free]
            if not all(name and self._is_natural(name) for name in names):
                return NUMBER_TYPES["as_sym_int"]
        return TensorType(int64, [], value=dim)

    def _is_natural(self, name: str) -> bool:
        return name.startswith("s") or name in self._natural


def size_entries(dims: Any) -> list[dict[str, Any]]:
    """Dims as sizes in a file."""
    return [_size_entry(dim) for dim in dims]


def _size_entry(dim: Dim) -> dict[str, Any]:
    if isinstance(dim, int):
        return {"as_int": dim}
    return {"as_expr": {"expr_str": format_expression(dim), "hint": None}}


def contiguous_strides(dims: Any) -> list[Dim]:
    """The strides of a tensor in row-major order.

    >>> contiguous_strides((2, 3, 4))
    [12, 4, 1]
    """
    strides: list[Dim] = []
    step: Dim = 1
    for dim in reversed(tuple(dims)):
        strides.append(step)
        step = step * (max(dim, 1) if isinstance(dim, int) else dim)
    return strides[::-1]


def tensor_entry(type: Type | None, who: str) -> dict[str, Any]:
    """What a file says of a tensor, which is contiguous and on the CPU."""
    if not isinstance(type, TensorType) or not type.shape.has_rank:
        raise FormatError(
            "the type of a value is not known", who=who,
            expected="an element type and a shape", got=type,
            hint='amanda.improve(graph, "infer") infers types',
        )  # fmt: skip
    dims = type.shape.dims
    return {
        "dtype": DTYPES.code(type.dtype), "sizes": size_entries(dims),
        "requires_grad": False, "device": {"type": "cpu", "index": None},
        "strides": size_entries(contiguous_strides(dims)),
        "storage_offset": {"as_int": 0}, "layout": _STRIDED,
    }  # fmt: skip
