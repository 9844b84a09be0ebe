"""Wrong use of an op, told by its name: operands, what was expected, what was got.

Rules and kernels ask for what they need and fail in their own ways where it is not
there. What Python or numpy raised is looked into when it happens, so that right use
pays nothing: which argument is no tensor, which attribute is of another kind.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

from amanda.errors import AmandaError, InvalidTypeError, Undecided, UsageError
from amanda.graph import Graph, OutputPort
from amanda.types import DType, Sym, TensorType, Type
from amanda_std.engine.annotations import SHAPE_ARG, TENSOR, Param
from amanda_std.engine.arrays import array_type
from amanda_std.engine.literals import is_literal
from amanda_std.engine.values import Typed, value_type

if TYPE_CHECKING:
    from amanda_std.engine.operation import Operation

__all__ = [
    "BARE_ERRORS",
    "check_attributes",
    "explain_error",
    "failing_op",
    "check_attribute",
    "find_mismatch",
    "add_context",
]

BARE_ERRORS = (TypeError, AttributeError, LookupError, ValueError, ArithmeticError)
"""What Python and numpy raise where a rule or kernel was given what it cannot take."""


def format_call(operation: Operation, args: Sequence[Any]) -> str:
    """A call as messages have it: an op and the types of what it was given."""
    return f"{operation.name}({', '.join(map(_shown, args))})"


def _shown(value: Any) -> str:
    """An operand as messages have it: its name, where it has one, and its type."""
    port = getattr(value, "port", value)
    if isinstance(port, OutputPort):
        own = port.name or (port.op.name if port.op is not port.graph else None)
        type_ = value_type(port)
        return f"{own}: {type_}" if own else str(type_)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, Typed):
        return str(value.type)
    if isinstance(value, Graph) or (callable(value) and not isinstance(value, type)):
        return getattr(value, "__name__", None) or "graph"
    if hasattr(value, "strides"):
        found = array_type(value)
        return str(TensorType(found.dtype, found.shape))
    text = repr(value)
    return text if len(text) <= _LONG else f"{text[: _LONG - 4]} ..."


_LONG = 200  # characters of an operand that a message shows


def failing_op(operation: Operation, args: Sequence[Any], who: str | None) -> str:
    """Who it was: the op that was called, and the one in its meaning that failed.

    >>> from amanda_std.ops import OPS
    >>> inside(OPS["relu"], ["x"], "maximum(x, y)")
    "relu('x'), in maximum(x, y)"
    """
    own = format_call(operation, args)
    inner = who or ""
    if inner.startswith(f"{operation.name}("):
        inner = inner.partition(", in ")[2]
    inner = inner.rpartition(", in ")[2]
    return f"{own}, in {inner}" if inner else own


def add_context(error: AmandaError, operation: Operation, args: Sequence[Any]) -> None:
    """Adds to an error which op was called, and how, as far as it does not say."""
    error.who = failing_op(operation, args, error.who)
    if isinstance(error, Undecided) or error.expected or error.got or error.problems:
        return
    error.expected = str(operation)
    error.got = ", ".join(map(_shown, args))


def check_attribute(
    operation: Operation, key: str, make: Callable[..., Any], value: Any
) -> Any:
    """An attribute as ops keep it; an error that names the op where it is none."""
    try:
        return make(key, value)
    except AmandaError as error:
        error.who = error.who or operation.name
        error.where = error.where or f"attribute {key!r}"
        error.expected = error.expected or "an element type" * (key == "dtype") or None
        raise


def explain_error(
    operation: Operation,
    args: Sequence[Any],
    attrs: Mapping[str, Any],
    error: BaseException,
) -> AmandaError:
    """The error that tells what a bare one was about."""
    found = find_mismatch(operation, args, attrs)
    if found is not None:
        return found
    told = ", ".join(f"{key}={value!r}" for key, value in attrs.items())
    return InvalidTypeError(
        f"{operation.name} cannot be called so: {str(error) or type(error).__name__}",
        who=format_call(operation, args),
        expected=str(operation),
        got=f"{', '.join(map(_shown, args))}{f'; {told}' if told else ''}",
        hint=f"what {operation.name} is: {operation.doc}",
    )


def find_mismatch(
    operation: Operation, args: Sequence[Any], attrs: Mapping[str, Any]
) -> AmandaError | None:
    """What is wrong with the kinds of arguments and attributes; None if nothing."""
    try:
        for p, a in zip(operation.form.each(len(args)), args, strict=True):
            _check_argument(operation, p, a)
        check_attributes(operation, attrs)
    except AmandaError as found:
        found.who = found.who or format_call(operation, args)
        return found
    return None


def _check_argument(operation: Operation, param: Param, value: Any) -> None:
    if param.role == TENSOR:
        if value is None and not param.optional:
            raise UsageError(
                f"{operation.name} needs {param.name}",
                expected=str(operation),
                got=None,
            )
        if not _is_tensor(param, value):
            raise InvalidTypeError(
                f"{operation.name} takes a tensor as {param.name}",
                where=f"argument {param.name!r}",
                expected="a tensor, an array or numbers",
                got=repr(value),
            )
    if param.role == SHAPE_ARG and not _is_host(value):
        raise InvalidTypeError(
            f"{operation.name} takes integers as {param.name}",
            where=f"argument {param.name!r}",
            expected="an integer or several, or a tensor of integers",
            got=repr(value),
        )


def _is_tensor(param: Param, value: Any) -> bool:
    if value is None or isinstance(value, Type | OutputPort | Sym):
        return True
    if isinstance(value, str | bytes):
        return "string" in param.kind.kinds
    return is_literal(value) or hasattr(value, "shape")


def _is_host(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_host, value))
    if value is None or hasattr(value, "shape") or isinstance(value, Type | OutputPort):
        return True
    return hasattr(value, "__index__") or hasattr(value, "type")


# -- attributes ------------------------------------------------------------------------


def check_attributes(operation: Operation, attrs: Mapping[str, Any]) -> None:
    """Raises for an attribute that is of another kind than the definition says."""
    kinds = _kinds(operation)
    for key, value in attrs.items():
        kind = kinds.get(key, Any)
        if not _fits(kind, value):
            raise InvalidTypeError(
                f"{operation.name} has another kind of {key}",
                where=f"attribute {key!r}",
                expected=_written(kind),
                got=repr(value),
                hint=f"call it as {operation}",
            )


@cache
def _kinds(operation: Operation) -> dict[str, Any]:
    parameters = inspect.signature(operation.function, eval_str=True).parameters
    return {
        key: DType if key == "dtype" else parameters[key].annotation
        for key in operation.form.attributes
    }


def _fits(kind: Any, value: Any) -> bool:
    """Is a value of this kind? Where an annotation says something else, any is."""
    if kind is Any or kind is None or kind is NoneType:
        return kind is Any or value is None
    if get_origin(kind) in (Union, UnionType):
        return any(_fits(each, value) for each in get_args(kind))
    if kind is DType:
        return value is None or isinstance(value, DType | str)
    if kind in (bool, int):
        return hasattr(value, "__index__") or isinstance(value, Sym)
    if kind in (float, complex):
        return isinstance(value, kind | int | float) or hasattr(value, "__index__")
    if kind is str:
        return isinstance(value, str)
    if get_origin(kind) is tuple:
        return _fits_all(get_args(kind), value)
    return True


def _fits_all(kinds: tuple[Any, ...], value: Any) -> bool:
    if not isinstance(value, tuple | list):
        return False
    if kinds[1:] == (Ellipsis,):
        return all(_fits(kinds[0], item) for item in value)
    return len(value) == len(kinds) and all(map(_fits, kinds, value))


def _written(kind: Any) -> str:
    """An annotation in words."""
    if get_origin(kind) in (Union, UnionType):
        return " or ".join(_written(each) for each in get_args(kind))
    if get_origin(kind) is tuple:
        parts = get_args(kind)
        if parts[1:] == (Ellipsis,):
            return f"a list of {_written(parts[0])}"
        return f"({', '.join(map(_written, parts))})"
    names = {DType: "an element type", NoneType: "None", None: "None"}
    return names.get(kind) or str(getattr(kind, "__name__", kind))
