"""What a program is made for: a graph in its own order, weights by their types.

Unlike `graph.digest()` this follows the order of ops, since weights and results are
passed in it, and leaves out what nothing is computed from: names, tags, notes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping

from amanda.graph import Graph, Op, OutputPort
from amanda.tensors import value_digest
from amanda_jax.weights import is_weight
from amanda_std.reading import is_constant

__all__ = ["structure"]


def structure(graph: Graph, on_host: Collection[OutputPort]) -> str | None:
    """A digest of a graph; None where it calls, or reads from, another graph.

    `on_host`: constants that are numbers of the program, whatever their size."""
    numbers: dict[OutputPort, int] = {
        port: i for i, port in enumerate(graph.parameters)
    }
    told = hashlib.sha256()
    for port in graph.parameters:
        told.update(f"{port.type};".encode())
    for op in graph:
        read = [*op.inputs, *(v for body in op.bodies.values() for v in body.captures)]
        if isinstance(op, Graph) or not all(v is None or v in numbers for v in read):
            return None
        for made in op.outputs:
            numbers[made] = len(numbers)
        for part in _parts(op, numbers, on_host):
            told.update(part)
            told.update(b";")
    if not all(v is None or v in numbers for v in graph.results):
        return None
    results = [None if v is None else numbers[v] for v in graph.results]
    told.update(repr(results).encode())
    return told.hexdigest()


def _parts(
    op: Op, numbers: Mapping[OutputPort, int], on_host: Collection[OutputPort]
) -> Iterator[bytes]:
    """What an op is, in this graph."""
    yield str(op.type).encode()
    yield ",".join(str(port.type) for port in op.outputs).encode()
    if is_constant(op) and is_weight(op) and op.output not in on_host:
        return
    for key in sorted(op.attrs) if op.has_attrs else ():
        content: list[bytes] = [key.encode()]
        value_digest(op.attrs[key], content.append)
        yield b"".join(content)
    yield repr([None if v is None else numbers[v] for v in op.inputs]).encode()
    for name, body in op.bodies.items():
        yield f"{name} {body.digest(content=True)}".encode()
        yield repr([numbers[port] for port in body.captures]).encode()
