"""What a program is made for: a graph in its own order, weights by their types.

Unlike `graph.digest()` this follows the order of ops, since weights and results are
passed in it, and leaves out what nothing is computed from: names, tags, notes. Every
value has one number, in bodies as well: what a body reads from around it is told by
that, and not by what it is called.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator

from amanda.graph import Graph, Op, OutputPort
from amanda.tensors import value_digest
from amanda_jax.weights.device_weights import is_weight
from amanda_std.backends import BODY, find_function, is_std, operation_of

__all__ = ["alone", "structure"]


def structure(graph: Graph, on_host: Collection[OutputPort]) -> str | None:
    """A digest of a graph; None where it reads from another graph.

    `on_host`: constants that are numbers of the program, whatever their size."""
    weights = {op for op in graph if is_weight(op) and op.output not in on_host}
    try:
        return _digest(_Telling(weights).graph(graph))
    except _ElsewhereError:
        return None


def alone(body: Graph) -> str:
    """A digest of a body wherever it stands: what it reads from around is numbered as
    it comes, and constants are told by their types."""
    constants = {op for op in body.walk() if op.is_constant}
    return _digest(_Telling(constants, is_open=True).graph(body))


class _ElsewhereError(Exception):
    """A value is of no graph that was met."""


def _digest(parts: Iterable[bytes]) -> str:
    told = hashlib.sha256()
    for part in parts:
        told.update(b"%d:" % len(part))
        told.update(part)
    return told.hexdigest()


class _Telling:
    """What a graph is, part by part; what a part is about, its beginning tells.

    `by_type`: constants of which the type is told alone. `is_open`: values of other
    graphs are numbered, instead of being an error."""

    def __init__(self, by_type: Collection[Op], is_open: bool = False) -> None:
        self._by_type = by_type
        self._is_open = is_open
        self._numbers: dict[OutputPort, int] = {}
        self._functions: dict[Graph, int] = {}

    def graph(self, graph: Graph) -> Iterator[bytes]:
        for port in graph.parameters:
            yield self._made(port)
        for op in graph:
            yield from self._op(op)
        yield b"results " + self._read(graph.results)

    def _op(self, op: Op) -> Iterator[bytes]:
        if isinstance(op, Graph):
            yield b"graph " + self._read(op.inputs)
            yield from self.graph(op)
        else:
            yield f"op {op.type} ".encode() + self._read(op.inputs)
            yield from self._attributes(op)
            for name in sorted(op.bodies):
                yield b"body " + name.encode()
                yield from self.graph(op.bodies[name])
            yield from self._called(op)
        for port in op.outputs:
            yield self._made(port)

    def _attributes(self, op: Op) -> Iterator[bytes]:
        if not op.has_attrs or op in self._by_type:
            return
        for key in sorted(op.attrs):
            content = [f"attribute {key} ".encode()]
            value_digest(op.attrs[key], content.append)
            yield b"".join(content)

    def _called(self, op: Op) -> Iterator[bytes]:
        """Functions of the root that are bodies of an op: what they are, once."""
        if not op.has_attrs or not is_std(op):
            return
        for param in operation_of(op).form.params:
            if param.role != BODY or param.name not in op.attrs:
                continue
            function = find_function(op.graph, op.attrs[param.name])
            known = function in self._functions
            number = self._functions.setdefault(function, len(self._functions))
            yield f"function {param.name} {number}".encode()
            if not known:
                yield from self.graph(function)

    def _made(self, port: OutputPort) -> bytes:
        self._numbers.setdefault(port, len(self._numbers))
        return f"makes {port.type}".encode()

    def _read(self, values: Iterable[OutputPort | None]) -> bytes:
        return repr([None if v is None else self._number(v) for v in values]).encode()

    def _number(self, value: OutputPort) -> int:
        if not self._is_open and value not in self._numbers:
            raise _ElsewhereError
        return self._numbers.setdefault(value, len(self._numbers))
