"""Python functions in graphs: traced once, called any number of times.

A call on values is an op `call` of a function of the root graph. Calls share a
function if their arguments have equal dtypes, ranks and static dims; symbolic dims
may have other names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from amanda.errors import ForeignPortError, UsageError
from amanda.graph import Graph, OutputPort
from amanda.tensors import FunctionRef
from amanda.types import DType, Sym, TensorType, Type, meet
from amanda_std.engine.links import NAMESPACE
from amanda_std.engine.literals import as_tensor, is_literal
from amanda_std.engine.values import (
    UNKNOWN,
    Operators,
    Tracing,
    Typed,
    Value,
    is_types_only,
    lift,
    require_tracing,
    trace_into,
    tracing,
    value_type,
    without_axis_names,
)
from amanda_std.ops.control.functions import GRADIENT

if TYPE_CHECKING:
    from amanda.frontend import Function

__all__ = ["call_function", "gradients_of_values", "gradients_here", "trace_root"]


def trace_root(
    function: Callable[..., Any],
    types: Sequence[Type | None],
    name: str | None = None,
    names: Sequence[str | None] = (),
) -> Graph:
    """Trace a Python function over ops to a root graph."""
    graph = Graph(NAMESPACE, name)
    with tracing(graph) as into:
        trace_into(into, function, types, names)
    return graph


def call_function(
    function: Function, args: Sequence[Any], settings: Mapping[str, Any]
) -> Any:
    """Call a traced function on arrays, types or values; values add an op `call`."""
    args = [without_axis_names(a) for a in args]
    inputs = [i for i, a in enumerate(args) if a is not None]
    ports = [a for a in map(_port_or_none, args) if a is not None]
    if ports and not is_types_only():
        return _add_call(function, args, inputs, settings, require_tracing(ports))
    names = function.names(len(args))
    annotations = function.annotated_types(names)
    args = [
        arg if annotations[name] is None else _as_array(arg, annotations[name])
        for name, arg in zip(names, args, strict=True)
    ]
    function.expect_arguments(
        {name: _type_or_none(arg) for name, arg in zip(names, args, strict=True)}
    )
    if any(isinstance(a, Type | Typed) for a in args):
        args = list(map(_as_typed, args))
    return function.calling(len(args), inputs, settings)(*(args[i] for i in inputs))


def _as_typed(value: Any) -> Any:
    return Typed(value) if isinstance(value, TensorType) else value


def _type_or_none(value: Any) -> Type | None:
    """The type of a type, an array or a value; None for others."""
    if isinstance(value, Type):
        return value
    if isinstance(found := getattr(value, "type", None), Type):
        return found
    is_array = hasattr(value, "dtype") and hasattr(value, "shape")
    return TensorType(DType.of(value), value.shape) if is_array else None


def gradients_of_values(
    graph: Graph,
    of: Any,
    wrt: Sequence[Any],
    hooks: Mapping[Any, Sequence[Callable[[Any], Any]]] | None = None,
) -> list[Any]:
    """Gradients of the sum of `of`: ports for ports, values for values."""
    from amanda_std.autodiff.gradients import grad_with_hooks

    calls = {_expect_port(each): called for each, called in (hooks or {}).items()}
    targets = [_expect_port(each) for each in wrt]
    found = grad_with_hooks(graph, _expect_port(of), targets, calls)
    return [
        Value(port) if isinstance(each, Value) else port
        for port, each in zip(found, wrt, strict=True)
    ]


def gradients_here(of: Any, wrt: Any) -> Any:
    """Gradients of a value at the insertion point; for types, their types."""
    many = isinstance(wrt, list | tuple)
    targets = list(wrt) if many else [wrt]
    if isinstance(of, Typed) or is_types_only():
        found: list[Any] = [_as_typed(_without_content(x.type)) for x in targets]
    else:
        found = gradients_of_values(require_tracing([of.port]).graph, of, targets)
    return found if many else found[0]


def _expect_port(value: Any) -> OutputPort:
    port = _port_or_none(value)
    if port is None:
        raise UsageError(
            "gradients are of values of a graph",
            got=f"{type(value).__name__} {value!r}",
        )
    return port if port.graph is not None else port.resolve()


# -- a call ----------------------------------------------------------------------------


class _TracedFunction(NamedTuple):
    """A traced function of a root graph."""

    name: str
    graph: int
    """The id of its graph: another graph may later have the name."""
    shape: Any
    """What the function returns: None for one value, names, or a class of tuples."""


def _add_call(
    function: Function,
    args: Sequence[Any],
    inputs: Sequence[int],
    settings: Mapping[str, Any],
    into: Tracing,
) -> Any:
    from amanda_std.ops import OPS

    names = function.names(len(args))
    annotations = function.annotated_types(names)
    values = [
        lift(
            _convert_numbers(args[i], annotations[names[i]]),
            into,
            _dtype(annotations[names[i]]),
        )
        for i in inputs
    ]
    rows = [
        (names[i], annotations[names[i]], value_type(v))
        for i, v in zip(inputs, values, strict=True)
    ]
    types = _parameter_types(function, rows)
    root = into.graph.root
    key = (tuple(inputs), _types_key(types), _settings_key(function, settings))
    held = function.held.setdefault(root, {})
    found = held.get(key)
    if found is _OPEN:
        raise UsageError(
            f"the function {function.name!r} calls itself",
            hint="repeat what is in it by ops.loop, ops.while_ or ops.scan",
        )
    if found is None or id(root.functions.get(found.name)) != found.graph:
        held[key] = _OPEN
        try:
            body = function.calling(len(args), inputs, settings)
            found = _find_or_add(
                function, root, body, types, [names[i] for i in inputs]
            )
            if function.backward is not None:
                _attach_gradient(
                    function, root, found.name, partial(function.backward, **settings)
                )
        except BaseException:
            del held[key]
            raise
        held[key] = found
    made = OPS["call"](found.name, *map(Value, values))
    return _pack_results(made, found.shape)


_OPEN: Any = object()


def _find_or_add(
    function: Function,
    root: Graph,
    body: Callable[..., Any],
    types: Sequence[Type],
    names: Sequence[str],
) -> _TracedFunction:
    """The function of the root that equals this one, added if it is new."""
    name, count = function.name, 0
    while name in root.functions:
        count += 1
        name = f"{function.name}_{count}"
    graph = root.add_function(name, Graph(root.namespace, function.name))
    try:
        with tracing(graph) as into:
            shape = trace_into(into, body, types, names)
        function.expect_results([value_type(v) for v in graph.results if v])
    except BaseException as error:
        root.remove_function(name)
        if isinstance(error, ForeignPortError):
            raise UsageError(
                f"the function {function.name!r} reads a value that is not its own",
                got=error.message,
                hint="hand the value over as an argument",
            ) from error
        raise
    for other in [function.name, *(f"{function.name}_{i}" for i in range(1, count))]:
        if other != name and graph.same_as(root.functions[other]):
            root.remove_function(name)
            return _TracedFunction(other, id(root.functions[other]), shape)
    return _TracedFunction(name, id(graph), shape)


def _attach_gradient(
    function: Function, root: Graph, name: str, backward: Callable[..., Any]
) -> None:
    """Add the gradient of a function, as another function that it names."""
    graph = root.functions[name]
    if GRADIENT in graph.attrs:
        return
    made = [UNKNOWN if v is None else value_type(v) for v in graph.results]
    results = list(map(_without_content, made))
    types = [p.type for p in graph.parameters]
    own_name = f"{name}_gradient"
    while own_name in root.functions:
        own_name += "_"
    body = root.add_function(own_name, Graph(root.namespace, own_name))
    try:
        with tracing(body) as into:
            trace_into(into, backward, [*types, *results, *results])
        if len(body.results) != len(types):
            raise UsageError(
                f"the gradient of the function {function.name!r} is one for each "
                "argument",
                expected=len(types),
                got=len(body.results),
            )
    except BaseException:
        root.remove_function(own_name)
        root.remove_function(name)
        raise
    graph.attrs[GRADIENT] = FunctionRef(own_name)


def _pack_results(made: Sequence[Any], shape: Any) -> Any:
    if shape is None:
        return made[0]
    if isinstance(shape, type):
        return shape(*made) if hasattr(shape, "_fields") else shape(made)
    return dict(zip(shape, made, strict=True))


# -- arguments -------------------------------------------------------------------------


def _port_or_none(value: Any) -> OutputPort | None:
    if isinstance(value, Value):
        return value.port
    return value if isinstance(value, OutputPort) else None


def _dtype(type: Type | None) -> Any:
    return type.dtype if isinstance(type, TensorType) else None


def _convert_numbers(value: Any, type: Type | None) -> Any:
    """Numbers converted to the dtype of the annotation, if it has one."""
    dtype = _dtype(type)
    if is_literal(value) and not isinstance(value, Operators):
        return as_tensor(value, None if getattr(dtype, "bits", 0) == 0 else dtype)
    return value


def _as_array(value: Any, type: Type | None) -> Any:
    converted = _convert_numbers(value, type)
    return value if converted is value else converted.numpy()


def _parameter_types(
    function: Function, rows: Sequence[tuple[str, Type | None, Type]]
) -> list[Type]:
    """The types of the parameters: annotations, checked against the arguments."""
    function.expect_arguments({name: got for name, _, got in rows})
    found: list[Type] = []
    for _, wanted, got in rows:
        if not isinstance(wanted, TensorType) or not isinstance(got, TensorType):
            found.append(_without_content(got))
            continue
        is_open = not wanted.dtype.bits or not wanted.shape.has_rank
        found.append(_without_content(meet(wanted, got)) if is_open else wanted)
    return found


def _without_content(type: Type) -> Type:
    if isinstance(type, TensorType) and type.value is not None:
        return TensorType(type.dtype, type.shape, type.axes)
    return type


def _types_key(types: Sequence[Type]) -> Any:
    """Equal for types that differ only in the names of symbols."""
    numbers: dict[Any, int] = {}
    found: list[Any] = []
    for type in types:
        if not isinstance(type, TensorType) or not type.shape.has_rank:
            found.append(type)
            continue
        dims: list[Any] = []
        for dim in type.shape:
            if not isinstance(dim, Sym):
                dims.append(dim)
            elif {dim.key} == {symbol.key for symbol in dim.free}:
                dims.append((numbers.setdefault(dim.key, len(numbers)),))
            else:
                dims.append(str(dim))
        if any(isinstance(d, str) for d in dims):
            return tuple(types)  # what is computed from others keeps its symbols
        found.append((type.dtype, tuple(dims), type.axes))
    return tuple(found)


def _settings_key(function: Function, settings: Mapping[str, Any]) -> Any:
    from amanda_std.engine.literals import normalize_attribute

    key = tuple(sorted((k, normalize_attribute(k, v)) for k, v in settings.items()))
    try:
        hash(key)
    except TypeError:
        raise UsageError(
            f"a setting of the function {function.name!r} can change",
            got=", ".join(settings),
            hint="settings are numbers, texts, and tuples of them; values go by place",
        ) from None
    return tuple((k, type(v), v) for k, v in key)
