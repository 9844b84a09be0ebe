"""nd4j as one side of mappings to the hub.

Placeholders become the parameters of a graph that is read, by name. Its results are
those that it declares, else all outputs that no op uses. Control flow, which in nd4j is
dataflow of tokens, becomes ops with bodies, which nd4j does not have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, Final

import amanda
from amanda.dictionary import Signature
from amanda.graph import Graph, Op
from amanda.mapping import PlainSide
from amanda.types import Type
from amanda_nd4j.std.arguments import HINTS
from amanda_nd4j.std.unused_ops import remove_unused
from amanda_nd4j.undeclared import UNDECLARED
from amanda_std.dataflow import (
    TokenOps,
    structure_control_flow,
    variable_type,
    wider_loop_types,
)

__all__ = ["CONDITIONAL", "LOOP", "Nd4jHubSide", "nd4j_side"]

CONDITIONAL: Final = "conditional_of_switches"
LOOP: Final = "loop_of_frames"
"""Op types that only graphs which are being read have."""
TOKENS: Final = TokenOps(
    switch=("switch", "Switch"), merge=("merge",), enter=("enter",), leave=("exit",),
    again=("next_iteration",), condition="loop_cond", identity="identity",
    frame="frameName", loop=LOOP, conditional=CONDITIONAL,
)  # fmt: skip


class Nd4jHubSide(PlainSide):
    """One version of nd4j's ops: inputs by position, and any number of them."""

    def __init__(self, name: str) -> None:
        self.dictionary: Any = amanda.namespace(name, assume=True)
        super().__init__(name, self._open_signature)

    def _open_signature(self, type: str) -> Signature | None:
        if type in (CONDITIONAL, LOOP):
            return Signature(("#0",), variadic="#0", outputs=None)
        found: Signature | None = self.dictionary.signature(type)
        if found is None:
            return None
        places = tuple(f"#{i}" for i in range(max(len(found.inputs), 1)))
        more = dict.fromkeys(UNDECLARED.get(type, ()))
        return found._replace(
            inputs=places,
            optional=frozenset(places),
            variadic=places[-1],
            outputs=None,  # the descriptors do not list all
            attrs=MappingProxyType({**more, **found.attrs}),
            hints=frozenset({*found.hints, *HINTS, "_samediff:*"}),
        )

    def parameter_types(
        self, op: Op, inputs: Sequence[Type | None]
    ) -> Sequence[Type | None]:
        """The types of a body's parameters: those of the initial values of a loop."""
        if op.type == CONDITIONAL:
            return inputs[1:]
        return [variable_type(type) for type in inputs]

    def wider_parameter_types(
        self, op: Op, inputs: Sequence[Type | None], bodies: Mapping[str, Graph]
    ) -> Sequence[Type | None] | None:
        """Types of a loop's variables that fit the results of its body, too."""
        return wider_loop_types(op, inputs, bodies) if op.type == LOOP else None

    def prepare(self, graph: Graph) -> Graph:
        """A copy to be read, with parameters, results and structured control flow."""
        copy = graph.clone()
        add_results(copy)
        remove_noops(copy)
        remove_unused(copy)
        structure_control_flow(copy, TOKENS, remove_unused)
        remove_unused(copy)
        placeholders_to_parameters(copy)
        return copy


def add_results(graph: Graph) -> None:
    """Add results to a graph without any: all outputs that no op uses."""
    if graph.results:
        return
    for op in graph:
        if not any(port.users for port in op.outputs):
            for port in op.outputs:
                name = f"{op.name}:{port.index}" if port.index else op.name
                graph.result(port, name)


def remove_noops(graph: Graph) -> None:
    """Remove ops that only order others: their users wait for what they waited for."""
    for op in list(graph):
        if op.type == "noop" and not any(port.users for port in op.outputs):
            for first in op.control_inputs:
                for then in op.control_outputs:
                    if first is not then and first not in then.control_inputs:
                        graph.control(first, then)
            graph.remove(op)


def placeholders_to_parameters(graph: Graph) -> None:
    """Replace placeholder ops by parameters of their names and types."""
    for op in list(graph):
        if op.type == "placeholder" and op.own_namespace is None:
            name = op.name
            port = graph.parameter(op.output.type)
            graph.replace(op, [port], "placeholder")
            port.name = name


def nd4j_side(name: str, imports: Mapping[str, int] | None = None) -> Nd4jHubSide:
    """The side of `amanda/nd4j/1`."""
    del imports
    return _cached_side(name)


@cache
def _cached_side(name: str) -> Nd4jHubSide:
    return Nd4jHubSide(name)
