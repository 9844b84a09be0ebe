"""Pieces that are alike: one program, called with the weights of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from amanda.graph import Graph
from amanda_jax.compile.block_reuse import likeness
from amanda_jax.compile.code import Build, Code, Told
from amanda_jax.compile.jitted_program import Program, UntraceableError
from amanda_jax.shapes.static_values import followed
from amanda_jax.weights.device_weights import Held
from amanda_std.backends import StepRunner as Steps

__all__ = ["Alike"]


class Alike:
    """Programs by what they have in common."""

    def __init__(self, build: Build, code_of: Callable[..., Code]) -> None:
        self._build = build
        self._code_of = code_of
        self._programs: dict[Any, Program] = {}

    def code(self, graph: Graph) -> Code:
        """A program for a piece, its own or that of one before."""
        key = likeness(graph)
        if key is None:
            return self._code_of(graph, self._build)
        program = self._programs.get(key)
        if program is not None:
            return _Again(program, graph, self._build, self._code_of)
        constants = followed(graph).constants
        program = Program(graph, constants, self._build, self._code_of)
        self._programs[key] = program
        return program


class _Again:
    """A program once more, with other weights."""

    quick = None
    compilations = 0
    told = Told()

    def __init__(
        self, program: Program, graph: Graph, build: Build, code_of: Callable[..., Code]
    ) -> None:
        self._program = program
        self._graph = graph
        self._build = build
        self._code_of = code_of
        self._own: Code | None = None
        constants = followed(graph).constants
        self._held = Held(graph, Steps(graph), build.weights, constants)

    def __call__(self, args: Iterable[Any]) -> Sequence[Any]:
        if self._own is None and not self._program.is_used:
            self._own = self._code_of(self._graph, self._build)
        if self._own is not None:
            return self._own(args)
        given = [*args]
        try:
            return self._program.called(self._held, given)
        except UntraceableError:
            self._own = self._code_of(self._graph, self._build)
            return self._own(given)

    @property
    def copied(self) -> frozenset[int]:
        return self._program.copied if self._own is None else self._own.copied

    @property
    def pieces(self) -> int:
        return 1 if self._own is None else self._own.pieces

    def parts(self) -> Iterator[Code]:
        yield self
        if self._own is not None:
            yield from self._own.parts()
