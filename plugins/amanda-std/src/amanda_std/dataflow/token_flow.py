"""Control flow by dataflow of tokens, as of TensorFlow 1, as ops with bodies.

    Switch, Merge                                   a conditional
    a Switch with several outputs, Merge            a choice by number
    Enter, Merge, LoopCond, Switch,                 a loop
    NextIteration, Exit

A region is found backwards, from what leaves it to the Switch, Merge and Enter ops
around it. Inner regions are replaced first: a region with control flow in it waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from amanda.errors import FormatError
from amanda.graph import Graph, Op, OutputPort, copy_ops
from amanda.tensors import Tensor

__all__ = ["TokenOps", "structure_control_flow"]


@dataclass(frozen=True)
class TokenOps:
    """The op types of a framework's control flow, and of what replaces it.

    A conditional has the bodies `else_branch` and `then_branch`, a choice `branches0`,
    `branches1` ..., a loop `cond` and `body`.
    """

    switch: tuple[str, ...]
    merge: tuple[str, ...]
    enter: tuple[str, ...]
    leave: tuple[str, ...]
    again: tuple[str, ...]
    condition: str
    identity: str
    frame: str
    """The attribute of `enter` that names its loop."""
    loop: str
    conditional: str
    choice: str = ""
    numbered_switch: str = ""
    """A switch with an output for each number."""
    conditional_attrs: Mapping[str, Any] = field(default_factory=dict)
    choice_attrs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def switches(self) -> tuple[str, ...]:
        return (*self.switch, self.numbered_switch)

    @property
    def all(self) -> tuple[str, ...]:
        """All op types that are replaced."""
        return (*self.switches, *self.merge, *self.enter, *self.leave, *self.again,
                self.condition)  # fmt: skip


class _NotReadyError(Exception):
    """A region contains control flow that is not replaced yet."""


def structure_control_flow(
    graph: Graph, kinds: TokenOps, remove_unused: Callable[[Graph], None]
) -> None:
    """Replace control flow by ops with bodies; FormatError if it has no structure.

    `remove_unused` removes the ops of a graph that nothing needs any more.
    """
    left = [op for op in graph if op.type in kinds.merge]
    while left:
        if _replace_loops(graph, kinds) or _replace_conditionals(graph, kinds):
            remove_unused(graph)
        before, left = left, [op for op in graph if op.type in kinds.merge]
        if len(left) == len(before):
            raise FormatError(
                "the control flow has no structure of loops and conditionals",
                where=left[0].label,
                expected="Switch and Merge, or Enter and Exit, in pairs",
            )


# -- regions ---------------------------------------------------------------------------


class _Region:
    """The ops between values that leave a region and those that enter it."""

    def __init__(
        self, graph: Graph, kinds: TokenOps, enters: Callable[[OutputPort], Any]
    ) -> None:
        self.graph = graph
        self.kinds = kinds
        self.enters = enters
        self.ops: dict[Op, None] = {}
        self.memo: dict[Any, Any] = {}
        """What stands in the body for values that enter."""

    def add(
        self, values: Iterable[OutputPort | None], order: Iterable[Op] = ()
    ) -> None:
        """Add all that these values, and the order of ops, depend on."""
        stack = [op for value in values for op in self._producer(value)]
        stack += [op for op in order if self._is_inside(op)]
        while stack:
            op = stack.pop()
            if op in self.ops:
                continue
            if op.type in self.kinds.all:
                raise _NotReadyError
            self.ops[op] = None
            stack += [
                each for value in _values_of(op) for each in self._producer(value)
            ]
            stack += [first for first in op.control_inputs if self._is_inside(first)]

    def _producer(self, value: OutputPort | None) -> list[Op]:
        if value is None or value in self.memo or value.op is self.graph:
            return []
        inner = self.enters(value)
        if inner is None:
            return [value.op]
        self.memo[value] = inner
        return []

    def _is_inside(self, op: Op) -> bool:
        """Whether an op that another waits for is no boundary of the region."""
        if op.type in self.kinds.all:
            for port in op.outputs:
                self._producer_or_nothing(port)
            return False
        return True

    def _producer_or_nothing(self, port: OutputPort) -> None:
        inner = self.enters(port)
        if inner is not None:
            self.memo[port] = inner

    def fill(self, body: Graph, results: Iterable[OutputPort | None]) -> None:
        """Copy the ops to a body, with these results."""
        ops = [op for op in self.graph if op in self.ops]
        copy_ops(self.graph, body, ops, self.memo)
        for value in results:
            body.result(None if value is None else self.memo.get(value, value))


def _values_of(op: Op) -> list[OutputPort | None]:
    """The inputs of an op, and what its bodies use of the graph around it."""
    captured = [v for body in op.bodies.values() for v in body.captures]
    return [*op.inputs, *(v for v in captured if v.graph is op.graph)]


def _move_order(old: Op, new: Op) -> None:
    """What waited for an op waits for another."""
    graph = new.graph
    assert graph is not None
    for op in list(old.control_outputs):
        graph.uncontrol(old, op)
        if new not in op.control_inputs and op is not new:
            graph.control(new, op)


# -- loops -----------------------------------------------------------------------------


class _Loop(NamedTuple):
    """A loop: for each variable its Enter, Merge, NextIteration and Switch."""

    merges: list[Op]
    condition: Op
    nexts: list[Op]
    switches: list[Op | None]
    invariants: dict[OutputPort, OutputPort]


def _replace_loops(graph: Graph, kinds: TokenOps) -> bool:
    frames: dict[Any, list[Op]] = {}
    for op in graph:
        if op.type in kinds.enter:
            frames.setdefault(op.attrs.get(kinds.frame), []).append(op)
    done = False
    for enters in frames.values():
        try:
            _replace_loop(graph, kinds, _loop_of(enters, kinds))
        except _NotReadyError:
            continue
        done = True
    return done


def _loop_of(enters: list[Op], kinds: TokenOps) -> _Loop:
    merges, nexts, invariants = [], [], {}
    for enter in enters:
        own = [op for op in enter.output.user_ops if op.type in kinds.merge]
        if not own and enter.inputs[0] is not None:
            invariants[enter.output] = enter.inputs[0]
        for merge in own:
            merges.append(merge)
            nexts.append(_other_input(merge, enter, kinds))
    switches = [
        next((op for op in m.outputs[0].user_ops if op.type in kinds.switches), None)
        for m in merges
    ]
    conditions = {s.inputs[1].op for s in switches if s is not None and s.inputs[1]}
    if len(conditions) != 1:
        raise _NotReadyError
    return _Loop(merges, conditions.pop(), nexts, switches, invariants)


def _other_input(merge: Op, enter: Op, kinds: TokenOps) -> Op:
    for value in merge.inputs:
        if value is not None and value.op is not enter and value.op.type in kinds.again:
            return value.op
    raise _NotReadyError


def _replace_loop(graph: Graph, kinds: TokenOps, loop: _Loop) -> None:
    starts = [
        next(v.op.inputs[0] for v in m.inputs if v and v.op.type in kinds.enter)
        for m in loop.merges
    ]
    condition, again = _body_of(graph, starts), _body_of(graph, starts)
    at_start = {m.outputs[0]: i for i, m in enumerate(loop.merges)}
    inside = {s.outputs[1]: i for i, s in enumerate(loop.switches) if s is not None}
    regions = []
    for body, places, results in (
        (condition, at_start, loop.condition.inputs),
        (again, {**at_start, **inside}, [n.inputs[0] for n in loop.nexts]),
    ):
        region = _Region(graph, kinds, _entry(body, places, loop.invariants))
        order = [] if body is condition else [
            first for n in loop.nexts for first in n.control_inputs
        ]  # fmt: skip
        region.add(results, order)
        regions.append((region, body, results))
    for region, body, results in regions:
        region.fill(body, results)
    made = graph.add(
        kinds.loop, starts, {}, bodies={"cond": condition, "body": again},
        outputs=len(starts),
    )  # fmt: skip
    for switch, result in zip(loop.switches, made.outputs, strict=True):
        if switch is None:
            continue
        for leave in [
            op for op in switch.outputs[0].user_ops if op.type in kinds.leave
        ]:
            graph.replace_uses(leave.output, result)
            _move_order(leave, made)


def _body_of(graph: Graph, starts: list[Any]) -> Graph:
    """A body whose parameters have no types: those of arrays change."""
    body = Graph(graph.namespace, outer=graph)
    for _ in starts:
        body.parameter()
    return body


def _entry(
    body: Graph, places: Mapping[OutputPort, int],
    invariants: Mapping[OutputPort, OutputPort],
) -> Callable[[OutputPort], Any]:  # fmt: skip
    """What stands in a loop's body for a value that enters it; None for no such one."""

    def enters(value: OutputPort) -> Any:
        if value in places:
            return body.parameters[places[value]]
        return invariants.get(value)

    return enters


# -- conditionals ----------------------------------------------------------------------


class _Branches(NamedTuple):
    """A Merge: its predicate, and the results of its branches: false, true, or by
    number."""

    merge: Op
    predicate: OutputPort
    is_numbered: bool
    results: list[OutputPort | None]
    sources: set[Op]
    """The ops whose values its branches use."""


def _replace_conditionals(graph: Graph, kinds: TokenOps) -> bool:
    groups: dict[tuple[OutputPort, int], list[_Branches]] = {}
    for merge in graph:
        if merge.type in kinds.merge and not _is_loop_start(merge, kinds):
            try:
                found = _branches_of(graph, kinds, merge)
            except _NotReadyError:
                continue
            key = _without_identity(found.predicate, kinds), len(found.results)
            group = groups.setdefault(key, [])
            if not _depends_on(found.sources, {b.merge for b in group}):
                group.append(found)
    for (predicate, _), group in groups.items():
        _replace_conditional(graph, kinds, predicate, group)
    return bool(groups)


def _is_loop_start(merge: Op, kinds: TokenOps) -> bool:
    starts = (*kinds.enter, *kinds.again)
    return any(v is not None and v.op.type in starts for v in merge.inputs)


def _without_identity(value: OutputPort, kinds: TokenOps) -> OutputPort:
    while value.op.type == kinds.identity and value.op.inputs[0] is not None:
        value = value.op.inputs[0]
    return value


def _depends_on(ops: Iterable[Op], goals: set[Op]) -> bool:
    stack, seen = list(ops), set()
    while stack:
        op = stack.pop()
        if op in goals:
            return True
        if op in seen:
            continue
        seen.add(op)
        stack += [
            v.op for v in _values_of(op) if v is not None and v.op is not op.graph
        ]
    return False


def _switch_entry(
    used: dict[int, set[OutputPort]], kinds: TokenOps
) -> Callable[[OutputPort], Any]:
    """What stands in a branch for an output of a Switch: the data that it passes."""

    def enters(value: OutputPort) -> Any:
        if value.op.type not in kinds.switches:
            return None
        predicate = value.op.inputs[1]
        if predicate is not None:
            used.setdefault(value.index, set()).add(predicate)
        return value.op.inputs[0]

    return enters


def _branches_of(graph: Graph, kinds: TokenOps, merge: Op) -> _Branches:
    sides: dict[int, OutputPort | None] = {}
    predicates: set[OutputPort] = set()
    switches: set[Op] = set()
    sources: set[Op] = set()
    unknown = []
    for value in merge.inputs:
        used: dict[int, set[OutputPort]] = {}
        region = _Region(graph, kinds, _switch_entry(used, kinds))
        region.add([value])
        sources |= {v.op for v in region.memo.values() if v is not None}
        passed = {v.op for v in region.memo if v.op.type in kinds.switches}
        sources |= passed
        switches |= passed
        if not used:
            unknown.append(value)
            continue
        side = max(used, key=lambda i: len(used[i]))
        if side in sides:
            raise _NotReadyError
        sides[side] = value
        predicates |= {_without_identity(p, kinds) for p in used[side]}
    free = [i for i in range(len(merge.inputs)) if i not in sides]
    if len(free) != len(unknown) or len(free) > 1:
        raise _NotReadyError
    sides.update(zip(free, unknown, strict=True))
    if len(predicates) != 1 or merge in sources:
        raise _NotReadyError
    results = [sides[i] for i in range(len(sides))]
    is_numbered = any(op.type == kinds.numbered_switch for op in switches)
    if not is_numbered and len(results) != 2:
        raise _NotReadyError
    return _Branches(merge, predicates.pop(), is_numbered, results, sources)


def _replace_conditional(
    graph: Graph, kinds: TokenOps, predicate: OutputPort, group: list[_Branches]
) -> None:
    indexed = [
        b.merge for b in group if any(port.users for port in b.merge.outputs[1:])
    ]
    type, names = kinds.conditional, ["else_branch", "then_branch"]
    attrs = dict(kinds.conditional_attrs)
    if group[0].is_numbered:
        type, attrs = kinds.choice, dict(kinds.choice_attrs)
        names = [f"branches{i}" for i in range(len(group[0].results))]
    bodies = {}
    for side, name in enumerate(names):
        body = Graph(graph.namespace, outer=graph)
        region = _Region(graph, kinds, _switch_entry({}, kinds))
        results = [b.results[side] for b in group]
        region.add(results)
        region.fill(body, results)
        for _ in indexed:
            body.result(_index_constant(body, side))
        bodies[name] = body
    made = graph.add(
        type, [predicate], attrs, bodies=bodies,
        outputs=len(group) + len(indexed),
    )  # fmt: skip
    places = iter(made.outputs[len(group) :])
    for branches, result in zip(group, made.outputs, strict=False):
        merge = branches.merge
        graph.replace_uses(merge.outputs[0], result)
        if merge in indexed:
            graph.replace_uses(merge.outputs[1], next(places))
        _move_order(merge, made)


def _index_constant(body: Graph, side: int) -> OutputPort:
    return body.constant(Tensor.of(side, "int32")).output
