"""Values that are no arrays: types that stand for tensors, and values of a graph.

Both have the operators of arrays, so that one function serves all readings. What asks
for their content (`if x:`) raises Undecided, unless their type knows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NoReturn

from amanda.errors import InvalidTypeError, Undecided
from amanda.graph import CONSTANT, CORE, Graph, Op, OutputPort, Parameter, Provenance
from amanda.tensors import Tensor
from amanda.types import Dim, DType, ElementType, Sym, TensorType, Type, unknown

if TYPE_CHECKING:
    from amanda_std.operation import Operation

UNKNOWN = TensorType()


class Operators:
    """Python's operators, as ops."""

    __slots__ = ()
    __array_ufunc__ = None  # numpy leaves `array + value` to us
    __array_priority__ = 1000

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

    def __add__(self, other: Any) -> Any:
        return _op("add")(self, other)

    def __radd__(self, other: Any) -> Any:
        return _op("add")(other, self)

    def __sub__(self, other: Any) -> Any:
        return _op("subtract")(self, other)

    def __rsub__(self, other: Any) -> Any:
        return _op("subtract")(other, self)

    def __mul__(self, other: Any) -> Any:
        return _op("multiply")(self, other)

    def __rmul__(self, other: Any) -> Any:
        return _op("multiply")(other, self)

    def __truediv__(self, other: Any) -> Any:
        return _op("divide")(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _op("divide")(other, self)

    def __floordiv__(self, other: Any) -> Any:
        return _op("floor_divide")(self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _op("floor_divide")(other, self)

    def __mod__(self, other: Any) -> Any:
        return _op("remainder")(self, other)

    def __pow__(self, other: Any) -> Any:
        return _op("power")(self, other)

    def __matmul__(self, other: Any) -> Any:
        return _op("matmul")(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return _op("matmul")(other, self)

    def __neg__(self) -> Any:
        return _op("negative")(self)

    # What decides in Python is answered from known content, or raises.

    def _content(self) -> Dim:
        value = self.type.value
        if value is None or isinstance(value, tuple):
            raise Undecided("the content of a value decides, known at run time only")
        return value

    def __bool__(self) -> bool:
        return bool(self._content())

    def __index__(self) -> int:
        return self._content().__index__()

    __int__ = __index__

    def __eq__(self, other: object) -> bool:
        return self is other or bool(self._content() == _content_of(other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: Any) -> bool:
        return bool(self._content() < _content_of(other))

    def __gt__(self, other: Any) -> bool:
        return bool(self._content() > _content_of(other))

    __hash__ = object.__hash__

    def __iter__(self) -> NoReturn:
        raise Undecided("a value is not a list; split or gather its parts")

    def __len__(self) -> int:
        size = self.type.shape[0]
        return size.__index__()


def _op(name: str) -> Operation:
    from amanda_std import ops

    return ops.OPS[name]


def _content_of(other: object) -> Any:
    return other._content() if isinstance(other, Operators) else other


class Typed(Operators):
    """A tensor of which only the type is known."""

    __slots__ = ("_type",)

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
    """A value of a graph, under construction: `port` with operators."""

    __slots__ = ("port",)

    def __init__(self, port: OutputPort) -> None:
        self.port = port

    @property
    def type(self) -> TensorType:
        return port_type(self.port)

    @property
    def shape(self) -> tuple[Any, ...]:
        """Ints where known; where not, a value that holds the dim at run time."""
        dims = self.type.shape.dims
        return tuple(
            _op("dim")(self, axis=i) if isinstance(d, Sym) else d
            for i, d in enumerate(dims)
        )

    def __repr__(self) -> str:
        return f"Value({self.port}: {self.type})"


def port_type(port: OutputPort) -> TensorType:
    """The type of a value; with the content where that is a small constant."""
    found = port.type
    if isinstance(found, TensorType):
        if found.value is None and (tensor := constant_of(port)) is not None:
            return tensor.type_with_content()
        return found
    if found is None:
        return UNKNOWN
    raise InvalidTypeError("this is no tensor", who=str(port), got=found)


def constant_of(port: OutputPort) -> Tensor | None:
    """The weight that a value is, if it is one."""
    op = port.op
    if op.type == CONSTANT and op.namespace == CORE and type(port) is not Parameter:
        found: Tensor = op.attrs["value"]
        return found
    return None


def dims(x: Any) -> tuple[Dim, ...]:
    """Dims to decide with: a symbol raises Undecided when it is compared.

    A value's own `shape` is to compute with: it has run-time values for symbols.
    """
    found = x.type.shape.dims if isinstance(x, Operators) else x.shape
    return tuple(found)


class Tracing:
    """A graph that ops are being added to, and those added so far."""

    __slots__ = ("graph", "made", "provenance")

    def __init__(self, graph: Graph, provenance: Provenance | None) -> None:
        self.graph = graph
        self.made: list[Op] = []
        self.provenance = provenance

    def note(self, op: Op) -> Op:
        if self.provenance is not None:
            op.provenance = self.provenance
        self.made.append(op)
        return op


_current: ContextVar[Tracing | None] = ContextVar("amanda_std_tracing", default=None)


@contextmanager
def tracing(
    graph: Graph, before: Op | None = None, provenance: Provenance | None = None
) -> Iterator[Tracing]:
    """Ops called on values go into `graph`, at its end or right before an op."""
    state = Tracing(graph, provenance)
    token = _current.set(state)
    try:
        with graph.before(before):
            yield state
    finally:
        _current.reset(token)


def current(ports: Sequence[OutputPort] = ()) -> Tracing:
    """Where ops go: the graph of `tracing`, else that of the values themselves."""
    state = _current.get()
    if state is not None:
        return state
    for port in ports:
        if port.graph is not None:
            return Tracing(port.graph, None)
    raise InvalidTypeError(
        "no graph is being traced", hint="with tracing(graph): call the op in here"
    )


def lift(value: Any, into: Tracing, dtype: ElementType | None = None) -> OutputPort:
    """A port as it is; an array, tensor or number as a constant of the graph."""
    if isinstance(value, OutputPort):
        return value
    if isinstance(value, Value):
        return value.port
    if isinstance(value, Sym):
        raise InvalidTypeError(
            f"the symbol {value} is no value at run time",
            hint="take the dim from a value: x.shape[i], or ops.dim(x, axis=i)",
        )
    if isinstance(dtype, DType) and is_number(value):
        tensor = Tensor.of(value, number_type(value, dtype))
    elif isinstance(value, list | tuple):
        tensor = Tensor.of(value, dtype)
    elif _is_splat(value):
        tensor = Tensor.splat(DType.of(value), value.shape, value.flat[0])
    else:
        tensor = Tensor.of(value)
    port = into.note(into.graph.constant(tensor)).output
    port.type = tensor.type_with_content()
    return port


def _is_splat(value: Any) -> bool:
    """Whether an array is one element, seen in many places."""
    strides: Sequence[int] = getattr(value, "strides", None) or (1,)
    return not any(strides) and value.size > 1


def is_number(value: object) -> bool:
    return type(value) in (int, float, bool)


def number_type(value: object, dtype: DType) -> DType:
    """The element type that a Python number takes beside tensors of `dtype`."""
    fits = {"int": (int,), "uint": (int,), "bool": (bool,)}.get(dtype.kind)
    if fits is not None and type(value) not in fits:
        raise InvalidTypeError(
            f"the number {value!r} is none of {dtype}",
            hint="convert the tensor first: ops.astype(x, dtype=...)",
        )
    return dtype


def trace(
    function: Callable[..., Any],
    types: Sequence[Type | None],
    name: str | None = None,
    *,
    names: Sequence[str | None] = (),
) -> Graph:
    """A Python function over ops as a graph, a body of the graph being traced."""
    state = _current.get()
    outer = state.graph if state is not None else None
    graph = Graph("amanda/std/1" if outer is None else None, name, outer=outer)
    named = [*names, *[None] * (len(types) - len(names))]
    with tracing(graph, None, state.provenance if state else None) as into:
        ports = [graph.parameter(t, n) for t, n in zip(types, named, strict=True)]
        results = function(*map(Value, ports))
        many = isinstance(results, tuple | list)
        for value in results if many else (results,):
            graph.result(lift(value, into))
    return graph
