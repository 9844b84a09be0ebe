"""Graphs where data decides shapes: a program for each value of these data.

Where a host argument comes from data, it is computed first, by a program of its own,
and the graph is compiled for its value. The programs for the values met last are kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from threading import Lock
from typing import Any

import numpy as np

from amanda.graph import Graph, OutputPort, Parameter
from amanda.tensors import Tensor
from amanda_jax.following import followed
from amanda_jax.program import Program
from amanda_jax.settings import Settings
from amanda_jax.weights import Weights

__all__ = ["Special", "code_of"]

Call = Callable[[Sequence[Any]], Any]


def code_of(graph: Graph, weights: Weights, settings: Settings) -> Program | Special:
    """What runs a graph that is `prepared`."""
    found = followed(graph)
    if found.data:
        return Special(graph, found.data, weights, settings)
    return Program(graph, found.constants, weights, settings)


class Special:
    """Called like a program; asks for the values, and calls the one made for them."""

    def __init__(
        self,
        graph: Graph,
        data: Sequence[OutputPort],
        weights: Weights,
        settings: Settings,
    ) -> None:
        self._graph = graph
        self._data = data
        self._weights = weights
        self._settings = settings
        self._made: OrderedDict[Any, Program | Special] = OrderedDict()
        self._lock = Lock()
        self._forgotten = 0
        self._asking: list[Program | Special] = []
        self._askers = [self._asker(port) for port in data]
        self.copied: frozenset[int] = frozenset()
        self.decided_by = tuple(map(_called, data))

    quick = None

    def _asker(self, port: OutputPort) -> Call:
        """What tells the value of a port, from what is fed."""
        if type(port) is Parameter:
            return itemgetter(port.index)
        memo: dict[Any, Any] = {}
        part = self._graph.clone([port], memo=memo)
        given = set(part.parameters)
        pairs = enumerate(self._graph.parameters)
        places = [i for i, parameter in pairs if memo.get(parameter) in given]
        code = code_of(part, self._weights, self._settings)
        self._asking.append(code)
        return lambda args: code([args[i] for i in places])[0]

    def __call__(self, feeds: Iterable[Any]) -> Sequence[Any]:
        args = [*feeds]
        values = [np.asarray(ask(args)) for ask in self._askers]
        program = self._program(values)
        made = program(args)
        if not program.copied <= self.copied:
            self.copied |= program.copied
        return made

    def _program(self, values: Sequence[Any]) -> Program | Special:
        key = tuple((v.dtype.str, v.shape, v.tobytes()) for v in values)
        with self._lock:
            found = self._made.get(key)
            if found is None:
                found = self._made[key] = self._made_for(values)
                if len(self._made) > self._settings.programs:
                    _, old = self._made.popitem(last=False)
                    self._forgotten += old.compilations
            else:
                self._made.move_to_end(key)
            return found

    def _made_for(self, values: Sequence[Any]) -> Program | Special:
        """The graph with these values in place of what data decided."""
        memo: dict[Any, Any] = {}
        graph = self._graph.clone(memo=memo)
        with graph.before(next(iter(graph), None)):
            for port, value in zip(self._data, values, strict=True):
                fixed = graph.constant(Tensor.of(np.array(value))).output
                fixed.type = fixed.op.attrs["value"].type_with_content()
                graph.replace_uses(memo[port], fixed)
        return code_of(graph, self._weights, self._settings)

    def programs(self) -> list[Program]:
        """Those that are kept, and those that ask."""
        with self._lock:
            codes = [*self._asking, *self._made.values()]
        return [program for code in codes for program in code.programs()]

    @property
    def compilations(self) -> int:
        return self._forgotten + sum(p.compilations for p in self.programs())


def _called(port: OutputPort) -> str:
    if type(port) is Parameter:
        return f"input {port.index if port.name is None else repr(port.name)}"
    return repr(port.name) if port.name else str(port.op.label)
