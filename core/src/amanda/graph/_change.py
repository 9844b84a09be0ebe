"""Mutations of a graph; one that fails leaves the graph unchanged.

Mutations of several edges have an undo log and roll back, since whether the last edge
is valid can depend on the first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain, count
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from amanda.errors import GoneError, GraphError, InUseError
from amanda.graph import _order
from amanda.graph._attributes import free_notes
from amanda.graph._port import (
    ControlPort,
    Edge,
    InputPort,
    OutputPort,
    Parameter,
    attach,
    detach,
    distinct,
    replace_value,
)

if TYPE_CHECKING:
    from amanda.graph._graph import Graph
    from amanda.graph._op import Change, Op

_new_tuple: Any = tuple.__new__  # faster than the constructor of a NamedTuple


class Undo:
    """Undo log: its steps run in reverse order if the `with` block fails."""

    def __init__(self) -> None:
        self._steps: list[Callable[[], object]] = []

    def push(self, step: Callable[..., object], *args: object) -> None:
        self._steps.append(partial(step, *args))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            for step in reversed(self._steps):
                step()


# -- control edges -------------------------------------------------------------


def control(
    graph: Graph, first: Op, then: Op, attrs: Mapping[str, Any] | None = None
) -> Edge:
    for op in (first, then):
        if op is not graph and op.graph is not graph:
            raise GraphError(
                f"{op.label} is not in {graph.label}",
                hint="a control edge is within one graph; the graph itself means "
                "its own control ports",
            )
    if first is graph and then is graph:
        raise GraphError(f"{graph.label} cannot wait for itself")
    if first is graph:
        graph._inner_controlled[then] = None
    elif then is graph:
        graph._inner_control[first] = None
    elif not _has_control_edge(graph, first, then):
        if graph._wiring is not None:
            graph._wiring.append((first, then))
        elif not first.feedback:
            _order.order_edge(graph, first, then)
        _control_users(first)[then] = None
        _control_sources(then)[first] = None
    if attrs:
        then._side.attrs_of(first).update(attrs)
    if graph._log is not None:
        graph._note("control", then, f"after {first.label}")
    ends = (
        (first, "in", True) if first is graph else (first, "out", False),
        (then, "out", True) if then is graph else (then, "in", False),
    )
    return _new_tuple(Edge, [_new_tuple(ControlPort, end) for end in ends])  # type: ignore[no-any-return]


def uncontrol(graph: Graph, first: Op, then: Op) -> None:
    if first is graph:
        known = graph._inner_controlled.pop(then, graph) is None
    elif then is graph:
        known = graph._inner_control.pop(first, graph) is None
    else:
        known = _has_control_edge(graph, first, then)
        if known:
            del _control_users(first)[then], _control_sources(then)[first]
    if not known:
        raise GraphError(f"no control edge from {first.label} to {then.label}")
    if then.side_record is not None and then.side_record.extras:
        then.side_record.extras.pop(first, None)
    if graph._log is not None:
        graph._note("uncontrol", then, f"after {first.label}")


def _control_users(op: Op) -> dict[Op, None]:
    """The ops with a control edge from this one, as a mutable dict."""
    side = op._side
    if side.controlled is None:
        side.controlled = {}
    return side.controlled


def _control_sources(op: Op) -> dict[Op, None]:
    """The ops with a control edge to this one, as a mutable dict."""
    side = op._side
    if side.control is None:
        side.control = {}
    return side.control


# -- replace, remove -------------------------------------------------------------


def replace(graph: Graph, op: Op, values: Sequence[OutputPort | None], by: str) -> None:
    _require_own_op(graph, op)
    if len(values) != len(op.outputs):
        raise GraphError(
            f"{op.label} cannot be replaced by {len(values)} values",
            expected=f"{len(op.outputs)}, one for each output",
            got=len(values),
        )
    for value in values:
        if value is not None and value in op.outputs:
            raise GraphError(f"{op.label} cannot be replaced by itself")
    more = op.side_record
    controls = (more is not None and more.controlled) or op in graph._inner_control
    held = graph._pins or (more is not None and more.marks)
    heir = _heir_of_notes(op, values) if op._attrs else None
    is_simple = len(values) == 1 and not controls and not held
    if not (is_simple and _move_all_uses(graph, op, values[0])):
        with Undo() as undo:
            for old, new in zip(op.outputs, values, strict=True):
                if new is None:
                    _require_unused(graph, old, by)
                else:
                    _move_uses(old, new, undo)
            if controls:
                _move_control_edges(graph, op, values, undo)
            if held:
                _move_pins(graph, op, values)
    remove(graph, op, by, values)
    if heir is not None:
        heir.attrs.update({**free_notes(op), **heir.attrs})
    if more is not None and more.extras:
        for old, new in zip(op.outputs, values, strict=True):
            if new is not None and old.has_attrs:
                new.attrs.update({**old.attrs, **new.attrs})


def _heir_of_notes(op: Op, values: Sequence[OutputPort | None]) -> Op | None:
    """The new op that gets the free notes of a replaced one, if it has any."""
    first = next((value for value in values if value is not None), None)
    if first is None or first.op is op.graph or first.is_used:
        return None
    return first.op if free_notes(op) else None


def _move_all_uses(graph: Graph, op: Op, new: OutputPort | None) -> bool:
    """Move all uses of a single output at once; False if that could fail.

    It cannot fail if the producer of the new value precedes the op, and so its users.
    """
    if new is None or graph._log is not None or graph._wiring is not None:
        return False
    producer = new.op
    if new.__class__ is Parameter:
        if producer is not graph:
            return False
    elif producer.graph is not graph or op.feedback or not _before(graph, producer, op):
        return False
    old = op.outputs[0]
    users = old._users
    readers = distinct(users)
    for user in readers:
        if user.is_graph or user.graph is not graph:
            return False
    for user in readers:
        user._inputs = replace_value(user._inputs, old, new)
    if new._users is None:
        new._users = users
    else:
        for user in readers:
            for _ in range(users[user] if isinstance(users, dict) else 1):
                attach(new, user)
    old._users = None
    return True


def _before(graph: Graph, a: Op, b: Op) -> bool:
    return a._next is b or _order.is_before(graph, a, b)


def _move_uses(old: OutputPort, new: OutputPort, undo: Undo) -> None:
    for port in old.users:
        port.connect(new)
        undo.push(port.connect, old)


def _move_control_edges(
    graph: Graph, op: Op, values: Sequence[OutputPort | None], undo: Undo
) -> None:
    """Move control edges of an op to its replacements and predecessors."""
    producers = [v.op for v in values if v is not None and v.op.graph is graph]
    replacements = dict.fromkeys(each for each in producers if each is not op)
    firsts = [*replacements, *op.control_inputs]
    thens = list(op.control_outputs)
    if op in graph._inner_controlled:
        firsts.append(graph)
    if op in graph._inner_control:
        thens.append(graph)
    for then in thens:
        for first in firsts:
            if first is not then and not _has_control_edge(graph, first, then):
                control(graph, first, then)
                undo.push(uncontrol, graph, first, then)


def _has_control_edge(graph: Graph, first: Op, then: Op) -> bool:
    """Whether there is a control edge from `first` to `then`."""
    if first is graph:
        return then in graph._inner_controlled
    if then is graph:
        return first in graph._inner_control
    more = then.side_record
    return more is not None and first in (more.control or ())


def _move_pins(graph: Graph, op: Op, values: Sequence[OutputPort | None]) -> None:
    """Move marks and entries from the outputs of `op` to the new values."""
    for old, new in zip(op.outputs, values, strict=True):
        if new is None:
            continue
        for label in old.marks:
            new.mark(label)
            old.unmark(label)
        if old in graph._pins:
            for name, entry in list(graph._entries.items()):
                if old in (*entry.inputs.values(), *entry.outputs.values()):
                    moved = [
                        {k: new if v is old else v for k, v in side.items()}
                        for side in entry
                    ]
                    graph.set_entry(name, *moved)


def replace_uses(old: OutputPort, new: OutputPort) -> None:
    with Undo() as undo:
        for port in old.users:
            if port.op is not new.op:
                port.connect(new)
                undo.push(port.connect, old)


def _require_own_op(graph: Graph, op: Op) -> None:
    if op.graph is graph:
        return
    if (
        op.graph is None
        and op.side_record is not None
        and op.side_record.forward is not None
    ):
        raise GoneError(
            f"{op.label} was removed by {op.side_record.forward[1]} already"
        )
    raise GraphError(f"{op.label} is not in {graph.label}")


def _require_unused(graph: Graph, port: OutputPort, by: str) -> None:
    """Raise an error if anything uses this value."""
    if port._users is not None:
        user = port.users[0].op
        raise InUseError(
            f"{port.op.label} cannot be removed by {by}",
            where=f"its output {port.index}",
            got=f"{user.label} reads it",
            hint="replace it, or remove its users first",
        )
    held = graph._describe_hold(port)
    if held is not None:
        raise InUseError(
            f"{port.op.label} cannot be removed by {by}",
            where=f"its output {port.index}",
            got=f"{held} needs it",
            hint="replace it, or remove that first",
        )


def remove(
    graph: Graph, op: Op, by: str, values: Sequence[OutputPort | None] = ()
) -> None:
    _require_own_op(graph, op)
    more = op.side_record
    held = graph._pins or (more is not None and more.marks)
    for port in op.outputs:
        if port._users is not None or held:
            _require_unused(graph, port, by)
    for value in op._inputs:
        if value is not None:
            detach(value, op)
    if op.is_graph or (more is not None and more.bodies):
        _cut_captures(op)
    if more is not None and (more.control or more.controlled):
        for first in op.control_inputs:
            uncontrol(graph, first, op)
        for then in op.control_outputs:
            uncontrol(graph, op, then)
    if graph._inner_control or graph._inner_controlled:
        if op in graph._inner_control:
            uncontrol(graph, op, graph)
        if op in graph._inner_controlled:
            uncontrol(graph, graph, op)
    _order.unlink(graph, op)
    if op.name is not None:
        del graph._names[op.name]
    graph._count -= 1
    op.graph = None
    op._side.forward = (tuple(values), by)
    if graph._log is not None:
        graph._note("remove", op, f"by {by}")


def _cut_captures(op: Op) -> None:
    """Disconnect the captures of bodies of a removed op."""
    graphs = [inner for graph in op._inner_graphs() for inner in graph._nested_graphs()]
    inside = set(graphs)
    for graph in graphs:
        readers = [port for user in graph for port in user.input_ports]
        for port in [*readers, *graph.result_ports]:
            value = port.source
            if value is not None and value.graph not in inside:
                port.op._put(port.index, None, port.inner)
                detach(value, port.op)


# -- ports of the graph, insertion -----------------------------------------------


def remove_parameter(graph: Graph, index: int) -> None:
    if not 0 <= index < len(graph._parameters):
        raise GraphError(f"{graph.label} has no parameter {index}")
    port = graph._parameters[index]
    if port._users is not None:
        raise InUseError(
            f"parameter {port} of {graph.label} cannot be removed",
            got=f"{port.users[0].op.label} reads it",
        )
    held = graph._describe_hold(port)
    if held is not None:
        raise InUseError(f"parameter {port} cannot be removed", got=f"{held} needs it")
    if graph._inputs[index] is not None:
        graph._connect(index, None)
    graph._cut_input(index)
    graph._parameter_marks.pop(port, None)
    if port.name is not None:
        del graph._parameter_names[port.name]
    del graph._parameters[index]
    for later in graph._parameters[index:]:
        later.index -= 1


def remove_result(graph: Graph, index: int) -> None:
    if not 0 <= index < len(graph._results):
        raise GraphError(f"{graph.label} has no result {index}")
    port = graph.outputs[index]
    home = graph.graph
    if home is not None:
        _require_unused(home, port, "remove_result")
    if graph._results[index] is not None:
        graph._connect(index, None, inner=True)
    graph._results.cut(index)
    graph._cut_output(index)
    graph._shift(("out", "result"), index)
    marks = graph.side_record.marks if graph.side_record else None
    if marks:
        graph._side.marks = {
            k - (k > index): labels for k, labels in marks.items() if k != index
        }
    for later in graph.outputs[index:]:
        later.index -= 1


def insert(
    edge: Edge, type: str, attrs: Mapping[str, Any] | None, name: str | None
) -> Op:
    source, target = edge
    if isinstance(source, OutputPort) and isinstance(target, InputPort):
        if target.source is not source:
            raise GraphError(f"there is no edge {edge}", hint="it was changed since")
        home = target.graph
        assert home is not None
        with home.before(None if target.inner else target.op):
            op = home.add(type, [source], attrs, name=name)
        op.outputs[0].type = source.type
        target.connect(op.outputs[0])
        return op
    return _insert_control(source.op, target.op, type, attrs, name)


def _insert_control(
    first: Op, then: Op, type: str, attrs: Mapping[str, Any] | None, name: str | None
) -> Op:
    home = first if then.graph is first else then
    if then.graph is not first and first.graph is not then:
        home = first.graph  # type: ignore[assignment]
    graph: Graph = home  # type: ignore[assignment]
    attrs_of_edge = dict(then._side.attrs_of(first))
    uncontrol(graph, first, then)
    with graph.before(None if then is graph else then):
        op = graph.add(type, (), attrs, name=name)
    control(graph, first, op)
    control(graph, op, then, attrs_of_edge)
    return op


def fresh_name(graph: Graph, stem: str) -> str:
    if stem not in graph._names:
        return stem
    for i in count(graph._fresh.get(stem, 1)):
        name = f"{stem}_{i}"
        if name not in graph._names:
            graph._fresh[stem] = i + 1
            return name
    raise AssertionError


def unused_name(stem: str, is_taken: Callable[[str], bool]) -> str:
    """`stem`, or the first of `stem_1`, `stem_2` ... that is not taken.

    >>> unused_name("y", {"y", "y_1"}.__contains__)
    'y_2'
    """
    names = chain([stem], (f"{stem}_{i}" for i in count(1)))
    return next(name for name in names if not is_taken(name))


# -- wiring and recording ----------------------------------------------------------


class Wiring:
    """See Graph.wiring."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._outermost = False

    def __enter__(self) -> Graph:
        if self._graph._wiring is None:
            self._graph._wiring = []
            self._outermost = True
        return self._graph

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._outermost:
            return
        graph = self._graph
        try:
            if error is None:
                _order.sort(graph)
            else:
                self._undo()
        except GraphError:
            self._undo()
            raise
        finally:
            graph._wiring = None

    def _undo(self) -> None:
        for step in reversed(self._graph._wiring or []):
            if len(step) == 3:
                op, key, old = step
                inner, i = key
                new = op._sinks(inner)[i]
                op._put(i, old, inner)
                if old is not None:
                    attach(old, op)
                if new is not None:
                    detach(new, op)
            else:
                uncontrol(self._graph, *step)


class Recording:
    """See Graph.recording."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._old: list[Change] | None = None

    def __enter__(self) -> list[Change]:
        self._old = self._graph._log
        log: list[Change] = []
        self._graph._log = log
        return log

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._old is not None and self._graph._log is not None:
            self._old.extend(self._graph._log)
        self._graph._log = self._old
