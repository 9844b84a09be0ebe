"""Access to ops of the hub in graphs: definition, arguments, attributes, traits."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, Final

from amanda.dictionary import Attr, attribute_fault
from amanda.errors import InvalidTypeError, NamespaceError
from amanda.graph import Graph, Op, OutputPort, is_note
from amanda.types import TensorType
from amanda_std.engine.annotations import BODY, REQUIRED, SHAPE_ARG, Param
from amanda_std.engine.attribute_kinds import attributes_of
from amanda_std.engine.function_lookup import find_function
from amanda_std.engine.links import NAMESPACE
from amanda_std.engine.literals import normalize_attribute
from amanda_std.engine.operation import Operation
from amanda_std.engine.traits import Trait
from amanda_std.engine.values import Value, constant_of, value_type
from amanda_std.inference.shape_arguments import is_static, to_dims, to_integers
from amanda_std.ops import OPS, find

_PLAIN: Final = frozenset({bool, int, float, str, type(None)})


def operation_of(op: Op) -> Operation:
    """The definition of an op in a graph; NamespaceError if there is none."""
    if op.own_namespace not in (None, NAMESPACE):
        raise NamespaceError(
            f"{op.label} is of {op.own_namespace}, not {NAMESPACE}",
            hint="give it a rule to the hub, or a Python function that is called",
        )
    return find(op.type or "?")


def is_std(op: Op) -> bool:
    """Whether this is an op of the hub: no constant, no graph, no op of another
    namespace."""
    return op.type in OPS and op.namespace == NAMESPACE and not isinstance(op, Graph)


def has_trait(op: Op, trait: Trait) -> bool:
    """Whether this is an op of the hub whose definition declares a trait."""
    return is_std(op) and trait in operation_of(op).traits


def compile_time_arguments(op: Op) -> list[Any]:
    """The arguments that a compiler must know, besides shape arguments.

    An item is an `OutputPort` if it is computed in the graph."""
    operation = operation_of(op)
    if operation.compile_time_rule is None:
        return []
    args, _ = op_arguments(op, lambda port: port)
    names = set(operation.compile_time_rule(op))
    params = operation.form.params_of(len(args))
    return [arg for param, arg in zip(params, args, strict=True) if param.name in names]


def shape_arguments(op: Op) -> dict[str, OutputPort | tuple[int, ...] | int | None]:
    """The shape arguments of an op, by name: integers that decide shapes.

    One is an `OutputPort` where it is an input, computed in the graph or constant; else
    it is integers in tuples, from the attribute of this name, or None if omitted."""
    args, _ = op_arguments(op, lambda port: port)
    params = operation_of(op).form.params_of(len(args))
    rows = zip(params, args, strict=True)
    return {param.name: arg for param, arg in rows if param.role == SHAPE_ARG}


_FEEDBACK: Final = (
    "its outputs are for the next iteration of a dataflow loop (feedback edges); ops "
    "of the hub repeat bodies: loop, while, scan"
)


def why_invalid(op: Op) -> str | None:
    """Why an op of the hub is invalid, or None."""
    if isinstance(op, Graph):
        return None
    if op.namespace != NAMESPACE:
        return f"it is of {op.namespace}, not {NAMESPACE}"
    if op.feedback:
        return _FEEDBACK
    try:
        op_arguments(op, lambda port: port)
    except (InvalidTypeError, NamespaceError) as error:
        return error.message
    return None


def op_arguments(
    op: Op, value: Callable[[OutputPort], Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments and attributes of an op; `value` converts each input."""
    operation = operation_of(op)
    form = operation.form
    attrs = op.attrs if op.has_attrs else {}
    inputs = iter(op.inputs)
    args: list[Any] = []
    for p in form.params:
        if p.variadic:
            args += [None if v is None else value(v) for v in inputs]
        elif p.role == BODY:
            args.append(_find_body(op, p))
        else:
            source = next(inputs, None)
            if source is not None:
                args.append(value(source))
            elif p.name in attrs:
                args.append(normalize_attribute(p.name, attrs[p.name]))
            elif p.optional:
                args.append(p.default)
            else:
                raise InvalidTypeError(f"{operation.name} lacks {p.name}")
    if next(inputs, None) is not None:
        raise InvalidTypeError(f"{operation.name} has too many inputs")
    given = {}
    for key, default in form.attributes.items():
        if key in attrs:
            given[key] = normalize_attribute(key, attrs[key])
            _expect_kind(operation, key, given[key])
        elif default is REQUIRED:
            raise InvalidTypeError(f"{operation.name} lacks {key}")
        else:
            given[key] = default
    for key in attrs:
        known = key in given or any(p.name == key for p in form.params)
        if not (known or is_note(key)):
            raise InvalidTypeError(f"{operation.name} has no attribute {key!r}")
    return args, given


def _expect_kind(operation: Operation, key: str, value: Any) -> None:
    """Raise InvalidTypeError for an attribute of a file that is of another kind."""
    is_plain = value.__class__ in _PLAIN
    fault = (_plain_fault if is_plain else _attribute_fault)(operation, key, value)
    if fault is not None:
        raise InvalidTypeError(f"{operation.name}: {fault}")


def _attribute_fault(operation: Operation, key: str, value: Any) -> str | None:
    return attribute_fault(_attributes(operation)[key], value)


_plain_fault = lru_cache(maxsize=1024, typed=True)(_attribute_fault)


@cache
def _attributes(operation: Operation) -> dict[str, Attr]:
    return {attr.name: attr for attr in attributes_of(operation)}


def traced_arguments(op: Op) -> tuple[list[Any], dict[str, Any]]:
    """The arguments and attributes of an op, for ops that are called on them.

    Inputs are values, but shape arguments of known content are integers in tuples, as
    if they were attributes: a file may hold them either way."""
    args, attrs = op_arguments(op, Value)
    params = operation_of(op).form.params_of(len(args))
    for i, (param, arg) in enumerate(zip(params, args, strict=True)):
        if param.role == SHAPE_ARG and isinstance(arg, Value):
            args[i] = _known_integers(arg.port, arg)
    return args, attrs


def _known_integers(port: OutputPort, otherwise: Any) -> Any:
    """The integers of a constant, or of a value whose type holds them."""
    tensor = constant_of(port)
    if tensor is not None:
        return to_integers(tensor)
    type = value_type(port)
    dims = to_dims(type) if isinstance(type, TensorType) else otherwise
    return dims if isinstance(dims, int | tuple) and is_static(dims) else otherwise


def _find_body(op: Op, param: Param) -> Any:
    """The body of a parameter, or a tuple of bodies; a name refers to a function."""
    name = param.name
    if param.kind.many:
        count = sum(key.startswith(name) for key in op.bodies)
        keys = [f"{name}{i}" for i in range(count)]
        if not keys or not all(key in op.bodies for key in keys):
            raise InvalidTypeError(f"{op.type} has no bodies {name}0, {name}1 ...")
        return tuple(op.bodies[key] for key in keys)
    if name in op.bodies:
        return op.bodies[name]
    name_of_function = op.attrs.get(name) if op.has_attrs else None
    if name_of_function is None:
        raise InvalidTypeError(f"{op.type} has no body {name!r}")
    return find_function(op.graph, name_of_function)


def inputs_and_captures(op: Op) -> list[OutputPort]:
    """The inputs of an op and the values that its bodies capture."""
    found = [v for v in op.inputs if v is not None]
    inner = [op] if isinstance(op, Graph) else op.bodies.values()
    for body in inner:
        if isinstance(body, Graph):
            found += body.captures
    return found
