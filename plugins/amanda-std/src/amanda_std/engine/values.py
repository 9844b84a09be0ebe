"""Operands that are not arrays: types in place of tensors, and values of a graph.

Both have the operators of arrays, so one function computes, infers and traces.
Reading their content (`if x:`) raises Undecided unless the type holds it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Final, NoReturn, Self

from amanda.argument_checks import argument_error, checks_itself
from amanda.errors import InvalidTypeError, Undecided, UsageError
from amanda.graph import CONSTANT, CORE, Graph, Op, OutputPort, Parameter, Provenance
from amanda.tensors import Tensor
from amanda.types import Dim, DType, ElementType, Sym, TensorType, Type, unknown
from amanda_std.engine.array_methods import ArrayLike
from amanda_std.engine.links import find_operation
from amanda_std.engine.literals import as_tensor, is_literal
from amanda_std.hub.effect_order import effect_of
from amanda_std.hub.expression_key import common_subexpression_key

UNKNOWN = TensorType()


class Operators(ArrayLike):
    """A tensor of which only the type is known, with array operators."""

    __slots__ = ()

    @property
    def type(self) -> TensorType:
        raise NotImplementedError

    @property
    def shape(self) -> tuple[Any, ...]:
        raise NotImplementedError

    @property
    def dtype(self) -> ElementType:
        if self.type.dtype is unknown:
            raise Undecided("the element type of this tensor is not known")
        return self.type.dtype

    @property
    def ndim(self) -> int:
        return self.type.shape.rank

    # What decides in Python is answered from known content, or raises.

    def _content(self) -> Dim:
        value = self.type.value
        if value is None or isinstance(value, tuple):
            raise Undecided(
                "the content of a value decides, known at run time only",
                hint="ops.where(condition, a, b) takes elements of both; ops.if_ and "
                "ops.while_ decide when the graph runs",
            )
        return value

    def __bool__(self) -> bool:
        return bool(self._content())

    def __index__(self) -> int:
        return self._content().__index__()

    __int__ = __index__

    def __iter__(self) -> NoReturn:
        raise Undecided("a value is not a list; split or gather its parts")

    def __len__(self) -> int:
        size = self.type.shape[0]
        return size.__index__()


class Typed(Operators):
    """A tensor of which only the type is known; ops infer with it."""

    __slots__ = ("_type",)
    is_of_types = True

    def __init__(self, type: TensorType) -> None:
        self._type = type

    @property
    def type(self) -> TensorType:
        return self._type

    @property
    def shape(self) -> tuple[Any, ...]:
        return self._type.shape.dims

    def __repr__(self) -> str:
        return f"Typed({self._type})"


class Value(Operators):
    """A value of a graph under construction: an output port with operators."""

    __slots__ = ("port",)

    @checks_itself
    def __init__(self, port: OutputPort) -> None:
        if not isinstance(port, OutputPort):
            raise argument_error("Value", "port", "OutputPort", port)
        self.port = port

    @property
    def type(self) -> Any:
        """The type: of a tensor or a container."""
        return value_type(self.port)

    @property
    def dtype(self) -> ElementType:
        port_type(self.port)
        return super().dtype

    @property
    def shape(self) -> tuple[Any, ...]:
        """Static dims as ints; others as values that hold the dim at run time."""
        dims = port_type(self.port).shape.dims
        return tuple(
            find_operation("dim")(self, axis=i) if isinstance(d, Sym) else d
            for i, d in enumerate(dims)
        )

    def __repr__(self) -> str:
        return f"Value({self.port}: {self.type})"


def value_type(port: OutputPort) -> Type:
    """The type of a value, tensor or container."""
    found = port.type
    return port_type(port) if found is None or type(found) is TensorType else found


def port_type(port: OutputPort) -> TensorType:
    """The type of a tensor, with its content if that is a small constant."""
    found = port.type
    if isinstance(found, TensorType):
        if found.value is None and (tensor := constant_of(port)) is not None:
            return tensor.type_with_content()
        return found
    if found is None:
        return UNKNOWN
    raise InvalidTypeError("this is no tensor", who=str(port), got=found)


def constant_of(port: OutputPort) -> Tensor | None:
    """The tensor of a constant; None for another value."""
    op = port.op
    if op.type == CONSTANT and op.namespace == CORE and type(port) is not Parameter:
        found: Tensor = op.attrs["value"]
        return found
    return None


def dims_of(x: Any) -> tuple[Dim, ...]:
    """Dims for decisions: comparing a symbolic one raises Undecided.

    A value's own `shape` is for computing: it holds run-time values for symbolic
    dims."""
    found = x.type.shape.dims if isinstance(x, Operators) else x.shape
    return tuple(found)


class Tracing:
    """A graph to which ops are being added, and the ops added so far."""

    __slots__ = ("graph", "made", "provenance", "seen")

    def __init__(self, graph: Graph, provenance: Provenance | None) -> None:
        self.graph = graph
        self.made: list[Op] = []
        self.provenance = provenance
        self.seen: dict[Any, tuple[Op, object]] | None = None
        """With sharing on: ops added, by their common-subexpression key."""

    def note(self, op: Op) -> Op:
        """Record an op just added; returns an equal earlier one if they are shared."""
        if self.seen is not None and (first := self._first(op, self.seen)) is not op:
            self.graph.remove(op)
            return first
        if self.provenance is not None:
            op.provenance = self.provenance
        self.made.append(op)
        return op

    def _first(self, op: Op, seen: dict[Any, tuple[Op, object]]) -> Op:
        """The earlier op that computes the same; own names and effects keep ops
        apart."""
        key = None if op.name is not None else common_subexpression_key(op)
        if key is None or effect_of(op) is not None:
            return op
        first, _ = seen.get(key, (op, None))
        if first.graph is not self.graph:
            first = op
        seen[key] = first, first.inputs  # whose identities are in the key
        return first

    def __enter__(self) -> Self:
        return self  # it is open already

    def __exit__(self, *error: object) -> None:
        return None

    def take_back(self, count: int) -> None:
        """Remove all ops but the first `count` added."""
        while len(self.made) > count:
            self.graph.remove(self.made.pop())


_current: ContextVar[Tracing | None] = ContextVar("amanda_std_tracing", default=None)


class _TracingContext:
    """The context of one `tracing(...)` call: a class, as mapping enters one per op."""

    __slots__ = ("before", "place", "share", "state", "token")

    def __init__(self, state: Tracing, before: Op | None, share: bool | None) -> None:
        self.state = state
        self.before = before
        self.share = share
        self.place: AbstractContextManager[Any] | None = None

    def __enter__(self) -> Tracing:
        around, share = _current.get(), self.share
        if share is None:
            share = around is not None and around.seen is not None
        self.state.seen = {} if share else None
        if self.before is not None:
            self.place = self.state.graph.before(self.before)
            self.place.__enter__()
        self.token: Token[Tracing | None] = _current.set(self.state)
        return self.state

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _current.reset(self.token)
        if self.place is not None:
            self.place.__exit__(kind, error, trace)


def tracing(
    graph: Graph,
    before: Op | None = None,
    provenance: Provenance | None = None,
    *,
    share: bool | None = None,
) -> AbstractContextManager[Tracing]:
    """Add ops called on values to `graph`, right before an op or at its insertion
    point.

    The insertion point is the end unless `graph.before` is open. With `share`, equal
    calls become one op, also in bodies and functions."""
    around = _current.get()
    if (
        around is not None
        and around.graph is graph
        and around.seen is None
        and around.provenance is None
        and before is None
        and provenance is None
        and share is None
    ):
        return around
    return _TracingContext(Tracing(graph, provenance), before, share)


def require_tracing(ports: Sequence[OutputPort] = ()) -> Tracing:
    """The graph of the enclosing `tracing`, else the graph of the values."""
    state = _current.get()
    if state is not None:
        return state
    for port in ports:
        if port.graph is not None:
            return Tracing(port.graph, None)
    raise InvalidTypeError(
        "no graph is being traced", hint="with tracing(graph): call the op in here"
    )


_types_only: ContextVar[bool] = ContextVar("amanda_std_types_only", default=False)
_ops_left: ContextVar[list[int] | None] = ContextVar(
    "amanda_std_ops_left", default=None
)
LONGEST_DEFINITION: Final = 20_000
"""The most ops that the definition of a composite may call."""


@contextmanager
def types_only() -> Iterator[None]:
    """Context in which ops called on graph values only infer types."""
    token = _types_only.set(True)
    try:
        yield
    finally:
        _types_only.reset(token)


@contextmanager
def bounded_definition() -> Iterator[None]:
    """Context in which a definition may use a limited number of ops."""
    if _ops_left.get() is not None:  # a definition inside another one
        yield
        return
    token = _ops_left.set([LONGEST_DEFINITION])
    try:
        yield
    finally:
        _ops_left.reset(token)


def count_definition_op() -> None:
    """Count an op of a definition; raise InvalidTypeError where they are too many."""
    left = _ops_left.get()
    if left is None:
        return
    left[0] -= 1
    if left[0] < 0:
        raise InvalidTypeError(
            "the definition is too long", expected=f"at most {LONGEST_DEFINITION} ops",
            got="more of them, by the size of an attribute or of an input",
        )  # fmt: skip


def is_types_only() -> bool:
    return _types_only.get()


def tracing_target() -> Tracing | None:
    """Where ops on values are added; None inside `types_only`."""
    return None if _types_only.get() else _current.get()


def is_tracing() -> bool:
    """Whether a `tracing` context is open."""
    return _current.get() is not None


def lift(value: Any, into: Tracing, dtype: ElementType | None = None) -> OutputPort:
    """The port of a value; arrays, tensors and numbers become constants of the
    graph."""
    value = without_axis_names(value)
    if isinstance(value, Value):
        value = value.port
    if isinstance(value, OutputPort):
        return value if value.graph is not None else value.resolve()
    if isinstance(value, Sym):
        raise InvalidTypeError(
            f"the symbol {value} is no value at run time",
            hint="take the dim from a value: x.shape[i], or ops.dim(x, axis=i)",
        )
    if is_literal(value):
        tensor = as_tensor(value, dtype if isinstance(dtype, DType) else None)
    elif isinstance(value, list | tuple):
        tensor = Tensor.of(value, dtype)
    elif _is_splat(value):
        tensor = Tensor.splat(DType.of(value), value.shape, value.flat[0])
    else:
        tensor = Tensor.of(value)
    port = into.note(into.graph.constant(tensor)).output
    port.type = tensor.type_with_content()
    return port


def without_axis_names(value: Any) -> Any:
    """The data of a tensor with named axes; everything else unchanged."""
    is_named = isinstance(value, ArrayLike) and not isinstance(value, Operators)
    return value.data if is_named else value


def _is_splat(value: Any) -> bool:
    """Whether all elements of an array share one memory location."""
    strides: Sequence[int] = getattr(value, "strides", None) or (1,)
    return not any(strides) and value.size > 1


def trace(
    function: Callable[..., Any],
    types: Sequence[Type | None],
    name: str | None = None,
    *,
    names: Sequence[str | None] = (),
    around: Tracing | None = None,
) -> Graph:
    """Trace a Python function over ops to a graph, which may become a body.

    It may read values of the graph that is being traced, or of `around`."""
    if len(names) > len(types):
        raise UsageError(
            "more names than parameters",
            expected=f"at most {len(types)}",
            got=len(names),
        )
    state = around or _current.get()
    outer = state.graph if state is not None else None
    graph = Graph("amanda/std/1" if outer is None else None, name, outer=outer)
    with tracing(graph, None, state.provenance if state else None) as into:
        trace_into(into, function, types, names)
    return graph


def trace_into(
    into: Tracing,
    function: Callable[..., Any],
    types: Sequence[Type | None],
    names: Sequence[str | None] = (),
) -> Any:
    """Trace a function into an empty graph.

    Returns the form of its return value: None for a single value, the names of a
    dict, or the class of a tuple. Results are named by a dict or a named tuple."""
    named = [*names, *[None] * (len(types) - len(names))]
    graph = into.graph
    ports = [graph.parameter(t, n) for t, n in zip(types, named, strict=True)]
    made = function(*map(Value, ports))
    if isinstance(made, dict):
        rows: list[tuple[Any, Any]] = list(made.items())
        form: Any = list(made)
    elif isinstance(made, tuple | list):
        fields = getattr(made, "_fields", [None] * len(made))
        rows, form = list(zip(fields, made, strict=True)), type(made)
    else:
        rows, form = [(None, made)], None
    for key, value in rows:
        if value is None or isinstance(value, tuple | list | dict):
            raise UsageError(
                "a function returns values, or a tuple or dict of values",
                who=getattr(function, "__name__", None),
                where=f"result {key or len(graph.results)}" if form else None,
                got=type(value).__name__,
                hint="is a `return` missing?" if value is None else None,
            )
        graph.result(lift(value, into), key)
    return form
