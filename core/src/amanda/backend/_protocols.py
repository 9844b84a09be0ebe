"""What backends and executables have to be, and what is asked of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, runtime_checkable

from amanda.dictionary import parse_span
from amanda.errors import NamespaceError

if TYPE_CHECKING:
    from amanda.graph import Graph, Op
    from amanda.types import Type

Key = str | int
"""What an input or output is called: its name, or its place where it has none."""


@runtime_checkable
class Executable(Protocol):
    """What a backend compiles to. Several threads may call it at once.

    One that keeps values from call to call has them as `state`, which is not None: it
    is then never shared between those who compile equal graphs.
    """

    def __call__(
        self, feeds: Mapping[Key, Any], out: Mapping[Key, Any] | None = None
    ) -> Mapping[Key, Any] | Sequence[Any]:
        """The results, by key or in the order of the graph's results.

        Every input is fed, under its key. `out` may hold arrays to write results to;
        who cannot ignores them, and they are filled afterwards.
        """


@runtime_checkable
class Backend(Protocol):
    """What entries of `amanda.backends` are.

    One that knows of devices that are not here may tell them: `states()` gives rows
    with a `name`, a `state` and a `reason`, for `amanda backends --load`.
    """

    name: str
    namespace: str
    """What it consumes: `amanda/std/1`, or a span such as `amanda/onnx/7..18`."""

    def devices(self) -> Sequence[str]:
        """The devices that can be used here, the default one first."""

    def takes(self, op: Op) -> Literal[True] | str:
        """True, or the reason why this op cannot be run."""

    def compile(
        self, graph: Graph, device: str | None, options: Mapping[str, Any]
    ) -> Executable:
        """The graph as something to call. The graph itself is left as it is."""


class FeedSlot(NamedTuple):
    """An input or an output of something compiled."""

    key: Key
    type: Type | None

    def __str__(self) -> str:
        return f"{self.key}: {self.type}" if self.type is not None else str(self.key)


def consumes(namespace: str, wanted: str) -> bool:
    """Is a graph of `namespace` one for a backend that consumes `wanted`?

    >>> consumes("amanda/onnx/13", "amanda/onnx/7..18")
    True
    """
    if namespace == wanted:
        return True
    try:
        name = parse_span(namespace).exact
        return name is not None and name in parse_span(wanted)
    except NamespaceError:
        return False


def refusals(graph: Graph, takes: Callable[[Op], object]) -> list[str]:
    """Every op that a backend does not take, with its reason, in all graphs inside.

    Constants are the core's, and taken by all. A graph that stands as an op is asked
    about like any other op.
    """
    from amanda.graph import CORE

    problems = []
    for op in graph.walk():
        if op.namespace == CORE:
            continue
        answer = takes(op)
        if answer is not True:
            reason = f": {answer}" if isinstance(answer, str) and answer else ""
            problems.append(f"{op.label}{reason}")
    return problems
