"""Copies of graphs and parts of graphs, also into another graph."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from amanda.errors import ForeignPortError, GraphError
from amanda.graph import _order
from amanda.graph._bulk import bulk
from amanda.graph._change import fresh_name
from amanda.graph._op import Op
from amanda.graph._port import (
    OutputPort,
    Parameter,
    ValueLike,
    attach,
    new_port,
    sinks,
    value_port,
)

if TYPE_CHECKING:
    from amanda.graph._graph import Graph

Memo = dict[Any, Any]


class InternalMemo(dict[Any, Any]):
    """A memo that omits ops with outputs; their copies are found by those."""


# graphs whose contents are still to be copied, with their copies
Pending = list[tuple["Graph", "Graph"]]


def clone(
    graph: Graph,
    targets: Iterable[ValueLike | Op | str] | None,
    rename: str,
    memo: Memo | None,
    functions: Collection[str] | None = None,
    ops: Collection[Op] | None = None,
) -> Graph:
    from amanda.graph._graph import Graph

    memo = InternalMemo() if memo is None else memo
    with bulk():
        if targets is None:
            copy = _empty_copy(graph, memo)
            around = graph._scope
            if around is not None and graph.captures:
                copy.outer = around if isinstance(around, Graph) else around.graph
            copy.namespace = graph.namespace
            _copy_contents([(graph, copy)], memo, rename, ops)
            _copy_root(graph, copy, memo, functions)
            return copy
        values = _values(graph, targets)
        return _clone_part(graph, values, memo, rename, functions)


def paste(
    graph: Graph,
    source: Graph,
    inputs: Sequence[OutputPort | None],
    rename: str,
    memo: Memo | None,
) -> list[OutputPort | None]:
    memo = InternalMemo() if memo is None else memo
    if len(inputs) != len(source._parameters):
        raise GraphError(
            f"{source.label} cannot be pasted with {len(inputs)} inputs",
            expected=f"{len(source._parameters)}, one for each parameter",
            got=len(inputs),
        )
    with bulk():
        for value in inputs:
            if value is not None:
                graph._allow(value, graph._point)
        memo.update(zip(source._parameters, inputs, strict=True))
        later: Pending = []
        for value in source.captures:
            graph._allow(value, graph._point)
        _copy_ops(source, graph, list(source), memo, rename, later)
        _copy_contents(later, memo, rename)
        return [_copied_value(memo, value) for value in source._results]


def copy_ops(graph: Graph, target: Graph, ops: list[Op], memo: Memo) -> None:
    """Copy ops of a graph into another; `memo` maps values to their replacements."""
    with bulk():
        later: Pending = []
        _copy_ops(graph, target, ops, memo, "{name}", later)
        _copy_contents(later, memo, "{name}")


def _values(graph: Graph, targets: Iterable[ValueLike | Op | str]) -> list[OutputPort]:
    values: list[OutputPort] = []
    for target in targets:
        if isinstance(target, str):
            target = graph.ops[target]
        values += target.outputs if isinstance(target, Op) else [value_port(target)]
    for value in values:
        if value.graph is not graph:
            raise ForeignPortError(f"{value} is not a value of {graph.label}")
    return values


def _clone_part(
    graph: Graph,
    values: list[OutputPort],
    memo: Memo,
    rename: str,
    functions: Collection[str] | None,
) -> Graph:
    ops = graph.upstream(*values)
    needed = {v for v in values if isinstance(v, Parameter)}
    for op in ops:
        needed.update(v for v in op._inputs if isinstance(v, Parameter))
        for body in op._inner_graphs():
            needed.update(v for v in body.captures if isinstance(v, Parameter))
    copy = _copy_fields(graph, memo)
    for port in graph._parameters:
        if port in needed:
            memo[port] = copy.parameter(port.type, port.name)
            _copy_port(port, memo[port])
    later: Pending = []
    _copy_ops(graph, copy, ops, memo, rename, later)
    _copy_contents(later, memo, rename)
    for value in values:
        copy.result(memo[value], value.name)
    _copy_functions(graph, copy, memo, functions)
    return copy


def _copy_fields(graph: Graph, memo: Memo) -> Graph:
    """A graph with the same fields, without ports and ops."""
    copy: Graph = type(graph)(None, graph.name, type=graph.type)
    copy._attrs = dict(graph._attrs) if graph._attrs else None
    copy._imports = dict(graph._imports)
    if graph.side_record is not None:
        copy._side.namespace = graph.side_record.namespace
        copy._side.provenance = graph.side_record.provenance
        copy._side.feedback = graph.side_record.feedback
    memo[graph] = copy
    return copy


def _empty_copy(graph: Graph, memo: Memo) -> Graph:
    """A graph with the same fields and ports, without ops."""
    copy = _copy_fields(graph, memo)
    for port in graph._parameters:
        parameter = copy.parameter(port.type, port.name)
        memo[port] = parameter
        if port in graph._parameter_marks:
            copy._parameter_marks[parameter] = set(graph._parameter_marks[port])
    copy._results.extend([None] * len(graph._results))
    copy.outputs = tuple([new_port(copy, i) for i in range(len(graph.outputs))])
    for old, new in zip(graph.outputs, copy.outputs, strict=True):
        new.name, new.type = old.name, old.type
        memo[old] = new
    _copy_side(graph, copy)
    return copy


def _copy_port(old: OutputPort, new: OutputPort) -> None:
    if old.has_attrs:
        new.attrs.update(old.attrs)
    for label in old.marks:
        new.mark(label)


def _copy_side(old: Op, new: Op) -> None:
    """Copy the side record, except control edges and bodies."""
    more = old.side_record
    if more is None:
        return
    side = new._side
    side.namespace, side.feedback = more.namespace, more.feedback
    side.provenance = more.provenance
    side.input_names = dict(more.input_names) if more.input_names else None
    side.marks = {i: set(m) for i, m in more.marks.items()} if more.marks else None
    if more.extras:
        side.extras = {
            key: dict(attrs)
            for key, attrs in more.extras.items()
            if isinstance(key, tuple) and attrs
        }


def _copy_contents(
    todo: Pending, memo: Memo, rename: str, part: Collection[Op] | None = None
) -> None:
    """Copy the contents of graphs; of the first one, a part of the ops if given."""
    for old, new in todo:  # grows during iteration
        ops = list(old) if part is None else [op for op in old if op in part]
        _copy_ops(old, new, ops, memo, rename, todo)
        for i, value in enumerate(old._results):
            result = _copied_value(memo, value)
            if result is not None:
                new._results.put(i, result)
                attach(result, new)
        _copy_boundary(old, new, memo, part)
        part = None


def _copy_ops(
    old: Graph,
    new: Graph,
    ops: list[Op],
    memo: Memo,
    rename: str,
    later: Pending,
) -> None:
    backward: list[tuple[Op, int, OutputPort]] = []
    controlled: list[Op] = []
    keeps_names = rename == "{name}"
    names, point = new._names, new._point
    for op in ops:
        new_op = _empty_copy(op, memo) if op.is_graph else _copy_op(op, memo)  # type: ignore[arg-type]
        name = op._name
        if name is not None:
            name = name if keeps_names else rename.format(name=name)
            if name in names:
                name = fresh_name(new, name)
            names[name] = new_op
        new_op._name = name
        inputs: list[OutputPort | None] = []
        for i, value in enumerate(op._inputs):
            new_input = memo.get(value)
            if new_input is None and value is not None and value not in memo:
                if value.graph is old:
                    backward.append((new_op, i, value))
                else:
                    new_input = value  # a capture from outside of the copied graph
            inputs.append(new_input)
            if new_input is not None:
                if new_input._users is None:  # the common case, inlined
                    new_input._users = new_op
                else:
                    attach(new_input, new_op)
        new_op._inputs = sinks(inputs)
        new_op.graph = new
        new._count += 1
        _order.append(new, new_op, point)
        more = op.side_record
        if op.is_graph:
            later.append((op, new_op))  # type: ignore[arg-type]
        if more is not None:
            if more.bodies:
                _add_empty_bodies(op, new_op, memo, later)
            if more.control:
                controlled.append(op)
    for new_op, i, value in backward:
        new_op._connect(i, memo[value])
    copied = set(ops) if controlled else ()
    for op in controlled:
        extras = op._side.extras or {}
        for first in op.control_inputs:
            if first not in copied:
                continue
            new.control(_copy_of(memo, first), _copy_of(memo, op), extras.get(first))


def _copied_value(memo: Memo, value: OutputPort | None) -> OutputPort | None:
    """The copy of a value; a value that was not copied stands for itself."""
    return memo.get(value, value)


def _copy_op(op: Op, memo: Memo) -> Op:
    """A copy in no graph, without inputs; built without the constructor's calls."""
    new_op = _allocate(Op)
    new_op.type = op.type
    new_op._attrs = dict(op._attrs) if op._attrs else None
    new_op._name = new_op.graph = new_op.side_record = None
    new_op._prev = new_op._next = new_op._order = None
    new_op._inputs = ()
    outputs = []
    for old in op.outputs:
        new = new_port(new_op, old.index)
        new.name, new._type = old.name, old._type
        outputs.append(new)
        memo[old] = new
    new_op.outputs = tuple(outputs)
    if op.side_record is not None:
        _copy_side(op, new_op)
    if type(memo) is not InternalMemo or not outputs:
        memo[op] = new_op
    return new_op


_allocate = Op.__new__


def _copy_of(memo: Memo, op: Op) -> Op:
    """The copy of an op."""
    new_op = memo.get(op)
    return new_op if new_op is not None else memo[op.outputs[0]].op  # type: ignore[no-any-return]


def _add_empty_bodies(op: Op, new_op: Op, memo: Memo, later: Pending) -> None:
    side = new_op._side
    side.bodies = {}
    for key, body in op.bodies.items():
        copy = _empty_copy(body, memo)
        side.bodies[key] = copy
        copy.holder, copy.body_name = new_op, key
        later.append((body, copy))


def _copy_boundary(
    old: Graph, new: Graph, memo: Memo, part: Collection[Op] | None = None
) -> None:
    """Control edges between a graph's own control ports and ops inside."""
    for op in old._inner_controlled:
        if part is not None and op not in part:
            continue
        attrs = op._side.extras.get(old) if op._side.extras else None
        new.control(new, _copy_of(memo, op), attrs)
    for op in old._inner_control:
        if part is not None and op not in part:
            continue
        attrs = old._side.extras.get(op) if old._side.extras else None
        new.control(_copy_of(memo, op), new, attrs)


def _copy_function(name: str, function: Graph, root: Graph, memo: Memo) -> None:
    copy = _empty_copy(function, memo)
    _copy_contents([(function, copy)], memo, "{name}")
    root.add_function(name, copy)


def _copy_functions(
    graph: Graph, copy: Graph, memo: Memo, names: Collection[str] | None
) -> None:
    for name in graph._functions:
        if names is None or name in names:
            _copy_function(name, graph._functions[name], copy, memo)


def _copy_root(
    graph: Graph, copy: Graph, memo: Memo, functions: Collection[str] | None
) -> None:
    """Copy functions and entries, which only root graphs have."""
    _copy_functions(graph, copy, memo, functions)
    for name, entry in graph._entries.items():
        if all(value in memo for side in entry for value in side.values()):
            inputs, outputs = (
                {key: memo[value] for key, value in side.items()} for side in entry
            )
            copy.set_entry(name, inputs, outputs)
