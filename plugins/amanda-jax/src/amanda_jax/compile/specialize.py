"""Graphs where data decides shapes: a program for each value of these data.

Where a host argument comes from data, it is computed first, by a program of its own,
and the graph is compiled for its value. The programs for the values met last are kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from threading import Lock
from typing import Any

import numpy as np

from amanda.graph import Graph, OutputPort, Parameter
from amanda.tensors import Tensor
from amanda_jax.compile.code import Build, Code, Told

__all__ = ["Special", "called"]

Call = Callable[[Sequence[Any]], Any]


class Special:
    """Called like a program; asks for the values, and calls the one made for them."""

    def __init__(
        self,
        graph: Graph,
        data: Sequence[OutputPort],
        build: Build,
        code_of: Callable[[Graph, Build], Code],
    ) -> None:
        self._graph = graph
        self._data = data
        self._build = build
        self._code_of = code_of
        self._made: OrderedDict[Any, Code] = OrderedDict()
        self._lock = Lock()
        self._forgotten = 0
        self._asking: list[Code] = []
        self._askers = [self._asker(port) for port in data]
        self.copied: frozenset[int] = frozenset()
        self._told = Told(decided_by=tuple(map(called, data)))

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
        code = self._code_of(part, self._build.keeping)
        self._asking.append(code)
        return lambda args: code([args[i] for i in places])[0]

    def __call__(self, args: Iterable[Any]) -> Sequence[Any]:
        args = [*args]
        values = [self._build.weights.read(ask(args)) for ask in self._askers]
        program = self._program(values)
        made = program(args)
        if not program.copied <= self.copied:
            self.copied |= program.copied
        return made

    def _program(self, values: Sequence[Any]) -> Code:
        key = tuple((v.dtype.str, v.shape, v.tobytes()) for v in values)
        with self._lock:
            found = self._made.get(key)
            if found is None:
                found = self._made[key] = self._made_for(values)
                if len(self._made) > self._build.settings.programs:
                    _, old = self._made.popitem(last=False)
                    self._forgotten += sum(p.compilations for p in old.parts())
            else:
                self._made.move_to_end(key)
            return found

    def _made_for(self, values: Sequence[Any]) -> Code:
        """The graph with these values in place of what data decided."""
        memo: dict[Any, Any] = {}
        graph = self._graph.clone(memo=memo)
        with graph.before(next(iter(graph), None)):
            for port, value in zip(self._data, values, strict=True):
                fixed = graph.constant(Tensor.of(np.array(value))).output
                fixed.type = fixed.op.attrs["value"].type_with_content()
                graph.replace_uses(memo[port], fixed)
        return self._code_of(graph, self._build)

    @property
    def told(self) -> Told:
        return self._told

    @property
    def compilations(self) -> int:
        """Of programs that are forgotten."""
        return self._forgotten

    @property
    def pieces(self) -> int:
        with self._lock:
            made = [code.pieces for code in self._made.values()]
        return sum(code.pieces for code in self._asking) + max(made, default=1)

    def parts(self) -> Iterator[Code]:
        """Those that are kept, and those that ask, too."""
        yield self
        with self._lock:
            codes = [*self._asking, *self._made.values()]
        for code in codes:
            yield from code.parts()


def called(port: OutputPort) -> str:
    """What people call a value."""
    if type(port) is Parameter:
        return f"input {port.index if port.name is None else repr(port.name)}"
    return repr(port.name) if port.name else str(port.op.label)
