"""Symbolic dims of JAX as those of Amanda, and arguments that have such dims.

JAX writes an expression of dims as text: `2*b + 1`, `floordiv(b, 2)`, `b^2`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Final

import jax
import jax.export

from amanda.errors import AmandaError, FormatError, Undecided, UsageError
from amanda.types import Dim, Sym, TensorType, Type, maximum, minimum, parse_type

__all__ = ["ArgumentForms", "dim_of", "is_symbolic"]

_MAX_LENGTH: Final = 1 << 14
_NUMBERS: Final = ("bool", "complex", "float", "int", "uint")
_MAX_POWER: Final = 16


def is_symbolic(value: Any) -> bool:
    """Whether a value is a symbolic dim of JAX."""
    return not isinstance(value, int) and bool(jax.export.is_symbolic_dim(value))


def dim_of(value: Any) -> Dim:
    """A dim of JAX as a dim of Amanda."""
    if not is_symbolic(value):
        return int(value)
    text = str(value)
    try:
        if len(text) > _MAX_LENGTH:
            raise ValueError(f"more than {_MAX_LENGTH} characters")
        return _parse(ast.parse(text.replace("^", "**"), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, AmandaError) as error:
        raise FormatError(
            "a symbolic dim of the function cannot be read",
            expected="sums, products, floordiv, mod, min and max of sizes",
            got=f"{text:.80} ({error})",
        ) from error


def _power(base: Dim, exponent: Dim) -> Dim:
    if not isinstance(exponent, int) or not 0 <= exponent <= _MAX_POWER:
        raise ValueError(f"a power of {exponent}")
    result: Dim = 1
    for _ in range(exponent):
        result = result * base
    return result


_OPERATORS: Final[dict[type[ast.operator], Callable[..., Dim]]] = {
    ast.Add: lambda a, b: a + b,
    ast.Mult: lambda a, b: a * b,
    ast.Pow: _power,
    ast.Sub: lambda a, b: a - b,
}
_FUNCTIONS: Final[dict[str, Callable[..., Dim]]] = {
    "floordiv": lambda a, b: a // b,
    "max": maximum,
    "min": minimum,
    "mod": lambda a, b: a % b,
}


def _parse(node: ast.expr) -> Dim:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name):
            return Sym.named(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_parse(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_parse(left), _parse(right))
        case ast.Call(func=ast.Name(id=name), args=args) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*map(_parse, args))
    raise ValueError(f"{ast.unparse(node)} is none of them")


class ArgumentForms:
    """Types of Amanda among the arguments of a function, as JAX traces them.

    A type is written as text or as a `TensorType`; a dim of one name is one size."""

    def __init__(self) -> None:
        self._scope = jax.export.SymbolicScope()

    def replace_types(self, arguments: Any) -> Any:
        """The arguments, in any pytree, with `jax.ShapeDtypeStruct` for each type."""
        return jax.tree.map(self._replace, arguments)

    def _replace(self, argument: Any) -> Any:
        type = _parse_argument(argument) if isinstance(argument, str) else argument
        if not isinstance(type, TensorType):
            return argument
        if type.dtype.kind not in _NUMBERS:
            raise UsageError(
                "a function of JAX is traced for tensors of numbers",
                who="args",
                got=type,
            )
        return jax.ShapeDtypeStruct(self._dims(type), type.dtype.numpy)

    def _dims(self, type: TensorType) -> Any:
        shape = type.shape
        try:
            text = ", ".join(_format_dim(dim) for dim in shape)
            return jax.export.symbolic_shape(text, scope=self._scope) if text else ()
        except (SyntaxError, Undecided, ValueError) as error:
            raise UsageError(
                "a function of JAX is traced for sizes that are known or have a name",
                who="args",
                expected="a type such as float32[batch, 4]",
                got=str(type),
                problems=[f"{error.__class__.__name__}: {error}".partition("\n")[0]],
            ) from error


def _parse_argument(text: str) -> Type | None:
    """The type that a text is; None for another text, a static argument perhaps."""
    if "[" not in text:
        return None
    try:
        return parse_type(text)
    except AmandaError:
        return None


class _JaxNotation(ast.NodeTransformer):
    """Quotients as JAX writes them."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.op, ast.FloorDiv):
            return node
        return ast.Call(ast.Name("floordiv"), [node.left, node.right], [])


def _format_dim(dim: Dim) -> str:
    """The text of a dim, as JAX parses it; SyntaxError for one without a name.

    >>> _format_dim(Sym.named("n") // 2 + 1)
    'floordiv(n, 2) + 1'
    """
    return ast.unparse(_JaxNotation().visit(ast.parse(str(dim), mode="eval")))
