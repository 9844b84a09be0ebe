"""The graph: ops in topological order. A graph is an op itself, so graphs nest."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any

from amanda.argument_checks import argument_check, checks_itself
from amanda.errors import DuplicateNameError, ForeignPortError, GraphError
from amanda.graph import _change, _order
from amanda.graph._contents import Contents, Entry
from amanda.graph._functions import FunctionTable
from amanda.graph._op import CONSTANT, CORE, Op
from amanda.graph._port import (
    ControlPort,
    Edge,
    InputPort,
    OutputPort,
    Parameter,
    ValueLike,
    Wide,
    attach,
    detach,
    new_port,
    sinks,
    value_port,
    value_ports,
)
from amanda.tensors import Tensor

if TYPE_CHECKING:
    from amanda.types import Type


class Graph(Contents):
    """Ops and edges in a namespace; may be an op, a body of an op, or a function.

    From outside it has ports like any op. Inside, its input ports are the sources
    `parameters` and its output ports the sinks `results`.
    """

    __slots__ = ()

    # -- building --------------------------------------------------------------

    @checks_itself
    def add(
        self,
        type: str | None,
        inputs: Sequence[ValueLike | None] = (),
        attrs: Mapping[str, Any] | None = None,
        *,
        name: str | None = None,
        outputs: int = 1,
        bodies: Mapping[str, Graph] | None = None,
        namespace: str | None = None,
        feedback: bool = False,
    ) -> Op:
        """Add an op at the end, or at the position of `before`.

        >>> graph = Graph("amanda/std/1")
        >>> x = graph.parameter(name="x")
        >>> y = graph.add("relu", [x], name="y").output
        >>> graph.result(y).source is y
        True
        """
        op = Op(type, name, attrs, outputs)
        if name is not None and name in self._names:
            raise self._duplicate_name_error(name)
        if inputs.__class__ is not list and inputs.__class__ is not tuple:
            _check_add(self, type, inputs)
        ports = self._attach(op, inputs)
        if bodies is not None or namespace is not None or feedback is not False:
            try:
                self._set_side_fields(op, bodies, namespace, feedback)
            except BaseException:
                _detach(op, ports)
                raise
        op._inputs = tuple(ports) if len(ports) <= 32 else sinks(ports)
        if name is not None:
            self._names[name] = op
        op.graph = self
        self._count += 1
        _order.append(self, op, self._point)
        if self._log is not None:
            self._note("add", op, repr(op))
        return op

    def _attach(
        self, op: Op, inputs: Sequence[ValueLike | None]
    ) -> Sequence[OutputPort | None]:
        """Register the op as a user of its inputs, which must be visible to it."""
        ports: Sequence[OutputPort | None] = inputs  # type: ignore[assignment]
        point = self._point
        limit = None if point is None or not self._labelled else point._order
        read = 0
        try:
            for value in ports:
                if value is not None:
                    owner = value.op
                    inside = value.__class__ is OutputPort
                    if (owner.graph if inside else owner) is not self or (
                        point is not None
                        and inside
                        and (limit is None or owner._order >= limit)  # type: ignore[operator]
                    ):
                        self._allow(value, point)
                    users = value._users
                    if users is None:  # the common case, inlined
                        value._users = op
                    else:
                        attach(value, op)
                read += 1
        except BaseException:
            _detach(op, ports[:read])
            if isinstance(ports[read], OutputPort):
                raise
            return self._attach(op, value_ports(inputs, f"input {{}} of {op.label}"))
        return ports

    def _set_side_fields(
        self,
        op: Op,
        bodies: Mapping[str, Graph] | None,
        namespace: str | None,
        feedback: bool,
    ) -> None:
        side = op._side
        if bodies is None and namespace.__class__ is str and feedback is False:
            side.namespace = namespace  # of a constant; the common case
            return
        _check_add(self, None, bodies=bodies, namespace=namespace, feedback=feedback)
        held: list[Graph] = []
        try:
            for key, body in (bodies or {}).items():
                self._check_can_contain(op, body)
                if self._point is not None:
                    self._order_captures(body, self._point)
                body.holder, body.body_name, body.outer = op, key, None
                held.append(body)
        except BaseException:
            for body in held:
                body.holder, body.body_name, body.outer = None, None, self
            raise
        side.namespace, side.feedback = namespace, feedback
        side.bodies = dict(bodies) if bodies else None

    def add_graph(self, graph: Graph, inputs: Sequence[ValueLike | None] = ()) -> Graph:
        """Add a graph as an op; its ports are its parameters and results."""
        self._check_can_contain(self, graph)
        if graph.name is not None and graph.name in self._names:
            raise self._duplicate_name_error(graph.name)
        if len(inputs) > len(graph._parameters):
            raise GraphError(
                f"{graph.label} cannot take {len(inputs)} inputs",
                expected=f"at most {len(graph._parameters)}, one for each parameter",
                got=len(inputs),
            )
        if self._point is not None:
            self._order_captures(graph, self._point)
        ports = value_ports(inputs)
        for value in ports:
            if value is not None:
                self._allow(value, self._point)
        graph.graph, graph.outer = self, None
        for i, value in enumerate(ports):
            if value is not None:
                graph._put(i, value, False)
                attach(value, graph)
        if graph.name is not None:
            self._names[graph.name] = graph
        self._count += 1
        last = self._last if self._point is None else self._point._prev
        _order.link(self, graph, last)
        if self._log is not None:
            self._note("add", graph, repr(graph))
        return graph

    def _check_can_contain(self, holder: Op, body: Graph) -> None:
        """Raise an error unless `holder`, an op here, may contain the graph."""
        if body.__class__ is not Graph:
            _check_contained(self, holder, body)
        if body.holder is not None or body.graph is not None or body.owner is not None:
            raise GraphError(
                f"{body.label} is in another graph already",
                who=holder.label,
                hint="use a clone of it",
            )
        if body.outer is not None and body.outer is not self:
            raise GraphError(
                f"{body.label} was built for {body.outer.label}",
                got=f"it is used in {self.label}",
            )
        if body is self or (body._count and self._is_within(body)):
            raise GraphError(f"{body.label} would contain itself", who=holder.label)
        if body._functions or body._entries:
            raise GraphError(
                f"{body.label} has functions or entries; only a root graph may",
                who=holder.label,
                hint="move them to the root graph first",
            )

    def _add_body(self, op: Op, key: str, body: Graph) -> None:
        side = op._side
        if side.bodies and key in side.bodies:
            raise DuplicateNameError(f"{op.label} has a body named {key!r} already")
        self._check_can_contain(op, body)
        if body.outer is not None:
            self._order_captures(body, op)
        if side.bodies is None:
            side.bodies = {}
        side.bodies[key] = body
        body.holder, body.body_name, body.outer = op, key, None
        if self._log is not None:
            self._note("body", op, key)

    def _order_captures(self, body: Graph, reader: Op) -> None:
        """Order `reader`, which holds the body, after the values the body captures."""
        for value in body.captures:
            if value.graph is self and not _order.imposes_no_order(value.op, value):
                _order.order_edge(self, value.op, reader)

    def constant(self, tensor: object, name: str | None = None) -> Op:
        """Add a constant: an op of the core, the same in every namespace.

        Its value is a tensor, or what `Tensor.of` reads: an array, numbers, lists.
        """
        if not isinstance(tensor, Tensor):
            tensor = Tensor.of(tensor)
        op = self.add(CONSTANT, (), {"value": tensor}, name=name, namespace=CORE)
        op.outputs[0].type = tensor.type
        return op

    def parameter(
        self, type: Type | str | None = None, name: str | None = None
    ) -> Parameter:
        """Append a parameter: an input of the graph. Its type may be given as text."""
        port = Parameter(self, len(self._parameters))
        port.type, port.name = type, name
        self._parameters.append(port)
        if isinstance(self._inputs, Wide):
            self._inputs.add(None)
        else:
            self._inputs = sinks((*self._inputs, None))
        return port

    def result(self, value: ValueLike | None, name: str | None = None) -> InputPort:
        """Append a result: an output of the graph."""
        source = None if value is None else value_port(value)
        if source is not None:
            self._allow(source, None)
            attach(source, self)
        self._results.add(source)
        port = new_port(self, len(self._outputs))
        port.name = name
        self._outputs.append(port)
        self._outputs_seen = None
        if self._log is not None:
            self._note("result", self, repr(source))
        return InputPort(self, port.index, True)

    def add_function(self, name: str, graph: Graph) -> Graph:
        """Add a function: a graph that ops call by name, without captures."""
        self._check_can_add_function(name)
        if graph.outer is not None:
            raise GraphError(
                f"{graph.label} may capture values, so it cannot be a function"
            )
        self._check_can_contain(self, graph)
        graph.owner = self
        self._functions[name] = graph
        return graph

    def defer_function(self, name: str, read: Callable[[], Graph]) -> None:
        """Add a function that `read` returns when it is first needed. For loaders.

        The graph is of this graph's namespace, without foreign ops and free notes.
        """
        self._check_can_add_function(name)
        if not isinstance(self._functions, FunctionTable):
            self._functions = FunctionTable(self._functions, self)
        self._functions.defer(name, read)

    def _check_can_add_function(self, name: str) -> None:
        if self._scope is not None or self.owner is not None:
            raise GraphError(
                f"{self.label} is not a root graph, so it has no functions"
            )
        if name in self._functions:
            raise DuplicateNameError(f"{self.label} has a function {name!r} already")

    def remove_function(self, name: str) -> Graph:
        if name not in self._functions:
            raise GraphError(f"{self.label} has no function {name!r}")
        graph = self._functions.pop(name)
        graph.owner = None
        return graph

    def set_entry(
        self,
        name: str,
        inputs: Mapping[str, ValueLike],
        outputs: Mapping[str, ValueLike],
    ) -> None:
        """Add a named way to call this graph; its values cannot be removed."""
        sides = [{k: value_port(v) for k, v in s.items()} for s in (inputs, outputs)]
        values = [value for side in sides for value in side.values()]
        for value in values:
            if value.graph is not self:
                raise ForeignPortError(
                    f"{value} is not a value of {self.label}", who=f"entry {name!r}"
                )
        if name in self._entries:
            self.remove_entry(name)
        self._entries[name] = Entry(*map(MappingProxyType, sides))
        for value in values:
            self._pins[value] = self._pins.get(value, 0) + 1

    def remove_entry(self, name: str) -> None:
        if name not in self._entries:
            raise GraphError(f"{self.label} has no entry {name!r}")
        entry = self._entries.pop(name)
        for value in (*entry.inputs.values(), *entry.outputs.values()):
            self._pins[value] -= 1
            if not self._pins[value]:
                del self._pins[value]

    def before(self, op: Op | None) -> Point:
        """`with graph.before(op):` adds ops right before `op`."""
        if op is not None and op.graph is not self:
            raise GraphError(f"{op.label} is not in {self.label}")
        return Point(self, op)

    def wiring(self) -> _change.Wiring:
        """`with graph.wiring():` allows edges in any order, and sorts once at its end.

        For loaders. If there is a cycle, CycleError is raised at the end and all
        connections made inside are undone.
        """
        return _change.Wiring(self)

    def recording(self) -> _change.Recording:
        """`with graph.recording() as log:` appends every change to the log."""
        return _change.Recording(self)

    def fresh_name(self, stem: str) -> str:
        """`stem`, or the first of `stem_1`, `stem_2` ... that is not in use."""
        return _change.fresh_name(self, stem)

    # -- changing --------------------------------------------------------------

    def control(
        self, first: Op, then: Op, attrs: Mapping[str, Any] | None = None
    ) -> Edge:
        """Add a control edge: `first` runs before `then`; a graph for its own ports."""
        return _change.control(self, first, then, attrs)

    def uncontrol(self, first: Op, then: Op) -> None:
        _change.uncontrol(self, first, then)

    def connect(
        self, source: ValueLike | ControlPort, target: InputPort | ControlPort
    ) -> Edge:
        """Add an edge between two ports, of data or control."""
        if isinstance(source, ControlPort):
            if isinstance(target, ControlPort):
                return self.control(source.op, target.op)
        elif isinstance(target, InputPort):
            target.connect(source)
            return Edge(value_port(source), target)
        raise GraphError(f"{source} and {target} are not of one kind")

    def replace(
        self, op: Op, values: Sequence[ValueLike | None], by: str = "replace"
    ) -> None:
        """Replace an op by values: its uses read them; a forward stays in its place.

        Marks and entries move to the new values. Ops that waited for it by control
        edges wait for the producers of the new values, and for what it waited for.
        """
        _change.replace(self, op, value_ports(values), by)

    def replace_uses(self, old: ValueLike, new: ValueLike) -> None:
        """Replace `old` by `new` in all uses except those by the op of `new`."""
        _change.replace_uses(value_port(old), value_port(new))

    def remove(
        self, op: Op, by: str = "remove", values: Sequence[ValueLike | None] = ()
    ) -> None:
        """Remove an unused op; its outputs forward to `values`."""
        _change.remove(self, op, by, value_ports(values))

    def rename(self, op: Op, name: str | None) -> None:
        if op.graph is not self:
            raise GraphError(f"{op.label} is not in {self.label}")
        if name == op.name:
            return
        if name is not None and name in self._names:
            raise self._duplicate_name_error(name)
        if self._log is not None:
            self._note("rename", op, f"to {name!r}")
        if op.name is not None:
            del self._names[op.name]
        if name is not None:
            self._names[name] = op
        op._name = name

    def insert(
        self,
        edge: Edge,
        type: str,
        attrs: Mapping[str, Any] | None = None,
        *,
        name: str | None = None,
    ) -> Op:
        """Insert an op with one input and one output on an edge, of data or control."""
        return _change.insert(edge, type, attrs, name)

    def remove_parameter(self, index: int) -> None:
        """Remove an unused parameter; later ones move down."""
        _change.remove_parameter(self, index)

    def remove_result(self, index: int) -> None:
        """Remove a result that is unused outside; later ones move down."""
        _change.remove_result(self, index)

    def clone(
        self,
        targets: Iterable[ValueLike | Op | str] | None = None,
        *,
        rename: str = "{name}",
        memo: dict[Any, Any] | None = None,
        functions: Collection[str] | None = None,
        ops: Collection[Op] | None = None,
    ) -> Graph:
        """A deep copy, or a copy of the part that the targets need.

        `memo` receives the copy of every op, value and graph. With targets, these are
        the results of the copy, which has only the parameters that they need. Of the
        functions only those named in `functions` are copied; without it, all. Without
        targets, `ops` may be a part of the ops that has what it and the results read;
        entries with other values are not copied.
        """
        from amanda.graph._clone import clone

        return clone(self, targets, rename, memo, functions, ops)

    def paste(
        self,
        graph: Graph,
        inputs: Sequence[ValueLike | None] = (),
        *,
        rename: str = "{name}",
        memo: dict[Any, Any] | None = None,
    ) -> list[OutputPort | None]:
        """Copy the ops of another graph into this one; returns the values of its
        results.

        A number is appended to names that are in use.
        """
        from amanda.graph._clone import paste

        return paste(self, graph, value_ports(inputs), rename, memo)

    def inline(self, inner: Graph) -> list[OutputPort | None]:
        """Replace a nested graph by its ops.

        Handles of values of the inner graph resolve to the new ones.
        """
        from amanda.graph._fold import inline

        return inline(self, inner)

    def outline(
        self, ops: Iterable[Op], *, name: str | None = None, type: str | None = None
    ) -> Graph:
        """Replace some ops by a nested graph of them.

        Values that they read become parameters, values that others read become results.
        """
        from amanda.graph._fold import outline

        return outline(self, ops, name, type)

    def digest(self, *, content: bool = False, names: bool = False) -> str:
        """A hash of the structure, independent of the order of construction.

        Constants count by type, or optionally by content; names count optionally.
        """
        from amanda.graph._digest import digest

        return digest(self, content=content, names=names)

    def same_as(
        self, other: Graph, *, content: bool = True, names: bool = True
    ) -> bool:
        """Structural equality."""
        return self.difference(other, content=content, names=names) is None

    def difference(
        self, other: Graph, *, content: bool = True, names: bool = True
    ) -> str | None:
        """A description of the first difference, or None."""
        from amanda.graph._digest import difference

        return difference(self, other, content=content, names=names)

    def check(self) -> list[str]:
        """The broken invariants; empty unless there is a bug."""
        from amanda.graph._check import check

        return check(self)

    def add_input(self, value: ValueLike | None, name: str | None = None) -> InputPort:
        port = InputPort(self, self.parameter(name=name).index)
        if value is not None:
            try:
                port.connect(value)
            except GraphError:
                self.remove_parameter(port.index)
                raise
        return port

    def remove_input(self, i: int) -> None:
        self.remove_parameter(i)

    def add_output(self, name: str | None = None) -> OutputPort:
        self.result(None, name)
        return self.outputs[-1]

    def _repr_html_(self) -> str:
        """Its ports and the types of its ops, for notebooks."""
        from amanda.graph._html import graph_html

        return graph_html(self)

    def __copy__(self) -> Graph:
        return self.clone()

    def __deepcopy__(self, memo: dict[int, Any]) -> Graph:
        return self.clone()


def _detach(op: Op, inputs: Sequence[OutputPort | None]) -> None:
    """Remove the op from the users of values."""
    for value in inputs:
        if value is not None:
            detach(value, op)


class Point:
    """The position of new ops within a `with` block."""

    __slots__ = ("_graph", "_old", "_op")

    def __init__(self, graph: Graph, op: Op | None) -> None:
        self._graph, self._op = graph, op
        self._old: Op | None = None

    def __enter__(self) -> Graph:
        self._old, self._graph._point = self._graph._point, self._op
        return self._graph

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._graph._point = self._old


_check_add = argument_check(Graph.add, "amanda.types", "amanda.tensors")
_check_contained = argument_check(Graph._check_can_contain)
