"""Expressions of symbols in files: `Mul(Integer(3), Symbol('s77', integer=True))`.

They are texts that SymPy prints, and are parsed, never evaluated. Expressions that no
dim can be, such as fractions and comparisons, are unknown dims.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from amanda.errors import AmandaError, FormatError
from amanda.types import Dim, Sym, evaluate, maximum, minimum

__all__ = ["Expressions", "SymbolHints", "format_expression", "is_data_dependent"]

_MAX_LENGTH: Final = 1 << 14
_MAX_POWER: Final = 16


class Expressions:
    """The dims of expressions; the same text is the same dim."""

    def __init__(self) -> None:
        self._dims: dict[str, Dim] = {}

    def dim(self, text: str) -> Dim:
        """The dim of an expression; an unknown one if no dim can express it.

        >>> expressions = Expressions()
        >>> expressions.dim("Mul(Integer(3), Symbol('s77', integer=True))")
        3*s77
        >>> expressions.dim("Max(1, s0//2)")
        max(1, s0//2)
        """
        found = self._dims.get(text)
        if found is None:
            parsed = _parse(text)
            found = self._dims[text] = Sym.unknown() if parsed is None else parsed
        return found


def _parse(text: str) -> Dim | None:
    try:
        if len(text) > _MAX_LENGTH:
            raise ValueError(f"more than {_MAX_LENGTH} characters")
        return _dim_of(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise FormatError(
            "this cannot be read as an expression of symbols",
            expected="an expression as SymPy prints it", got=f"{text:.80} ({error})",
        ) from error  # fmt: skip


def _power(base: Dim, exponent: Dim) -> Dim | None:
    if not isinstance(exponent, int) or not 0 <= exponent <= _MAX_POWER:
        return None
    return _product(*[base] * exponent)


def _ceil_div(a: Dim, b: Dim) -> Dim:
    return -((-a) // b)


def _sum(*dims: Dim) -> Dim:
    total: Dim = 0
    for dim in dims:
        total = total + dim
    return total


def _product(*dims: Dim) -> Dim:
    total: Dim = 1
    for dim in dims:
        total = total * dim
    return total


_FUNCTIONS: Final[dict[str, Callable[..., Dim | None]]] = {
    "Add": _sum,
    "CeilDiv": _ceil_div,
    "CleanDiv": lambda a, b: a // b,
    "FloorDiv": lambda a, b: a // b,
    "Identity": lambda a: a,
    "Integer": lambda a: a,
    "Max": maximum,
    "Min": minimum,
    "Mod": lambda a, b: a % b,
    "Mul": _product,
    "Pow": _power,
    "PowByNatural": _power,
    "PythonMod": lambda a, b: a % b,
}
_OPERATORS: Final[dict[type[ast.operator], Callable[..., Dim | None]]] = {
    ast.Add: lambda a, b: a + b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.Mult: lambda a, b: a * b,
    ast.Pow: _power,
    ast.Sub: lambda a, b: a - b,
}


def _dim_of(node: ast.expr) -> Dim | None:
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int else None
    if isinstance(node, ast.Name):
        return Sym.named(node.id)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return _apply(lambda a: -a, [node.operand])
    if isinstance(node, ast.BinOp):
        function = _OPERATORS.get(type(node.op))
        return _apply(function, [node.left, node.right])
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        first = node.args[0] if node.args else None
        if node.func.id == "Symbol" and isinstance(first, ast.Constant):
            return Sym.named(str(first.value))
        return _apply(_FUNCTIONS.get(node.func.id), node.args)
    return None


def _apply(
    function: Callable[..., Dim | None] | None, nodes: Iterable[ast.expr]
) -> Dim | None:
    """The result of a function of dims; None if one of them is none."""
    dims = [_dim_of(node) for node in nodes]
    if function is None or any(dim is None for dim in dims):
        return None
    try:
        return function(*dims)
    except (TypeError, AmandaError):  # another number of arguments, or x // 0
        return None


def is_data_dependent(symbol: str) -> bool:
    """Whether a symbol is that of a number that depends on data.

    >>> is_data_dependent("u0"), is_data_dependent("s77")
    (True, False)
    """
    return re.fullmatch(r"u\d+", symbol) is not None


# -- writing -----------------------------------------------------------------------

_PRINTED: Final[dict[type[ast.operator], str]] = {
    ast.Add: "Add", ast.FloorDiv: "FloorDiv", ast.Mult: "Mul",
}  # fmt: skip


def format_expression(dim: Dim) -> str:
    """The text of a dim, which SymPy parses.

    >>> format_expression(Sym.named("s0") // 2 - 1)
    "Add(FloorDiv(Symbol('s0', positive=True, integer=True), Integer(2)), Integer(-1))"
    """
    text = str(dim)
    if "?" in text:
        raise FormatError("an unknown dim has no expression", got=text)
    return _format(ast.parse(text, mode="eval").body)


def _format(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return f"Integer({node.value!r})"
    if isinstance(node, ast.Name):
        sign = "" if is_data_dependent(node.id) else "positive=True, "
        return f"Symbol('{node.id}', {sign}integer=True)"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        arguments = ", ".join(map(_format, node.args))
        return f"{node.func.id.capitalize()}({arguments})"
    if isinstance(node, ast.UnaryOp):
        return _negative(node.operand)
    assert isinstance(node, ast.BinOp)
    if isinstance(node.op, ast.Sub):
        return f"Add({_format(node.left)}, {_negative(node.right)})"
    return f"{_PRINTED[type(node.op)]}({_format(node.left)}, {_format(node.right)})"


def _negative(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return f"Integer(-{node.value!r})"
    return f"Mul(Integer(-1), {_format(node)})"


class SymbolHints:
    """Examples of the values of symbols, which PyTorch needs to trace again."""

    DEFAULT: Final = 8

    def __init__(self, values: Mapping[str, int] = MappingProxyType({})) -> None:
        self.values = dict(values)
        self.symbols: set[str] = set(values)
        """All symbols of the expressions that were printed."""

    def entry(self, dim: Dim) -> dict[str, Any]:
        """A dim as files have it; one that depends on data has no hint."""
        if isinstance(dim, int):
            return {"as_int": dim}
        names = [symbol.name or "" for symbol in dim.free]
        self.symbols.update(names)
        hint = None
        if not any(map(is_data_dependent, names)):
            known = {
                Sym.named(n): self.values.setdefault(n, self.DEFAULT) for n in names
            }
            hint = {"as_int": evaluate(dim, known)}
        return {"as_expr": {"expr_str": format_expression(dim), "hint": hint}}

    def new_entry(self) -> dict[str, Any]:
        """The entry of a number that depends on data, by a new symbol."""
        count = next(i for i in itertools.count(1000) if f"u{i}" not in self.symbols)
        return self.entry(Sym.named(f"u{count}"))

    def collect(self, dim: Dim, size: Mapping[str, Any]) -> None:
        """Collect the hint of a size that is a symbol."""
        name = dim.name if isinstance(dim, Sym) else None
        hint = size["as_expr"].get("hint") if name is not None else None
        if name is not None and isinstance(hint, dict):
            value = hint.get("as_int")
            self.values.setdefault(name, value if type(value) is int else self.DEFAULT)

    def unusual(self) -> dict[str, int]:
        """The hints that are not the default."""
        return {n: v for n, v in self.values.items() if v != self.DEFAULT}
