"""Digest of the structure of a graph: its ops in order, weights by their types alone.

Unlike `graph.digest()` it follows the order of ops, since weights and results are
passed in that order, and leaves out what no result is computed from: names, tags,
notes. Every value has one number, in bodies as well, so that a captured value is
identified by its number and not by its name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator

from amanda.graph import Graph, Op, OutputPort
from amanda.tensors import value_digest
from amanda_jax.weights.device_weights import is_weight
from amanda_std.backends import BODY, find_function, is_std, operation_of

__all__ = ["body_digest", "structure_digest"]


def structure_digest(graph: Graph, static: Collection[OutputPort]) -> str | None:
    """A digest of a graph, or None if it reads values of another graph.

    `static`: constants that are numbers of the program, whatever their size. Programs
    of graphs with equal digests differ in nothing but their weights."""
    weights = {op for op in graph if is_weight(op) and op.output not in static}
    try:
        return _digest(_StructureEncoder(weights).graph(graph))
    except _ForeignValueError:
        return None


def body_digest(body: Graph) -> str:
    """A digest of a body, wherever it is: captured values are numbered in the order of
    their use, and constants count by their types."""
    constants = {op for op in body.walk() if op.is_constant}
    return _digest(_StructureEncoder(constants, accept_captures=True).graph(body))


class _ForeignValueError(Exception):
    """A value belongs to a graph that is not encoded."""


def _digest(parts: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(b"%d:" % len(part))
        digest.update(part)
    return digest.hexdigest()


class _StructureEncoder:
    """Encodes a graph as a sequence of parts, each of which begins with its kind.

    `by_type`: constants that only count by their type. `accept_captures`: number the
    values of other graphs, instead of raising an error."""

    def __init__(self, by_type: Collection[Op], accept_captures: bool = False) -> None:
        self._by_type = by_type
        self._accept_captures = accept_captures
        self._numbers: dict[OutputPort, int] = {}
        self._functions: dict[Graph, int] = {}

    def graph(self, graph: Graph) -> Iterator[bytes]:
        for port in graph.parameters:
            yield self._definition(port)
        for op in graph:
            yield from self._op(op)
        yield b"results " + self._uses(graph.results)

    def _op(self, op: Op) -> Iterator[bytes]:
        if isinstance(op, Graph):
            yield b"graph " + self._uses(op.inputs)
            yield from self.graph(op)
        else:
            yield f"op {op.type} ".encode() + self._uses(op.inputs)
            yield from self._attributes(op)
            for name in sorted(op.bodies):
                yield b"body " + name.encode()
                yield from self.graph(op.bodies[name])
            yield from self._function_bodies(op)
        for port in op.outputs:
            yield self._definition(port)

    def _attributes(self, op: Op) -> Iterator[bytes]:
        if not op.has_attrs or op in self._by_type:
            return
        for key in sorted(op.attrs):
            content = [f"attribute {key} ".encode()]
            value_digest(op.attrs[key], content.append)
            yield b"".join(content)

    def _function_bodies(self, op: Op) -> Iterator[bytes]:
        """Functions of the root that are bodies of an op; the content of each once."""
        if not op.has_attrs or not is_std(op):
            return
        for param in operation_of(op).form.params:
            if param.role != BODY or param.name not in op.attrs:
                continue
            function = find_function(op.graph, op.attrs[param.name])
            is_known = function in self._functions
            number = self._functions.setdefault(function, len(self._functions))
            yield f"function {param.name} {number}".encode()
            if not is_known:
                yield from self.graph(function)

    def _definition(self, port: OutputPort) -> bytes:
        self._numbers.setdefault(port, len(self._numbers))
        return f"makes {port.type}".encode()

    def _uses(self, values: Iterable[OutputPort | None]) -> bytes:
        return repr([None if v is None else self._number(v) for v in values]).encode()

    def _number(self, value: OutputPort) -> int:
        if not self._accept_captures and value not in self._numbers:
            raise _ForeignValueError
        return self._numbers.setdefault(value, len(self._numbers))
