"""Diagnostics of calls: which op, which argument, expected and got.

Rules and kernels fail in their own ways on wrong arguments. Errors of Python and
numpy are explained after the fact, so that correct calls pay nothing."""

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
"""What Python and numpy raise where a rule or kernel got an unsupported argument."""


def format_call(operation: Operation, args: Sequence[Any]) -> str:
    """A call for messages: the op and the types of its arguments."""
    return f"{operation.name}({', '.join(map(_format_operand, args))})"


def _format_operand(value: Any) -> str:
    """An operand for messages: its name, if any, and its type."""
    port = getattr(value, "port", value)
    if isinstance(port, OutputPort):
        own = port.name or (port.op.name if port.op is not port.graph else None)
        type_ = value_type(port)
        return f"{own}: {type_}" if own else str(type_)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_format_operand, value))}]"
    if isinstance(value, Typed):
        return str(value.type)
    if isinstance(value, Graph) or (callable(value) and not isinstance(value, type)):
        return getattr(value, "__name__", None) or "graph"
    if hasattr(value, "strides"):
        found = array_type(value)
        return str(TensorType(found.dtype, found.shape))
    text = repr(value)
    return text if len(text) <= _MAX_LENGTH else f"{text[: _MAX_LENGTH - 4]} ..."


_MAX_LENGTH = 200  # characters of an operand that a message shows


def failing_op(operation: Operation, args: Sequence[Any], who: str | None) -> str:
    """The op that was called, and the one in its definition that failed.

    >>> from amanda_std.ops import OPS
    >>> failing_op(OPS["relu"], ["x"], "maximum(x, y)")
    "relu('x'), in maximum(x, y)"
    """
    own = format_call(operation, args)
    inner = who or ""
    if inner.startswith(f"{operation.name}("):
        inner = inner.partition(", in ")[2]
    inner = inner.rpartition(", in ")[2]
    return f"{own}, in {inner}" if inner else own


def add_context(error: AmandaError, operation: Operation, args: Sequence[Any]) -> None:
    """Add the call to an error, as far as it lacks who, expected and got."""
    error.who = failing_op(operation, args, error.who)
    if isinstance(error, Undecided) or error.expected or error.got or error.problems:
        return
    error.expected = str(operation)
    error.got = ", ".join(map(_format_operand, args))


def check_attribute(
    operation: Operation, key: str, make: Callable[..., Any], value: Any
) -> Any:
    """Convert an attribute value; errors name the op and the attribute."""
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
    """The AmandaError that explains an error of Python or numpy."""
    found = find_mismatch(operation, args, attrs)
    if found is not None:
        return found
    settings = ", ".join(f"{key}={value!r}" for key, value in attrs.items())
    operands = ", ".join(map(_format_operand, args))
    return InvalidTypeError(
        f"{operation.name} cannot be called with these arguments: "
        f"{str(error) or type(error).__name__}",
        who=format_call(operation, args),
        expected=str(operation),
        got="; ".join(filter(None, [operands, settings])),
        hint=f"what {operation.name} is: {operation.doc}",
    )


def find_mismatch(
    operation: Operation, args: Sequence[Any], attrs: Mapping[str, Any]
) -> AmandaError | None:
    """The first argument or attribute of the wrong kind, as an error; None if all
    fit."""
    try:
        for p, a in zip(operation.form.params_of(len(args)), args, strict=True):
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
    if param.role == SHAPE_ARG and not _is_shape_arg(value):
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


def _is_shape_arg(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_shape_arg, value))
    if value is None or hasattr(value, "shape") or isinstance(value, Type | OutputPort):
        return True
    return hasattr(value, "__index__") or hasattr(value, "type")


# -- attributes ------------------------------------------------------------------------


def check_attributes(operation: Operation, attrs: Mapping[str, Any]) -> None:
    """Raise for an attribute whose kind differs from its annotation."""
    kinds = _attribute_annotations(operation)
    for key, value in attrs.items():
        kind = kinds.get(key, Any)
        if not _matches(kind, value):
            raise InvalidTypeError(
                f"{operation.name} has another kind of {key}",
                where=f"attribute {key!r}",
                expected=_format_annotation(kind),
                got=repr(value),
                hint=f"call it as {operation}",
            )


@cache
def _attribute_annotations(operation: Operation) -> dict[str, Any]:
    parameters = inspect.signature(operation.function, eval_str=True).parameters
    return {
        key: DType if key == "dtype" else parameters[key].annotation
        for key in operation.form.attributes
    }


def _matches(kind: Any, value: Any) -> bool:
    """Whether a value matches an annotation; unsupported annotations match any
    value."""
    if kind is Any or kind is None or kind is NoneType:
        return kind is Any or value is None
    origin, parts = _parts(kind)
    if origin in (Union, UnionType):
        return any(_matches(each, value) for each in parts)
    if kind is DType:
        return value is None or isinstance(value, DType | str)
    if kind in (bool, int):
        return hasattr(value, "__index__") or isinstance(value, Sym)
    if kind in (float, complex):
        return isinstance(value, kind | int | float) or hasattr(value, "__index__")
    if kind is str:
        return isinstance(value, str)
    if origin is tuple:
        return _matches_tuple(parts, value)
    return True


@cache
def _parts(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    """The origin and the arguments of an annotation."""
    return get_origin(kind), get_args(kind)


def _matches_tuple(kinds: tuple[Any, ...], value: Any) -> bool:
    if not isinstance(value, tuple | list):
        return False
    if kinds[1:] == (Ellipsis,):
        return all(_matches(kinds[0], item) for item in value)
    return len(value) == len(kinds) and all(map(_matches, kinds, value))


def _format_annotation(kind: Any) -> str:
    """An annotation in words."""
    if get_origin(kind) in (Union, UnionType):
        return " or ".join(_format_annotation(each) for each in get_args(kind))
    if get_origin(kind) is tuple:
        parts = get_args(kind)
        if parts[1:] == (Ellipsis,):
            return f"a list of {_format_annotation(parts[0])}"
        return f"({', '.join(map(_format_annotation, parts))})"
    names = {DType: "an element type", NoneType: "None", None: "None"}
    return names.get(kind) or str(getattr(kind, "__name__", kind))
