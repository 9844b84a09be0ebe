"""Random graphs with nested bodies, in which unsupported ops are planted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

import amanda
from amanda.graph import Graph, InputPort, OutputPort

__all__ = ["plant", "random_graph"]

UNARY = ("Relu", "Tanh", "Neg", "Abs", "Sigmoid", "Exp")
BINARY = ("Add", "Mul", "Sub", "Max")
TYPE = "float32[2, 3]"
FLOAT = amanda.types.float32


def random_graph(random: Random, depth: int = 2) -> Graph:
    """A graph of onnx@18 with branches and loops, nested up to a depth."""
    graph = Graph("amanda/onnx/18", name="random")
    values = [graph.parameter(amanda.parse_type(TYPE), name=name) for name in "xy"]
    inner = _nest(graph, values, random, depth) if depth else values[0]
    graph.result(_compute(graph, values, [inner], random, depth), "result")
    return graph


def _compute(
    graph: Graph,
    values: Sequence[OutputPort],
    unused: Sequence[OutputPort],
    random: Random,
    depth: int,
) -> OutputPort:
    """Some ops on `values` and `unused`, all of which the returned value depends on."""
    rest = [*unused, random.choice(values)]
    for _ in range(random.randint(2, 4)):
        known = [*values, *rest]
        if depth and random.random() < 0.3:
            rest.append(_nest(graph, known, random, depth))
        elif random.random() < 0.5:
            rest.append(graph.add(random.choice(UNARY), [rest.pop(0)]).output)
        else:
            pair = [random.choice(known), rest.pop(0)]
            rest.append(graph.add(random.choice(BINARY), pair).output)
    while len(rest) > 1:
        rest.append(graph.add("Add", [rest.pop(0), rest.pop(0)]).output)
    return rest[0]


def _nest(
    graph: Graph, values: Sequence[OutputPort], random: Random, depth: int
) -> OutputPort:
    nest = random.choice((_branches, _loop))
    return nest(graph, values, random, depth - 1)


def _branches(
    graph: Graph, values: Sequence[OutputPort], random: Random, depth: int
) -> OutputPort:
    total = graph.add("ReduceSum", [random.choice(values)], {"keepdims": 0})
    zero = graph.constant(amanda.Tensor.splat(amanda.types.float32, (), 0.0))
    condition = graph.add("Greater", [total.output, zero.output])
    bodies = {}
    for key in ("then_branch", "else_branch"):
        bodies[key] = body = Graph(outer=graph)
        body.result(_compute(body, values, [], random, depth))
    return graph.add("If", [condition.output], bodies=bodies).output


def _loop(
    graph: Graph, values: Sequence[OutputPort], random: Random, depth: int
) -> OutputPort:
    body = Graph(outer=graph)
    body.parameter(amanda.parse_type("int64[]"), name="i")
    more = body.parameter(amanda.parse_type("bool[]"), name="more")
    carried = body.parameter(amanda.parse_type(TYPE), name="carried")
    body.result(body.add("Identity", [more]).output)
    body.result(_compute(body, values, [carried], random, depth))
    times = graph.constant(amanda.Tensor.splat(amanda.types.int64, (), 3))
    start = random.choice(values)
    return graph.add("Loop", [times.output, None, start], bodies={"body": body}).output


def places(graph: Graph) -> Iterator[InputPort]:
    """Inputs of ops where a float tensor enters that is no constant."""
    for op in graph:
        for port in op.input_ports:
            source = port.source
            if source is None or source.op.is_constant:
                continue
            kind = source.type
            if isinstance(kind, amanda.TensorType) and kind.dtype == FLOAT:
                yield port


def plant(
    graph: Graph, types: Sequence[tuple[str, dict[str, object]]], random: Random
) -> list[str]:
    """Insert ops of these types between random ops and one user; returns their names.

    Bodies and functions are as likely as the root graph."""
    graphs = [part for part in graph.graphs() if any(places(part))]
    names = []
    for i, (type, attrs) in enumerate(types):
        part = random.choice(graphs)
        place = random.choice(list(places(part)))
        source = place.source
        op = part.add(type, [source], attrs, name=f"planted_{i}")
        op.output.type = source.type
        place.connect(op.output)
        names.append(f"planted_{i}")
    return names
