"""Read access to the contents of a graph, and the helpers of its modules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from amanda.errors import DuplicateNameError, ForeignPortError, GraphError
from amanda.graph import _order
from amanda.graph._functions import FunctionTable, known_functions
from amanda.graph._op import Change, Op
from amanda.graph._port import (
    ControlPort,
    Edge,
    InputPort,
    OutputPort,
    Parameter,
    Sinks,
    ValueLike,
    Wide,
    last_user,
)

if TYPE_CHECKING:
    from amanda.graph._graph import Graph
    from amanda.graph._select import Ops

KEEP = "keep"


class Entry(NamedTuple):
    """A named signature of a root graph: its input and output values by name."""

    inputs: Mapping[str, OutputPort]
    outputs: Mapping[str, OutputPort]


class Contents(Op):
    """The base class of `Graph`, which adds construction and mutation."""

    __slots__ = (
        "__weakref__",
        "_count",
        "_cursors",
        "_entries",
        "_first",
        "_fresh",
        "_functions",
        "_imports",
        "_inner_control",
        "_inner_controlled",
        "_labelled",
        "_last",
        "_log",
        "_names",
        "_outputs",
        "_outputs_seen",
        "_parameter_marks",
        "_parameter_names",
        "_parameters",
        "_pins",
        "_point",
        "_results",
        "_wiring",
        "body_name",
        "holder",
        "outer",
        "owner",
    )

    is_graph: ClassVar[bool] = True
    argument_hint: ClassVar[str] = (
        "amanda.load reads a graph from a file or a live object"
    )
    _outputs_seen: tuple[OutputPort, ...] | None

    @property
    def outputs(self) -> tuple[OutputPort, ...]:
        """The ports of the results, seen from outside."""
        if self._outputs_seen is None:
            self._outputs_seen = tuple(self._outputs)
        return self._outputs_seen

    @outputs.setter
    def outputs(self, ports: Iterable[OutputPort]) -> None:
        self._outputs[:] = ports
        self._outputs_seen = None

    def _cut_output(self, index: int) -> None:
        del self._outputs[index]
        self._outputs_seen = None

    def __init__(
        self,
        namespace: str | None = None,
        name: str | None = None,
        *,
        type: str | None = None,
        outer: Graph | None = None,
    ) -> None:
        # a list, so that appending is O(1); outputs is a cached tuple of it
        self._outputs: list[OutputPort] = []
        self._outputs_seen: tuple[OutputPort, ...] | None = None
        super().__init__(type, name, None, 0)
        if namespace is not None:
            self._side.namespace = namespace
        self._first: Op | None = None
        self._last: Op | None = None
        self._count = 0
        self._names: dict[str, Op] = {}
        self._fresh: dict[str, int] = {}  # next suffix to try, by stem
        self._cursors: list[_order.Cursor] = []
        self._labelled = False
        self._wiring: list[tuple[Any, ...]] | None = None
        self._point: Op | None = None  # position of added ops; None: at the end
        self._log: list[Change] | None = None
        self._parameters: list[Parameter] = []
        self._parameter_names: dict[str, Parameter] = {}
        self._results: Wide = Wide()
        self._parameter_marks: dict[Parameter, set[str]] = {}
        # control edges to its control output, and from its control input
        self._inner_control: dict[Op, None] = {}
        self._inner_controlled: dict[Op, None] = {}
        self._functions: dict[str, Graph] = {}
        self._entries: dict[str, Entry] = {}
        self._pins: dict[OutputPort, int] = {}
        self._imports: dict[str, int] = {}
        self.holder: Op | None = None  # the op that has this graph as a body
        self.body_name: str | None = None
        # the graph whose values it may capture before it has a holder
        self.outer = outer
        self.owner: Graph | None = None  # the root graph that has this function

    # -- reading ---------------------------------------------------------------

    def __iter__(self) -> Iterator[Op]:
        """Iterate over ops in topological order; the graph may change meanwhile.

        Ops added after the current one are visited. Any op may be removed, moved or
        replaced. An op that is moved behind the current one is visited again.
        """
        cursor = _order.Cursor()
        self._cursors.append(cursor)
        try:
            op = self._first
            while op is not None:
                cursor.at = op
                yield op
                at = cursor.at
                # unlinking the current op moves the cursor, possibly to None
                op = at._next if at else self._first  # type: ignore[truthy-bool]
        finally:
            self._cursors.remove(cursor)

    def __reversed__(self) -> Iterator[Op]:
        """The ops from last to first; the current one may be removed."""
        op = self._last
        while op is not None:
            prev = op._prev
            yield op
            op = prev if op.graph is not self else op._prev

    @property
    def last_op(self) -> Op | None:
        """The last op in order; None in an empty graph."""
        return self._last

    def __len__(self) -> int:
        return self._count

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, key: str | int) -> Op:
        """The op of this name, or at this position."""
        return self.ops[key]

    def __contains__(self, key: object) -> bool:
        if isinstance(key, str):
            return key in self._names
        return isinstance(key, Op) and key.graph is self

    @property
    def ops(self) -> Ops:
        """The ops as a container: by name, by position, or selected."""
        from amanda.graph._select import Ops

        return Ops(self._me)

    @property
    def edges(self) -> Iterator[Edge]:
        """Data edges in op order, then control edges; those to the results last."""
        for op in self:
            for i, value in enumerate(op._inputs):
                if value is not None:
                    yield Edge(value, InputPort(op, i))
        for i, value in enumerate(self._results):
            if value is not None:
                yield Edge(value, InputPort(self, i, True))
        yield from self.control_edges

    @property
    def control_edges(self) -> Iterator[Edge]:
        for op in self:
            for first in op.control_inputs:
                yield Edge(ControlPort(first, "out"), ControlPort(op, "in"))
        for op in list(self._inner_controlled):
            yield Edge(ControlPort(self, "in", True), ControlPort(op, "in"))
        for op in list(self._inner_control):
            yield Edge(ControlPort(op, "out"), ControlPort(self, "out", True))

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The inputs, seen from inside."""
        return tuple(self._parameters)

    @property
    def results(self) -> tuple[OutputPort | None, ...]:
        """The values of the results; None if not connected."""
        return tuple(self._results)

    @property
    def result_ports(self) -> list[InputPort]:
        """The input ports of the results, inside."""
        return [InputPort(self, i, True) for i in range(len(self._results))]

    @property
    def inner_control_sources(self) -> tuple[Op, ...]:
        """Ops inside that wait for the graph's control input."""
        return tuple(self._inner_controlled)

    @property
    def inner_control_sinks(self) -> tuple[Op, ...]:
        """Ops inside that the graph's control output waits for."""
        return tuple(self._inner_control)

    @property
    def functions(self) -> Mapping[str, Graph]:
        """Shared graphs that ops call by name."""
        return MappingProxyType(self._functions)

    @property
    def deferred_functions(self) -> Mapping[str, Callable[[], Graph]]:
        """What reads each function that is yet to be read, by name."""
        functions = self._functions
        readers = functions.readers if isinstance(functions, FunctionTable) else {}
        return MappingProxyType(readers)

    @property
    def entries(self) -> Mapping[str, Entry]:
        """The named ways to call this graph."""
        return MappingProxyType(self._entries)

    @property
    def imports(self) -> dict[str, int]:
        """The version of each domain of the ops."""
        return self._imports

    @property
    def captures(self) -> list[OutputPort]:
        """Values of enclosing graphs that ops read, at any depth."""
        graphs = list(self._nested_graphs())
        inside = set(graphs)
        found: dict[OutputPort, None] = {}
        for graph in graphs:
            op = graph._first
            while op is not None:
                for value in op._inputs:
                    if value is not None and value.graph not in inside:
                        found[value] = None
                op = op._next
            for value in graph._results:
                if value is not None and value.graph not in inside:
                    found[value] = None
        return list(found)

    def _nested_graphs(self) -> Iterator[Graph]:
        """This graph and every graph inside it, outer ones first."""
        queue = [self._me]
        for graph in queue:
            yield graph
            op = graph._first
            while op is not None:
                if op.side_record is not None and op.side_record.bodies:
                    queue.extend(op.side_record.bodies.values())
                if op.is_graph:
                    queue.append(op)  # type: ignore[arg-type]
                op = op._next

    def walk(self, *, deferred: bool = True) -> Iterator[Op]:
        """Iterate over ops at any depth, an op before its contents.

        Without `deferred`, functions that are yet to be read from a file are left out;
        they have neither foreign ops nor free notes.
        """
        waiting = self._list_functions(deferred)
        stack: list[Iterator[Op]] = [iter(self)]
        while stack:
            for op in stack[-1]:
                yield op
                more = op.side_record
                if op.is_graph or (more is not None and more.bodies):
                    inner = op._inner_graphs()
                    stack.extend(iter(graph) for graph in reversed(inner))
                    if inner:
                        break
            else:
                stack.pop()
                if not stack and waiting:
                    stack.append(iter(waiting.pop(0)))

    def graphs(self, *, deferred: bool = True) -> Iterator[Graph]:
        """This graph, every graph inside it, and its functions with their graphs.

        Without `deferred`, functions that are yet to be read are left out.
        """
        yield from self._nested_graphs()
        for function in self._list_functions(deferred):
            yield from function._nested_graphs()

    def _list_functions(self, deferred: bool) -> list[Graph]:
        functions = self._functions
        return list(functions.values() if deferred else known_functions(functions))

    def upstream(self, *targets: Op | ValueLike) -> list[Op]:
        """The ops that the targets need, including theirs, in topological order."""
        from amanda.graph._select import upstream

        return upstream(self._me, targets)

    def downstream(self, *sources: Op | ValueLike) -> list[Op]:
        """The ops that need the sources, including given ops, in topological order."""
        from amanda.graph._select import downstream

        return downstream(self._me, sources)

    def between(
        self, sources: Iterable[Op | ValueLike], targets: Iterable[Op | ValueLike]
    ) -> list[Op]:
        """The ops on paths from any source to any target, including both ends."""
        from amanda.graph._select import ops_between

        return ops_between(self._me, sources, targets)

    def dependents(self, source: Op | ValueLike) -> list[Op]:
        """The ops that depend directly on an op or a value, in topological order.

        They read it, or a body of theirs does, or a control edge makes them wait for
        it. Those that read it in the next iteration of a loop are included.
        """
        from amanda.graph._select import dependents

        return dependents(self._me, source)

    def is_before(self, a: Op, b: Op) -> bool:
        """Whether `a` comes before `b`."""
        for op in (a, b):
            if op.graph is not self:
                raise GraphError(f"{op.label} is not in {self.label}")
        return _order.is_before(self._me, a, b)

    # -- for ops, ports and other modules of the package -----------------------

    @property
    def _me(self) -> Graph:
        """This object, typed as a Graph."""
        return self  # type: ignore[return-value]

    @property
    def _around(self) -> Op | None:  # type: ignore[override]
        return self._scope or self.owner

    @property
    def root(self) -> Graph:
        """The outermost graph, whose functions the ops in this one call by name."""
        graph = self._me
        while True:
            holder = graph.holder.graph if graph.holder else graph.outer
            around = graph.graph or holder or graph.owner
            if around is None:
                return graph
            graph = around

    @property
    def _scope(self) -> Op | None:
        """The scope of captured values: the holder or the enclosing graph."""
        return self.graph or self.holder or self.outer

    def _inner_graphs(self) -> tuple[Graph, ...]:
        return (self._me, *super()._inner_graphs())

    def _containing_op(self, at: Op) -> Op | None:
        """The op of this graph that contains `at`, at any depth."""
        up: Op | None = at
        while up is not None:
            if up.graph is self:
                return up
            up = up.graph or (up.holder if isinstance(up, Contents) else None)
        return None

    def _is_within(self, graph: Graph) -> bool:
        """Whether this graph is, or will be, inside `graph`."""
        at: Op | None = self
        while at is not None and at is not graph:
            at = at._scope if isinstance(at, Contents) else at.graph
        return at is not None

    def _allow(self, value: OutputPort, user: Op | None) -> None:
        """Raise an error unless `user` (or None: at the end) may read `value`."""
        home = value.graph
        if home is None:
            raise ForeignPortError(
                f"the value {value} is in no graph",
                who=self.label,
                hint="its op was removed; value.resolve() returns its replacement",
            )
        if home is not self:  # a capture: the op that contains this graph reads it
            if self._is_read_nearby(value, home):
                return
            reader = home._containing_op(self)
            if reader is None and not self._is_within(home):
                raise ForeignPortError(
                    f"the value {value} cannot be read here",
                    expected=f"a value of {self.label} or of a graph around it",
                    got=f"a value of {home.label}",
                )
        else:
            reader = user
        if reader is None or home._wiring is not None:
            return
        if not _order.imposes_no_order(value.op, value):
            _order.order_edge(home, value.op, reader)

    def _is_read_nearby(self, value: OutputPort, home: Op) -> bool:
        """Whether an op here, or in the enclosing graph, reads this value already.

        It is then visible, and its op precedes the one that contains this graph.
        """
        reader = last_user(value._users)
        if reader is None or reader.is_graph:
            return False
        around = self.graph or (self.holder.graph if self.holder else self.outer)
        return reader.graph is self or (
            reader.graph is around and around is not None and around is not home
        )

    def _duplicate_name_error(self, name: str) -> DuplicateNameError:
        return DuplicateNameError(
            f"{self.label} has an op named {name!r} already",
            got=self._names[name].type,
            hint="choose another, or use graph.fresh_name(...)",
        )

    def _sinks(self, inner: bool, /) -> Sinks:
        return self._results if inner else self._inputs

    def _reading_ports(self, value: OutputPort) -> list[InputPort]:
        inner = [InputPort(self, i, True) for i in self._results.places(value)]
        return super()._reading_ports(value) + inner

    def _put(self, i: int, value: OutputPort | None, inner: bool, /) -> None:
        if inner:
            self._results.put(i, value)
        else:
            super()._put(i, value, False)

    def _input_name(self, i: int, inner: bool, /) -> str | None:
        return self.outputs[i].name if inner else self._parameters[i].name

    def _set_input_name(self, i: int, inner: bool, name: str | None, /) -> None:
        if inner:
            self.outputs[i].name = name
        else:
            self._parameters[i].name = name

    def _note(self, what: str, op: Op, detail: str = "") -> None:
        if self._log is not None:
            self._log.append(Change(what, op.name or op.type or "?", detail))

    def _describe_hold(self, value: OutputPort) -> str | None:
        """The entry or mark that keeps this value in use, for error messages."""
        if value in self._pins:
            names = [n for n, e in self._entries.items()
                     if value in (*e.inputs.values(), *e.outputs.values())]  # fmt: skip
            return f"entry {names[0]!r}"
        return "the mark 'keep'" if KEEP in value.marks else None

    def __repr__(self) -> str:
        name = "" if self.name is None else f" {self.name!r}"
        space = "" if self.namespace is None else f" in {self.namespace}"
        return f"<graph{name}{space}: {self._count} ops>"
