"""A graph in pieces: programs of XLA, and between them what only the host can do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax

from amanda.backend import partition
from amanda.graph import Graph, Op, OutputPort
from amanda_jax.compile.code import Build, Code, Told, copied
from amanda_jax.compile.python_ops import Outside
from amanda_jax.compile.shared_program import Alike

__all__ = ["Pieces"]

XLA, HOST = "xla", "host"


class _Row(NamedTuple):
    """A piece, the places of what it reads and gives, and those then empty."""

    code: Code
    reads: tuple[int, ...]
    gives: tuple[int, ...]
    drop: tuple[int, ...]


class Pieces:
    """Called like a program: one piece after the other, on one device."""

    quick = None
    compilations = 0
    told = Told()

    def __init__(
        self,
        graph: Graph,
        build: Build,
        outside: Mapping[Op, str],
        later: Mapping[Op, Sequence[OutputPort]],
        free: Callable[[Op], bool],
        code_of: Callable[[Graph, Build], Code],
        block_of: Mapping[Op, int] | None = None,
    ) -> None:
        build = build.keeping
        numbers = block_of or {}
        found = partition(
            graph,
            lambda op: HOST if op in outside else numbers.get(op, XLA),
            copied=free,
            later=later,
        )
        alike = Alike(build, code_of)
        places: dict[OutputPort, int] = {p: i for i, p in enumerate(graph.parameters)}
        self._inputs = len(places)
        self._put = build.weights.put
        codes: list[tuple[Code, tuple[int, ...], tuple[int, ...]]] = []
        for piece in found:
            for port in piece.gives:
                places[port] = len(places)
            code: Code
            if piece.who == HOST:
                reasons = [outside[op] for op in piece.ops if op in outside]
                code = Outside(piece.graph, build, reasons, code_of)
            elif piece.who == XLA:
                code = code_of(piece.graph, build)
            else:
                code = alike.code(piece.graph)
            reads, gives = (
                tuple(places[v] for v in side) for side in (piece.reads, piece.gives)
            )
            codes.append((code, reads, gives))
        self._results = [_result(value, places) for value in graph.results]
        self._rows = _dropping(codes, {r for r in self._results if type(r) is int})
        self._count = len(places)
        self.copied: frozenset[int] = frozenset()

    def __call__(self, args: Iterable[Any]) -> Sequence[Any]:
        given = [*args]
        values: list[Any] = [*given, *[None] * (self._count - self._inputs)]
        for code, reads, gives, drop in self._rows:
            made = code([values[place] for place in reads])
            for place, value in zip(gives, made, strict=True):
                values[place] = value
            for place in drop:
                values[place] = None
        results = [values[r] if type(r) is int else r for r in self._results]
        self.copied |= copied(results, given)
        return [self._on_device(result) for result in results]

    def _on_device(self, result: Any) -> Any:
        if isinstance(result, jax.Array):
            return result
        if result is None or isinstance(result, list | tuple):
            return jax.tree.map(self._on_device, result)
        return self._put(result)

    @property
    def pieces(self) -> int:
        return sum(row.code.pieces for row in self._rows)

    def parts(self) -> Iterator[Code]:
        yield self
        for row in self._rows:
            yield from row.code.parts()


def _result(value: OutputPort | None, places: Mapping[OutputPort, int]) -> Any:
    """The place of a result, or the constant that it is."""
    if value is None or value in places:
        return None if value is None else places[value]
    assert value.op.is_constant
    return value.op.attrs["value"].numpy()


def _dropping(
    rows: Sequence[tuple[Code, tuple[int, ...], tuple[int, ...]]], kept: set[int]
) -> list[_Row]:
    """The rows, each with the places that nobody reads after it."""
    last: dict[int, int] = {}
    for i, (_, reads, gives) in enumerate(rows):
        last.update(dict.fromkeys((*reads, *gives), i))
    dying: list[list[int]] = [[] for _ in rows]
    for place, i in last.items():
        if place not in kept:
            dying[i].append(place)
    return [_Row(*row, tuple(drop)) for row, drop in zip(rows, dying, strict=True)]
