"""Ops of a graph read back: what each is called with, wherever that is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amanda.errors import InvalidTypeError, NamespaceError
from amanda.graph import CONSTANT, CORE, Graph, Op, OutputPort
from amanda_std import NAMESPACE
from amanda_std.kinds import BODY, REQUIRED
from amanda_std.operation import Operation, attribute
from amanda_std.ops import OPS, find


def operation_of(op: Op) -> Operation:
    """The definition of an op of a graph; NamespaceError where there is none."""
    return find(op.type or "?")


def is_std(op: Op) -> bool:
    """Whether this is an op of the hub set, not a constant, a graph or another's."""
    return op.type in OPS and op.namespace == NAMESPACE and not isinstance(op, Graph)


def is_constant(op: Op) -> bool:
    return op.type == CONSTANT and op.namespace == CORE


def why_unreadable(op: Op) -> str | None:
    """What is wrong with an op of the hub set, or None."""
    if isinstance(op, Graph):
        return None
    if op.namespace != NAMESPACE:
        return f"it is of {op.namespace}, not {NAMESPACE}"
    try:
        arguments(op, lambda port: port)
    except (InvalidTypeError, NamespaceError) as error:
        return error.message
    return None


def arguments(
    op: Op, value: Callable[[OutputPort], Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments and attributes of an op; `value` says what stands for an input."""
    operation = operation_of(op)
    form = operation.form
    attrs = op.attrs if op.has_attrs else {}
    inputs = iter(op.inputs)
    args: list[Any] = []
    for p in form.params:
        if p.variadic:
            args += [None if v is None else value(v) for v in inputs]
        elif p.role == BODY:
            if p.name not in op.bodies:
                raise InvalidTypeError(f"{operation.name} has no body {p.name!r}")
            args.append(op.bodies[p.name])
        else:
            source = next(inputs, None)
            if source is not None:
                args.append(value(source))
            elif p.name in attrs:
                args.append(attribute(p.name, attrs[p.name]))
            elif p.optional:
                args.append(p.default)
            else:
                raise InvalidTypeError(f"{operation.name} lacks {p.name}")
    if next(inputs, None) is not None:
        raise InvalidTypeError(f"{operation.name} has too many inputs")
    given = {}
    names = {p.name for p in form.params}
    for key, default in form.attributes.items():
        if key in attrs:
            given[key] = attribute(key, attrs[key])
        elif default is REQUIRED:
            raise InvalidTypeError(f"{operation.name} lacks {key}")
        else:
            given[key] = default
    for key in attrs:
        if key not in given and key not in names:
            raise InvalidTypeError(f"{operation.name} has no attribute {key!r}")
    return args, given


def reads(op: Op) -> list[OutputPort]:
    """What an op reads, what its bodies capture included."""
    found = [v for v in op.inputs if v is not None]
    inner = [op] if isinstance(op, Graph) else op.bodies.values()
    for body in inner:
        if isinstance(body, Graph):
            found += body.captures
    return found
