"""Ports and edges. Only output ports are stored; the others are views."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NamedTuple,
    Protocol,
    TypeAlias,
    runtime_checkable,
)

from amanda.argument_checks import argument_check, checks_itself
from amanda.errors import DuplicateNameError, GoneError, GraphError
from amanda.types import Type, as_type

if TYPE_CHECKING:
    from amanda.graph._graph import Graph
    from amanda.graph._op import Op

CONTROL = -1
CONTROL_NAME = "^control"
_FEW = 8  # up to this many users are a list; more are a dict, with O(1) removal
_NARROW = 32  # up to this many inputs are a tuple; more are a list with an index

_MANY = (list, dict)

Users: TypeAlias = "Op | list[Op] | dict[Op, int] | None"


class OutputPort:
    """A value: an output of an op, identified by this object."""

    __slots__ = ("_type", "_users", "index", "name", "op")

    op: Op
    index: int
    name: str | None
    _type: Type | None
    _users: Users

    @checks_itself
    def __init__(self, op: Op, index: int) -> None:
        _check_port(self, op, index)
        self.op = op
        self.index = index
        self.name = None
        self._type = None
        self._users = None

    def _set_type(self, type: Type | str | None) -> None:
        known = type is None or isinstance(type, Type)
        self._type = type if known else as_type(type)  # type: ignore[assignment, arg-type]

    if TYPE_CHECKING:

        @property
        def type(self) -> Type | None: ...

        @type.setter
        def type(self, type: Type | str | None) -> None: ...

    else:  # this getter runs no Python code
        type = property(
            attrgetter("_type"), _set_type,
            doc="The type of the value; it may be set as text.",
        )  # fmt: skip

    @property
    def graph(self) -> Graph | None:
        """The graph of this value; None once its op is removed."""
        return self.op.graph

    @property
    def users(self) -> list[InputPort]:
        """The input ports that read this value, in order of attachment."""
        users = self._users
        if users is None:
            return []
        kind = users.__class__
        readers: Iterable[Op] = users if kind in _MANY else (users,)  # type: ignore[assignment]
        ports: list[InputPort] = []
        for op in readers:
            held = op._inputs
            if kind is not dict and held.__class__ is tuple and not op.is_graph:
                ports.append(_new_tuple(InputPort, (op, held.index(self), False)))
            else:
                ports += op._reading_ports(self)
        return ports

    @property
    def is_used(self) -> bool:
        return self._users is not None

    @property
    def user_ops(self) -> list[Op]:
        """The ops that read this value, each once."""
        return list(distinct(self._users))

    @property
    def attrs(self) -> dict[str, Any]:
        """Attributes of the port; an output of a graph shares those of its result."""
        return self.op._side.attrs_of(("out", self.index))

    @property
    def has_attrs(self) -> bool:
        return self.op._has_side(("out", self.index))

    @property
    def marks(self) -> frozenset[str]:
        """Labels of this value; `keep` means that it must not be removed."""
        more = self.op.side_record
        held = more.marks.get(self.index) if more and more.marks else None
        return frozenset(held or ())

    def mark(self, label: str) -> None:
        """Add a label to this value; replacements inherit it."""
        side = self.op._side
        if side.marks is None:
            side.marks = {}
        side.marks.setdefault(self.index, set()).add(label)

    def unmark(self, label: str) -> None:
        more = self.op.side_record
        if more and more.marks and self.index in more.marks:
            more.marks[self.index].discard(label)

    def resolve(self) -> OutputPort:
        """The current value, following the forwards of replaced ops."""
        passed: list[OutputPort] = []
        port = self
        while (more := port.op.side_record) is not None and more.forward is not None:
            if type(port) is Parameter:
                break
            values, by = more.forward
            replacement = values[port.index] if port.index < len(values) else None
            if replacement is None:
                raise GoneError(
                    f"the value {port} is gone",
                    who=port.op.label,
                    got=f"its op was removed by {by}",
                    hint="get the handle from the graph again",
                )
            passed.append(port)
            port = replacement
        for old in passed:  # path compression
            more = old.op.side_record
            assert more is not None
            assert more.forward is not None
            values, by = more.forward
            more.forward = (
                (*values[: old.index], port, *values[old.index + 1 :]),
                by,
            )
        return port

    def __repr__(self) -> str:
        return f"{self.op.short}:{self.name or self.index}"

    def __reduce__(self) -> str:
        raise GraphError("a value cannot be pickled; save its graph")

    def __copy__(self) -> OutputPort:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> OutputPort:
        return self


_check_port = argument_check(OutputPort.__init__)


def new_port(op: Op, index: int) -> OutputPort:
    """An output port, for arguments that need no check; faster than the constructor."""
    port = _allocate(OutputPort)
    port.op = op
    port.index = index
    port.name = None
    port._type = None
    port._users = None
    return port


_allocate = OutputPort.__new__


@runtime_checkable
class TracedValue(Protocol):
    """An object for a value of a graph, such as `amanda_std.Value`."""

    @property
    def port(self) -> OutputPort: ...


ValueLike: TypeAlias = OutputPort | TracedValue


def value_port(value: ValueLike, who: str = "the argument") -> OutputPort:
    """The port of a value."""
    port = value if isinstance(value, OutputPort) else getattr(value, "port", None)
    if isinstance(port, OutputPort):
        return port
    raise GraphError(
        f"{who} is not a value",
        expected="an OutputPort or an object with one, or None",
        got=value.__class__.__name__,
        hint="use its .output, or .outputs[i]" if hasattr(value, "outputs") else None,
    )


def value_ports(
    values: Iterable[ValueLike | None], who: str = "value {}"
) -> list[OutputPort | None]:
    """The ports of values; None stays None. `who` names one by its position."""
    return [
        None if value is None else value_port(value, who.format(i))
        for i, value in enumerate(values)
    ]


class Parameter(OutputPort):
    """A source inside a graph; from outside, an input port of the graph."""

    __slots__ = ("_name",)
    op: Graph

    @checks_itself
    def __init__(self, op: Graph, index: int) -> None:
        if index.__class__ is not int or not getattr(op, "is_graph", False):
            _check_parameter(self, op, index)
        self.op = op
        self.index = index
        self._type = None
        self._users = None
        self._name: str | None = None

    @property
    def name(self) -> str | None:
        """The name, which no other parameter of the graph has."""
        return self._name

    @name.setter
    def name(self, name: str | None) -> None:
        names = self.op._parameter_names
        if name is not None and names.setdefault(name, self) is not self:
            raise DuplicateNameError(
                f"{self.op.label} has a parameter named {name!r} already",
                hint="choose another name",
            )
        old = getattr(self, "_name", None)
        if old is not None and old != name:
            del names[old]
        self._name = name

    @property
    def graph(self) -> Graph:
        return self.op

    @property
    def attrs(self) -> dict[str, Any]:
        return self.op._side.attrs_of(("in", self.index))

    @property
    def has_attrs(self) -> bool:
        return self.op._has_side(("in", self.index))

    @property
    def marks(self) -> frozenset[str]:
        return frozenset(self.op._parameter_marks.get(self, ()))

    def mark(self, label: str) -> None:
        self.op._parameter_marks.setdefault(self, set()).add(label)

    def unmark(self, label: str) -> None:
        self.op._parameter_marks.get(self, set()).discard(label)

    def resolve(self) -> OutputPort:
        if self.op._parameters[self.index : self.index + 1] != [self]:
            raise GoneError(f"the parameter {self} is gone", who=self.op.label)
        return self


_check_parameter = argument_check(Parameter.__init__)


class InputPort(NamedTuple):
    """A position that reads a value: of an op, or (`inner`) a result of a graph."""

    op: Op
    index: int  # type: ignore[assignment]  # hides tuple.index
    inner: bool = False

    @property
    def source(self) -> OutputPort | None:
        return self.op._sinks(self.inner)[self.index]

    @property
    def graph(self) -> Graph | None:
        """The graph whose value this port reads."""
        return self.op if self.inner else self.op.graph  # type: ignore[return-value]

    @property
    def type(self) -> Type | None:
        source = self.source
        return None if source is None else source.type

    @property
    def name(self) -> str | None:
        """The name of the port; the same inside and outside of a graph."""
        return self.op._input_name(self.index, self.inner)

    def set_name(self, name: str | None) -> None:
        self.op._set_input_name(self.index, self.inner, name)

    @property
    def _key(self) -> tuple[str, int]:
        return ("out" if self.inner else "in", self.index)

    @property
    def attrs(self) -> dict[str, Any]:
        return self.op._side.attrs_of(self._key)

    @property
    def has_attrs(self) -> bool:
        return self.op._has_side(self._key)

    @property
    def _edge_key(self) -> tuple[str, int]:
        return ("result" if self.inner else "edge", self.index)

    @property
    def edge(self) -> Edge | None:
        source = self.source
        return None if source is None else Edge(source, self)

    @property
    def edge_attrs(self) -> dict[str, Any]:
        """Attributes of the edge that ends here; removed with the edge."""
        return self.op._side.attrs_of(self._edge_key)

    @property
    def has_edge_attrs(self) -> bool:
        return self.op._has_side(self._edge_key)

    def connect(self, value: ValueLike | None) -> None:
        """Read `value` instead; None disconnects the port."""
        port = None if value is None else value_port(value)
        self.op._connect(self.index, port, self.inner)

    def __repr__(self) -> str:
        arrow = "result " if self.inner else ""
        return f"{arrow}{self.op.short}[{self.name or self.index}]"


_new_tuple: Any = tuple.__new__  # faster than the constructor of a NamedTuple


class ControlPort(NamedTuple):
    """The end of control edges at an op: `in` or `out`.

    Inside a graph, its own `in` port is a source and its `out` port a sink, as for
    values.
    """

    op: Op
    side: Literal["in", "out"]
    inner: bool = False

    @property
    def index(self) -> int:  # type: ignore[override]
        return CONTROL

    @property
    def name(self) -> str:
        return CONTROL_NAME

    def __repr__(self) -> str:
        return f"{self.op.short}.{CONTROL_NAME}"


class Edge(NamedTuple):
    """A use of a value, or a control edge between control ports."""

    output_port: OutputPort | ControlPort
    input_port: InputPort | ControlPort

    @property
    def is_control(self) -> bool:
        return type(self.input_port) is ControlPort

    @property
    def attrs(self) -> dict[str, Any]:
        target = self.input_port
        if isinstance(target, InputPort):
            return target.edge_attrs
        return control_attrs(self.output_port.op, target.op)

    @property
    def has_attrs(self) -> bool:
        target = self.input_port
        if isinstance(target, InputPort):
            return target.has_edge_attrs
        more = target.op.side_record
        return bool(more and more.extras and more.extras.get(self.output_port.op))

    def __repr__(self) -> str:
        return f"{self.output_port} -> {self.input_port}"


def control_attrs(first: Op, then: Op) -> dict[str, Any]:
    """Attributes of the control edge between two ops."""
    return then._side.attrs_of(first)


class Wide(list["OutputPort | None"]):
    """The inputs of an op with many of them, with an index from values to positions."""

    __slots__ = ("_where",)

    def __init__(self, values: Iterable[OutputPort | None] = ()) -> None:
        super().__init__(values)
        self._where: dict[OutputPort, dict[int, None]] | None = None

    def places(self, value: OutputPort) -> list[int]:
        if self._where is None:
            self._where = {}
            for i, each in enumerate(self):
                if each is not None:
                    self._where.setdefault(each, {})[i] = None
        return sorted(self._where.get(value, ()))

    def put(self, i: int, value: OutputPort | None) -> None:
        if self._where is not None:
            old = self[i]
            if old is not None:
                del self._where[old][i]
                if not self._where[old]:
                    del self._where[old]
            if value is not None:
                self._where.setdefault(value, {})[i] = None
        self[i] = value

    def add(self, value: OutputPort | None) -> None:
        if self._where is not None and value is not None:
            self._where.setdefault(value, {})[len(self)] = None
        self.append(value)

    def cut(self, i: int) -> None:
        del self[i]
        self._where = None


Sinks: TypeAlias = "tuple[OutputPort | None, ...] | Wide"


def sinks(values: Iterable[OutputPort | None]) -> Sinks:
    fixed = tuple(values)
    return fixed if len(fixed) <= _NARROW else Wide(fixed)


def put(values: Sinks, i: int, value: OutputPort | None) -> Sinks:
    """Replace the value at one position; a list is changed in place."""
    if isinstance(values, Wide):
        values.put(i, value)
        return values
    return (*values[:i], value, *values[i + 1 :])


def replace_value(values: Sinks, old: OutputPort, new: OutputPort) -> Sinks:
    """Replace `old` by `new` at all its positions; a list is changed in place."""
    if isinstance(values, Wide):
        for i in values.places(old):
            values.put(i, new)
        return values
    return tuple([new if value is old else value for value in values])


def places(values: Sinks, value: OutputPort) -> list[int]:
    if isinstance(values, Wide):
        return values.places(value)
    return [i for i, v in enumerate(values) if v is value]


def last_user(users: Users) -> Op | None:
    """The most recently attached user."""
    if users is None:
        return None
    if isinstance(users, list):
        return users[-1]
    return next(reversed(users)) if isinstance(users, dict) else users


def distinct(users: Users) -> Iterable[Op]:
    """The users, each once; safe while they change."""
    if users is None:
        return ()
    return list(users) if isinstance(users, _MANY) else (users,)


def attach(value: OutputPort, op: Op) -> None:
    """Register one more use of `value` by `op`.

    A single op, or each op of a list, is one use; a dict has the counts of uses.
    """
    users = value._users
    if users is None:
        value._users = op
    elif isinstance(users, list):
        if len(users) < _FEW and op not in users:
            users.append(op)
        else:
            counts = dict.fromkeys(users, 1)
            counts[op] = counts.get(op, 0) + 1
            value._users = counts
    elif isinstance(users, dict):
        users[op] = users.get(op, 0) + 1
    else:
        value._users = {op: 2} if users is op else [users, op]


def detach(value: OutputPort, op: Op) -> None:
    """Unregister one use of `value` by `op`."""
    users = value._users
    if isinstance(users, list):
        users.remove(op)
        value._users = users if len(users) > 1 else users[0]
    elif isinstance(users, dict):
        if users[op] == 1:
            del users[op]
        else:
            users[op] -= 1
        if not users:
            value._users = None
    else:
        value._users = None
