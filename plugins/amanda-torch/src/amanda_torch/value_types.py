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
from amanda_torch.expressions import Expressions, SymbolHints

__all__ = ["NUMBER_TYPES", "TypeReader", "contiguous_strides",
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
_CPU: Final[Mapping[str, Any]] = {"type": "cpu", "index": None}
_ZERO: Final[Mapping[str, Any]] = {"as_int": 0}


class TypeReader:
    """The types of the values of a program; `ranges` are those of its symbols."""

    def __init__(self, ranges: Mapping[str, Any]) -> None:
        self.expressions = Expressions()
        self.hints = SymbolHints()
        self._usual: dict[str, bool] = {}
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

    def is_usual(
        self, entry: Mapping[str, Any], type: Type | None, requires_grad: bool = False
    ) -> bool:
        """Whether an entry of a tensor is that of any tensor of its type."""
        if (
            entry["requires_grad"] is not requires_grad
            or entry["storage_offset"] != _ZERO
            or entry["device"] != _CPU
            or entry["layout"] != _STRIDED
            or not isinstance(type, TensorType)
        ):
            return False
        dims, sizes, strides = type.shape.dims, entry["sizes"], entry["strides"]
        if all(dim.__class__ is int for dim in dims):
            return [each.get("as_int") for each in strides] == contiguous_strides(dims)
        key = f"{sizes}{strides}"
        found = self._usual.get(key)
        if found is None:
            for dim, size in zip(dims, sizes, strict=True):
                self.hints.collect(dim, size)
            found = self._usual[key] = self._is_contiguous(dims, sizes, strides)
        return found

    def _is_contiguous(self, dims: Any, sizes: list[Any], strides: list[Any]) -> bool:
        if any(isinstance(dim, Sym) and dim.is_anonymous for dim in dims):
            return False
        entry = self.hints.entry
        usual = [*map(entry, dims)], [*map(entry, contiguous_strides(dims))]
        return usual == (sizes, strides)

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


def tensor_entry(
    type: Type | None, who: str, hints: SymbolHints, requires_grad: bool = False
) -> dict[str, Any]:
    """What a file says of a tensor, which is contiguous and on the CPU."""
    if not isinstance(type, TensorType) or not type.shape.has_rank:
        raise FormatError(
            "the type of a value is not known", who=who,
            expected="an element type and a shape", got=type,
            hint='amanda.improve(graph, "infer") infers types',
        )  # fmt: skip
    dims = type.shape.dims
    return {
        "dtype": DTYPES.code(type.dtype), "sizes": list(map(hints.entry, dims)),
        "requires_grad": requires_grad, "device": dict(_CPU),
        "strides": list(map(hints.entry, contiguous_strides(dims))),
        "storage_offset": dict(_ZERO), "layout": _STRIDED,
    }  # fmt: skip
