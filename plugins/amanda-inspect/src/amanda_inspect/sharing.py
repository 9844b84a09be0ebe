"""What a comparison need not compute twice, since two graphs share it.

An op that has the attributes, constants and bodies of its counterpart gives on the
values of the reference what the reference has, on one backend: it makes no error. If
its own run reads those values too, it need not run at all.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, MutableMapping, Sequence

from amanda.graph import Graph, Op, OutputPort
from amanda.types import RefType, ResourceType
from amanda_inspect.common import HUB
from amanda_inspect.matching import Matching, attribute_changes
from amanda_inspect.windows import reads_of

__all__ = ["Sharing", "is_same_computation"]

Pairs = MutableMapping[OutputPort, OutputPort]


class Sharing:
    """Which ops of a graph need not run, op by op in order."""

    def __init__(self, matching: Matching, *, has_one_backend: bool) -> None:
        self._matching = matching
        a, b = matching.a, matching.b
        is_one_dictionary = a.namespace == HUB or a.imports == b.imports
        self._may_share = (
            has_one_backend and a.namespace == b.namespace and is_one_dictionary
        )
        self.values: set[OutputPort] = set()
        """Values that the run of `b` has in common with the reference."""
        self._agreeing: set[OutputPort] = set()
        """Values that are the same whether `b` reads its own values or those of the
        reference."""
        self.same_ops: set[Op] = set()
        """Ops that compute what their counterparts do."""
        self._steady_ops: set[Op] = set()

    def add_inputs(self, inputs: Sequence[OutputPort]) -> None:
        """State what both runs read."""
        if self._may_share:
            self._agreeing.update(inputs)

    def add(self, ops: Sequence[Op]) -> None:
        """Decide on ops, after those before them."""
        for op in ops if self._may_share else ():
            is_steady = all(
                p in self._agreeing or p.op.is_constant for p in reads_of(op)
            )
            is_same = self._is_same(op)
            if is_same:
                self.same_ops.add(op)
            if is_steady:
                self._steady_ops.add(op)
            if is_same and is_steady:
                self.values.update(op.outputs)
                self._agreeing.update(op.outputs)
            elif is_steady and not any(p in self._matching.values for p in op.outputs):
                self._agreeing.update(op.outputs)

    def _is_same(self, op: Op) -> bool:
        other, values = self._matching.ops.get(op), self._matching.values
        if other is None or len(op.outputs) != len(other.outputs):
            return False
        both = zip(op.outputs, other.outputs, strict=True)
        are_paired = all(values.get(mine) is theirs for mine, theirs in both)
        equal = self._matching.equal_constants
        return are_paired and is_same_computation(op, other, values, equal)

    def own_ops(self, ops: Sequence[Op]) -> list[Op]:
        """The ops that the run of `b` computes."""
        return [op for op in ops if not (op in self.same_ops and self.is_steady(op))]

    def is_steady(self, op: Op) -> bool:
        """Whether all that an op reads is the same in both of its runs."""
        return op in self._steady_ops

    def forced_ops(self, ops: Sequence[Op], *, has_own_run: bool) -> list[Op]:
        """The ops that run on values of the reference: those whose results follow
        from no other run, and the ops without counterparts that they read."""
        found: list[Op] = []
        read: set[OutputPort] = set()
        for op in reversed(ops):
            is_known = op in self.same_ops or (has_own_run and self.is_steady(op))
            if not is_known or not read.isdisjoint(op.outputs):
                found.append(op)
                read.update(p for p in reads_of(op) if p not in self._matching.values)
        return found[::-1]


def is_same_computation(
    op: Op, other: Op, values: Pairs, equal: Callable[[Op, Op], bool]
) -> bool:
    """Whether an op computes what another does, where `values` of both correspond.

    `equal` compares constants. Ops that read variables depend on runs before.
    """
    return (
        op.type == other.type
        and op.own_namespace == other.own_namespace
        and not _calls_graph(op)
        and not _calls_graph(other)
        and not _has_state(op)
        and len(op.outputs) == len(other.outputs)
        and _read_the_same(op.inputs, other.inputs, values, equal)
        and not attribute_changes(op, other)
        and op.bodies.keys() == other.bodies.keys()
        and all(
            _are_same_bodies(body, other.bodies[key], values, equal)
            for key, body in op.bodies.items()
        )
    )


def _calls_graph(op: Op) -> bool:
    """Whether an op is a graph, or calls a function."""
    root = None if op.graph is None else op.graph.root
    return op.is_graph or (root is not None and op.type in root.functions)


def _has_state(op: Op) -> bool:
    ports = [*op.outputs, *(port for port in op.inputs if port is not None)]
    return any(isinstance(port.type, ResourceType | RefType) for port in ports)


def _read_the_same(
    mine: Sequence[OutputPort | None],
    theirs: Sequence[OutputPort | None],
    values: Pairs,
    equal: Callable[[Op, Op], bool],
) -> bool:
    return len(mine) == len(theirs) and all(
        _is_same_value(read, other, values, equal)
        for read, other in zip(mine, theirs, strict=True)
    )


def _is_same_value(
    mine: OutputPort | None,
    theirs: OutputPort | None,
    values: Pairs,
    equal: Callable[[Op, Op], bool],
) -> bool:
    if mine is None or theirs is None:
        return mine is theirs
    if mine.op.is_constant and theirs.op.is_constant:
        return equal(mine.op, theirs.op)
    return values.get(mine) is theirs


def _are_same_bodies(
    body: Graph, other: Graph, values: Pairs, equal: Callable[[Op, Op], bool]
) -> bool:
    """Whether two bodies have the same ops, in one order."""
    inner: Pairs = ChainMap({}, values)
    sides = [[op for op in each if not op.is_constant] for each in (body, other)]
    counts = [(len(each.parameters), len(each.results)) for each in (body, other)]
    if len(sides[0]) != len(sides[1]) or counts[0] != counts[1]:
        return False
    inner.update(zip(body.parameters, other.parameters, strict=True))
    for op, counterpart in zip(*sides, strict=True):
        if not is_same_computation(op, counterpart, inner, equal):
            return False
        inner.update(zip(op.outputs, counterpart.outputs, strict=True))
    return _read_the_same(body.results, other.results, inner, equal)
