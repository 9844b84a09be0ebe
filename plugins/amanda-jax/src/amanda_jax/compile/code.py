"""What a graph becomes: something called with arrays, and what it tells of itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from jax.tree import leaves

from amanda_jax.compile.disk_cache import Kept
from amanda_jax.settings import Settings
from amanda_jax.weights.device_weights import Weights
from amanda_std.backends import RunContext

__all__ = ["Build", "Code", "Told", "copied"]


class Code(Protocol):
    """A program, several for values of data, or pieces of both."""

    @property
    def copied(self) -> frozenset[int]:
        """Results that are an input or another result as it is."""

    @property
    def quick(self) -> Any:
        """A function without anything around it, where nothing is needed around."""

    @property
    def pieces(self) -> int:
        """How many programs one call runs."""

    @property
    def compilations(self) -> int:
        """How many times this code itself, not a part, was compiled."""

    @property
    def told(self) -> Told:
        """What this code itself, not a part, has to tell."""

    def __call__(self, args: Iterable[Any]) -> Sequence[Any]:
        """Arrays in the order of the inputs; gives arrays in that of the results."""

    def parts(self) -> Iterator[Code]:
        """This code and all that it is made of."""


class Told(NamedTuple):
    """What a report says of a part."""

    decided_by: Sequence[str] = ()
    notes: Iterable[str] = ()
    driven: Sequence[str] = ()
    outside: Mapping[str, int] = {}
    sized: Mapping[str, int] = {}
    buckets: Mapping[str, int] = {}


class Build(NamedTuple):
    """What all code of an executable shares."""

    weights: Weights
    settings: Settings
    around: RunContext
    kept: Kept | None = None
    """Where compiled programs are kept, if they are."""

    @property
    def keeping(self) -> Build:
        """For a part: nothing that is fed is written over, as other parts read it."""
        return self._replace(settings=self.settings._replace(donate=()))


def copied(results: Sequence[Any], args: Sequence[Any]) -> frozenset[int]:
    """The results that are an input, or another result, as it is; or hold one."""
    seen = {id(a) for a in leaves(args)}
    found = set()
    for i, result in enumerate(results):
        for each in leaves(result):
            if id(each) in seen:
                found.add(i)
            seen.add(id(each))
    return frozenset(found)
