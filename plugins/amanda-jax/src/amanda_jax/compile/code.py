"""Base class of everything that a graph is compiled to, and what all of it shares."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from jax.tree import leaves

from amanda.backend import Implementation
from amanda.graph import Graph
from amanda_jax.compile.disk_cache import DiskCache
from amanda_jax.settings import Settings
from amanda_jax.weights.device_weights import DeviceWeights
from amanda_std.backends import RunContext

__all__ = [
    "BuildContext",
    "CodeDetails",
    "CompiledCode",
    "ReplaceableCode",
    "find_aliases",
]


class CodeDetails(NamedTuple):
    """What one part of the code contributes to the report of an executable."""

    decided_by: Sequence[str] = ()
    notes: Iterable[str] = ()
    python_driven: Sequence[str] = ()
    outside: Mapping[str, int] = {}
    dynamic_sizes: Mapping[str, int] = {}
    python_ops: int = 0
    buckets: Mapping[str, int] = {}


class CompiledCode(ABC):
    """Runs a graph: one program, several for different data, or pieces of both.

    Code that consists of other code lists it in `children`; the rest of the interface
    is derived from that, unless a subclass overrides it.
    """

    compilations: int = 0
    """How many times this code itself, without its children, was compiled."""
    _aliases: frozenset[int] = frozenset()

    @abstractmethod
    def __call__(self, args: Iterable[Any]) -> Sequence[Any]:
        """Run with arrays in the order of the inputs; return the results in order."""

    def children(self) -> Sequence[CompiledCode]:
        """The code that this code calls."""
        return ()

    def walk(self) -> Iterator[CompiledCode]:
        """This code and all code below it."""
        yield self
        for child in self.children():
            yield from child.walk()

    @property
    def program_count(self) -> int:
        """How many programs one call runs."""
        return sum(child.program_count for child in self.children())

    @property
    def aliased_results(self) -> frozenset[int]:
        """Indices of results that are an input, or another result, unchanged."""
        return self._aliases

    @property
    def direct_call(self) -> Any:
        """A function of the arrays that does the same without overhead, or None."""
        return None

    def implementations(self) -> Iterable[Implementation]:
        """What each op of this code itself, without its children, calls."""
        return ()

    @property
    def details(self) -> CodeDetails:
        """What this code itself, without its children, contributes to the report."""
        return CodeDetails()


class ReplaceableCode(CompiledCode):
    """A program that other code replaces once XLA turns out not to support it."""

    _replacement: CompiledCode | None = None

    def children(self) -> Sequence[CompiledCode]:
        return () if self._replacement is None else (self._replacement,)

    @property
    def program_count(self) -> int:
        return 1 if self._replacement is None else super().program_count

    @property
    def aliased_results(self) -> frozenset[int]:
        code = self._replacement
        return self._aliases if code is None else code.aliased_results


class BuildContext(NamedTuple):
    """What all code of an executable shares."""

    weights: DeviceWeights
    settings: Settings
    state: RunContext
    compile_graph: Callable[..., CompiledCode]
    """`partition.compile_graph`, for graphs that are parts of the compiled one."""
    cache: DiskCache | None = None
    """The disk cache of compiled programs, if there is one."""

    def compile(self, graph: Graph, *more: Any) -> CompiledCode:
        """Compile a graph that is a part of the one that is being compiled."""
        return self.compile_graph(graph, self, *more)

    @property
    def without_donation(self) -> BuildContext:
        """For pieces: no input is overwritten, since other pieces may read it."""
        return self._replace(settings=self.settings._replace(donate=()))

    @property
    def without_exact_sizes(self) -> BuildContext:
        """For what serves any size from the first call on."""
        return self._replace(settings=self.settings._replace(specializations=0))


def find_aliases(results: Sequence[Any], args: Sequence[Any]) -> frozenset[int]:
    """Indices of results that are, or contain, an argument or another result."""
    seen = {id(a) for a in leaves(args)}
    found = set()
    for i, result in enumerate(results):
        for leaf in leaves(result):
            if id(leaf) in seen:
                found.add(i)
            seen.add(id(leaf))
    return frozenset(found)
