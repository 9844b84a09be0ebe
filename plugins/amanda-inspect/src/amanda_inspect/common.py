"""Two models brought to one namespace, so that their ops can be compared."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

import amanda
from amanda.errors import AmandaError
from amanda.graph import Graph, Op, OutputPort
from amanda.types import ResourceType

__all__ = ["HUB", "Comparable", "Unoptimized", "common_namespace"]

HUB: Final = "amanda/std/1"


class Unoptimized:
    """A graph as it was before it was optimized."""

    def __init__(self, graph: Graph) -> None:
        memo: dict[Any, Any] = {}
        graph.clone(memo=memo)
        self._copies = {
            port: copy
            for port, copy in memo.items()
            if isinstance(port, OutputPort) and isinstance(copy, OutputPort)
        }
        self.values: dict[OutputPort, OutputPort] = {}
        """Its values that the optimized graph has as well."""

    def find_values(self, graph: Graph) -> None:
        """Find the values that are left, after the graph was optimized."""
        for port, copy in self._copies.items():
            try:
                found = port.resolve()
            except AmandaError:  # it was removed, and nothing stands in for it
                continue
            if found.graph is graph:
                self.values[copy] = found

    def region(
        self, ports: Sequence[OutputPort], known: Collection[OutputPort]
    ) -> list[Op]:
        """The ops that compute values of the optimized graph from known ones, in order.

        Those that optimization removed after a known value are among them.
        """
        wanted = set(ports)
        found: dict[Op, None] = {}
        waiting = [copy for copy, port in self.values.items() if port in wanted]
        while waiting:
            op = waiting.pop().op
            if op in found or op.is_constant or isinstance(op, Graph):
                continue
            found[op] = None
            waiting += [
                read
                for read in op.inputs
                if read is not None and not self._is_first(read, known, wanted)
            ]
        return sorted(found, key=lambda each: each.index)

    def is_removed(self, op: Op) -> bool:
        """Whether optimization removed an op, and what it reads takes its place."""
        value = self.values.get(op.outputs[0]) if op.outputs else None
        reads = (self.values.get(port) for port in op.inputs if port is not None)
        return value is not None and value in reads

    def _is_first(
        self,
        copy: OutputPort,
        known: Collection[OutputPort],
        wanted: Collection[OutputPort],
    ) -> bool:
        """Whether a value is known, and not passed on by an op that was removed."""
        value = self.values.get(copy)
        if value is None or value not in known or value in wanted:
            return False
        return isinstance(copy.op, Graph) or not self.is_removed(copy.op)


class Comparable(NamedTuple):
    """Two graphs of one namespace, and what they were before they were optimized."""

    a: Graph
    b: Graph
    unoptimized: tuple[Unoptimized, Unoptimized] | None = None


def common_namespace(a: Graph, b: Graph, *, are_run: bool = True) -> Comparable:
    """Two graphs of one namespace: of the hub, where they have different ones.

    Then they are optimized for inference, where models of different exporters are more
    alike. Graphs with bodies, functions or state run in the hub, too, op by op, where
    they have only what their results need; without `are_run`, graphs of one namespace
    stay as they are.
    """
    is_same = a.namespace == b.namespace
    is_simple = a.namespace == HUB or not are_run or not _has_bodies_or_state(a, b)
    if is_same and is_simple:
        return Comparable(a, b)
    if a is b:  # on two backends
        graph = amanda.convert(a, HUB)
        return Comparable(graph, graph)
    both = [amanda.convert(each, HUB) for each in (a, b)]
    before = (Unoptimized(both[0]), Unoptimized(both[1]))
    for graph, copy in zip(both, before, strict=True):
        if not is_same:
            amanda.improve(graph, "optimize_for_inference")
        copy.find_values(graph)
        capture_invariants(graph)
    return Comparable(both[0], both[1], before)


def _has_bodies_or_state(*graphs: Graph) -> bool:
    return any(graph.functions for graph in graphs) or any(
        op.bodies or any(isinstance(port.type, ResourceType) for port in op.outputs)
        for graph in graphs
        for op in graph
    )


def capture_invariants(graph: Graph) -> None:
    """Let bodies read from around them what loops pass on unchanged, in all bodies.

    Some frameworks pass to a body what others let it capture.
    """
    for op in list(graph):
        for body in op.bodies.values():
            for i, parameter in enumerate(body.parameters):
                value = _invariant(op, i)
                if value is not None and parameter.is_used:
                    body.replace_uses(parameter, value)
            capture_invariants(body)


def _invariant(op: Op, i: int) -> OutputPort | None:
    """What the parameter `i` of the bodies of an op is in all calls."""
    if op.type == "if":
        return op.inputs[i + 1]
    body = op.bodies.get("body")
    if op.type == "while" and body is not None and i < len(body.results):
        result = body.results[i]
        if result is not None and result is body.parameters[i]:
            return op.inputs[i]
    return None
