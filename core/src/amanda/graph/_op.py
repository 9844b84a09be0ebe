"""Ops. Rare fields are stored in a side record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

from amanda.argument_checks import argument_check, argument_error, checks_itself
from amanda.current_host import host_in_use
from amanda.errors import GraphError
from amanda.graph._port import (
    CONTROL,
    CONTROL_NAME,
    ControlPort,
    InputPort,
    OutputPort,
    Sinks,
    ValueLike,
    attach,
    detach,
    new_port,
    places,
    put,
    sinks,
    value_port,
)

if TYPE_CHECKING:
    from amanda.graph._graph import Graph

CORE = "amanda/core/1"
CONSTANT = "constant"
MAX_OUTPUTS = 1 << 24
_NO_BODIES: Mapping[str, Any] = MappingProxyType({})
Forward: TypeAlias = "tuple[Sequence[OutputPort | None], str]"


class Provenance(NamedTuple):
    """The origin of an op that a rule or a pass created.

    It has names, not references, so that the source graph can be freed.
    """

    sources: tuple[str, ...]
    by: str

    @property
    def is_by_rule(self) -> bool:
        """Whether a rule created the op: `file.rules:line`, or `mapping:function`."""
        return ":" in self.by


class SideRecord:
    """Rare fields of an op; created when the first of them is set."""

    __slots__ = (
        "bodies",
        "control",
        "controlled",
        "extras",
        "feedback",
        "forward",
        "input_names",
        "marks",
        "namespace",
        "provenance",
    )

    def __init__(self) -> None:
        self.namespace: str | None = None
        self.feedback = False
        self.control: dict[Op, None] | None = None
        self.controlled: dict[Op, None] | None = None
        self.bodies: dict[str, Graph] | None = None
        self.forward: Forward | None = None
        self.provenance: Provenance | None = None
        self.input_names: dict[int, str] | None = None
        self.marks: dict[int, set[str]] | None = None
        # attributes of ports and data edges by (side, index), of control edges
        # that end here by the op they come from
        self.extras: dict[Any, dict[str, Any]] | None = None

    @property
    def is_silent(self) -> bool:
        """Whether all fields are empty."""
        links = (self.control, self.controlled, self.bodies, self.input_names)
        return not (
            self.namespace is not None
            or self.feedback
            or self.provenance
            or any(links)
            or any((self.marks or {}).values())
            or any((self.extras or {}).values())
        )

    def attrs_of(self, key: Any) -> dict[str, Any]:
        if self.extras is None:
            self.extras = {}
        return self.extras.setdefault(key, {})


@dataclass(slots=True)
class Change:
    """An entry in the change log of a graph."""

    what: str
    op: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.what} {self.op}" + (f": {self.detail}" if self.detail else "")


class Op:
    """One computation; created by `Graph.add`."""

    __slots__ = (
        "_attrs",
        "_inputs",
        "_name",
        "_next",
        "_order",
        "_prev",
        "graph",
        "outputs",
        "side_record",
        "type",
    )

    is_graph: ClassVar[bool] = False  # a class attribute is faster than isinstance

    @checks_itself
    def __init__(
        self,
        type: str | None,
        name: str | None,
        attrs: Mapping[str, Any] | None,
        outputs: int,
    ) -> None:
        if (
            (type.__class__ is not str and type is not None)
            or (name.__class__ is not str and name is not None)
            or (attrs.__class__ is not dict and attrs is not None)
            or outputs.__class__ is not int
        ):
            _check_op(self, type, name, attrs, outputs)
        self.type = type
        self._name = name
        self.graph: Graph | None = None
        self._attrs: dict[str, Any] | None = dict(attrs) if attrs else None
        self._inputs: Sinks = ()
        # changed by add_output and remove_output
        self.outputs: tuple[OutputPort, ...] = (
            (new_port(self, 0),)
            if outputs == 1
            else tuple([new_port(self, i) for i in _port_numbers(outputs)])
        )
        # rare fields; None for most ops
        self.side_record: SideRecord | None = None
        self._prev: Op | None = None
        self._next: Op | None = None
        self._order: int | None = None

    def _set_name(self, name: str | None) -> None:
        """Change the name: of an op in a graph as `Graph.rename` does."""
        if name is not None and name.__class__ is not str:
            raise argument_error("Op.name", "name", "str or None", name)
        if self.graph is not None:
            self.graph.rename(self, name)
        else:
            self._name = name

    if TYPE_CHECKING:

        @property
        def name(self) -> str | None: ...

        @name.setter
        def name(self, name: str | None) -> None: ...

    else:  # this getter runs no Python code
        name = property(attrgetter("_name"), _set_name)

    # -- reading ---------------------------------------------------------------

    @property
    def attrs(self) -> dict[str, Any]:
        if self._attrs is None:
            self._attrs = {}
        return self._attrs

    @property
    def is_constant(self) -> bool:
        """Whether this op is a constant, with a tensor in its attribute `value`."""
        return self.type == CONSTANT and self.namespace == CORE

    @property
    def has_attrs(self) -> bool:
        return bool(self._attrs)

    @property
    def inputs(self) -> tuple[OutputPort | None, ...]:
        """The input values; None for an omitted optional input."""
        held = self._inputs
        return held if type(held) is tuple else tuple(held)

    @property
    def input_ports(self) -> list[InputPort]:
        return [InputPort(self, i) for i in range(len(self._inputs))]

    @property
    def output_ports(self) -> tuple[OutputPort, ...]:
        return self.outputs

    @property
    def output(self) -> OutputPort:
        """The output of an op with exactly one."""
        if len(self.outputs) != 1:
            raise GraphError(
                f"{self.label} has {len(self.outputs)} outputs, not one",
                hint="choose one with .outputs[i]",
            )
        return self.outputs[0]

    def input_port(self, key: str | int) -> InputPort | ControlPort:
        """The input port of this name or index; -1 or `^control` for control edges."""
        if key in (CONTROL, CONTROL_NAME):
            return ControlPort(self, "in")
        if isinstance(key, int) and 0 <= key < len(self._inputs):
            return InputPort(self, key)
        for i in range(len(self._inputs)):
            if self._input_name(i, False) == key:
                return InputPort(self, i)
        raise self._missing_port_error("input", key, [p.name for p in self.input_ports])

    def output_port(self, key: str | int) -> OutputPort | ControlPort:
        """The output port of this name or index; -1 or `^control` for control edges."""
        if key in (CONTROL, CONTROL_NAME):
            return ControlPort(self, "out")
        if isinstance(key, int) and 0 <= key < len(self.outputs):
            return self.outputs[key]
        for port in self.outputs:
            if port.name == key:
                return port
        raise self._missing_port_error("output", key, [p.name for p in self.outputs])

    def _missing_port_error(
        self, kind: str, key: str | int, names: Sequence[str | None]
    ) -> GraphError:
        known = [name or str(i) for i, name in enumerate(names[:20])]
        return GraphError(
            f"{self.label} has no {kind} port {key!r}",
            expected=f"one of {', '.join(known)}" if known else f"no {kind} port",
            got=repr(key),
        )

    @property
    def bodies(self) -> Mapping[str, Graph]:
        """The graphs that belong to this op, by name."""
        more = self.side_record
        return _NO_BODIES if more is None else (more.bodies or _NO_BODIES)

    @property
    def control_inputs(self) -> tuple[Op, ...]:
        """The ops that run before this one by a control edge."""
        return tuple(self.side_record.control or ()) if self.side_record else ()

    @property
    def control_outputs(self) -> tuple[Op, ...]:
        """The ops that run after this one by a control edge."""
        return tuple(self.side_record.controlled or ()) if self.side_record else ()

    @property
    def own_namespace(self) -> str | None:
        return self.side_record.namespace if self.side_record else None

    @property
    def namespace(self) -> str | None:
        """Its own namespace, or that of the nearest enclosing graph that has one."""
        at: Op | None = self
        while at is not None:
            if at.side_record is not None and at.side_record.namespace is not None:
                return at.side_record.namespace
            at = at._around
        return None

    @namespace.setter
    def namespace(self, name: str | None) -> None:
        if name is not None or self.side_record is not None:
            self._side.namespace = name

    @property
    def definition(self) -> Any:
        """Its definition in the dictionary of its namespace, or None."""
        return host_in_use().definition(self)

    @property
    def _around(self) -> Graph | None:
        """The graph that contains this op."""
        return self.graph

    @property
    def feedback(self) -> bool:
        """Whether its outputs are for the next iteration of a loop: no order of ops."""
        return self.side_record is not None and self.side_record.feedback

    @property
    def provenance(self) -> Provenance | None:
        return self.side_record.provenance if self.side_record else None

    @provenance.setter
    def provenance(self, value: Provenance | None) -> None:
        if value is not None or self.side_record is not None:
            self._side.provenance = value

    @property
    def index(self) -> int:
        """The position among the ops of its graph; O(n)."""
        if self.graph is None:
            raise GraphError(f"{self.label} is in no graph")
        at, count = self._prev, 0
        while at is not None:
            at, count = at._prev, count + 1
        return count

    @property
    def label(self) -> str:
        """Its label in messages: its name, or its type and position."""
        kind = self.type or ("graph" if self.is_graph else "op")
        if self.name is not None:
            return f"{kind} {self.name!r}"
        return (
            f"{kind} #{self.index}" if self.graph is not None else f"{kind} (unnamed)"
        )

    @property
    def short(self) -> str:
        """Its name or type: a short label."""
        return self.name or self.type or ("graph" if self.is_graph else "?")

    @property
    def previous(self) -> Op | None:
        """The op before this one in the order of its graph."""
        return self._prev

    def depends_on(self) -> Iterator[Op]:
        """The ops of the same graph that must run before this one, with repetitions."""
        home = self.graph
        for value in self._inputs:
            if value is not None and value.graph is home and value.op is not home:
                yield value.op
        for body in self._inner_graphs():
            for value in body.captures:
                if value.graph is home and value.op is not home:
                    yield value.op
        yield from self.control_inputs

    def _inner_graphs(self) -> tuple[Graph, ...]:
        """The graphs inside this op that may capture values."""
        more = self.side_record
        return tuple(more.bodies.values()) if more and more.bodies else ()

    # -- changing --------------------------------------------------------------

    def add_input(self, value: ValueLike | None, name: str | None = None) -> InputPort:
        """Append an input."""
        port = None if value is None else value_port(value)
        i = len(self._inputs)
        self._inputs = sinks((*self._inputs, None)) if i <= 32 else self._inputs
        if len(self._inputs) == i:
            self._inputs.add(None)  # type: ignore[union-attr]
        if port is not None:
            try:
                self._connect(i, port)
            except GraphError:
                self.remove_input(i)
                raise
        if name is not None:
            self._set_input_name(i, False, name)
        return InputPort(self, i)

    def remove_input(self, i: int) -> None:
        """Remove an input; later ones move down."""
        if not 0 <= i < len(self._inputs):
            raise self._missing_port_error(
                "input", i, [p.name for p in self.input_ports]
            )
        self._connect(i, None)
        self._cut_input(i)

    def _cut_input(self, i: int) -> None:
        if type(self._inputs) is tuple:
            self._inputs = (*self._inputs[:i], *self._inputs[i + 1 :])
        else:
            self._inputs.cut(i)  # type: ignore[union-attr]
        self._shift(("in", "edge"), i)

    def _shift(self, sides: tuple[str, ...], i: int) -> None:
        """Move side records of the ports after a removed one."""
        more = self.side_record
        if more is None:
            return
        if "in" in sides and more.input_names:
            more.input_names = {
                k - (k > i): name for k, name in more.input_names.items() if k != i
            }
        if more.extras:
            more.extras = {
                (key[0], key[1] - (key[1] > i))
                if isinstance(key, tuple) and key[0] in sides
                else key: attrs
                for key, attrs in more.extras.items()
                if not (isinstance(key, tuple) and key[0] in sides and key[1] == i)
            }

    def add_output(self, name: str | None = None) -> OutputPort:
        """Append an output."""
        port = new_port(self, len(self.outputs))
        port.name = name
        self.outputs = (*self.outputs, port)
        return port

    def set_body(self, key: str, body: Graph) -> None:
        """Set a body of this op."""
        if self.graph is None:
            raise GraphError(f"{self.label} is in no graph")
        self.graph._add_body(self, key, body)

    # -- for ports and graphs --------------------------------------------------

    @property
    def _side(self) -> SideRecord:
        if self.side_record is None:
            self.side_record = SideRecord()
        return self.side_record

    def _has_side(self, key: Any) -> bool:
        more = self.side_record
        return bool(more and more.extras and more.extras.get(key))

    def _sinks(self, _inner: bool, /) -> Sinks:
        return self._inputs

    def _reading_ports(self, value: OutputPort) -> list[InputPort]:
        """The input ports of this op that read `value`."""
        return [InputPort(self, i) for i in places(self._inputs, value)]

    def _input_name(self, i: int, _inner: bool, /) -> str | None:
        more = self.side_record
        return more.input_names.get(i) if more and more.input_names else None

    def _set_input_name(self, i: int, _inner: bool, name: str | None, /) -> None:
        side = self._side
        if side.input_names is None:
            side.input_names = {}
        if name is None:
            side.input_names.pop(i, None)
        else:
            side.input_names[i] = name

    def _connect(self, i: int, value: OutputPort | None, inner: bool = False) -> None:
        old = self._sinks(inner)[i]
        if value is old:
            return
        home = self if inner else self.graph
        if home is None:
            raise GraphError(f"{self.label} is in no graph")
        if value is not None:
            home._allow(value, None if inner else self)  # type: ignore[attr-defined]
        self._put(i, value, inner)
        if home._wiring is not None:  # type: ignore[attr-defined]
            home._wiring.append((self, (inner, i), old))  # type: ignore[attr-defined]
        if value is not None:
            attach(value, self)
        if old is not None:
            detach(old, self)
        more = self.side_record
        if value is None and more is not None and more.extras:
            more.extras.pop(("result" if inner else "edge", i), None)
        if home._log is not None:  # type: ignore[attr-defined]
            home._note("connect", self, f"input {i}: {old} -> {value}")  # type: ignore[attr-defined]

    def _put(self, i: int, value: OutputPort | None, _inner: bool, /) -> None:
        self._inputs = put(self._inputs, i, value)

    def __repr__(self) -> str:
        inputs = ", ".join("_" if v is None else repr(v) for v in self._inputs)
        name = "" if self.name is None else f"{self.name} = "
        return f"{name}{self.type or '?'}({inputs})"

    def _repr_html_(self) -> str:
        """Its ports and attributes, for notebooks."""
        from amanda.graph._html import op_html

        return op_html(self)

    def __reduce__(self) -> str:
        raise GraphError("an op cannot be pickled; save its graph")

    def __copy__(self) -> Op:
        raise GraphError("an op belongs to one graph; clone the graph")

    def __deepcopy__(self, memo: dict[int, Any]) -> Op:
        raise GraphError("an op belongs to one graph; clone the graph")


_check_op = argument_check(Op.__init__)


def _port_numbers(count: int) -> range:
    if not 0 <= count <= MAX_OUTPUTS:
        raise GraphError(
            "an op cannot have this number of outputs",
            expected=f"0 to {MAX_OUTPUTS}",
            got=count,
        )
    return range(count)
