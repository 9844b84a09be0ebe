"""Finding values of an executable by handles on the original graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from amanda.backend._protocols import Key
from amanda.errors import AmandaError, GoneError, UsageError

if TYPE_CHECKING:
    from amanda.backend._compiled import Compiled
    from amanda.graph import Graph, OutputPort

__all__ = ["ValueLookup"]


class ValueLookup:
    """Computes the value of a handle for given feeds.

    The handle is followed to where its value is now. Its graph must have the structure
    of the compiled one, before or after conversion. The value is computed by a separate
    executable of the ops that it needs, so no run has to store intermediate values.
    """

    def __init__(
        self,
        digests: tuple[str, str],
        bring: Callable[[Graph], Graph],
        compile: Callable[[Graph], Compiled],
    ) -> None:
        self._digests = digests
        """Digests of the original graph, and of the converted one."""
        self._bring = bring
        self._compile = compile
        self._parts: dict[OutputPort, tuple[list[Any], Compiled]] = {}

    def __call__(self, port: OutputPort, feeds: Mapping[Key, Any]) -> Any:
        now = port.resolve()
        if now not in self._parts:
            self._parts[now] = self._part(port, now)
        keys, compiled = self._parts[now]
        missing = [key for key in keys if key not in feeds]
        if missing:
            raise _lookup_error(
                port, f"it reads the input {missing[0]!r}, which was not compiled"
            )
        return next(iter(compiled([feeds[key] for key in keys]).values()))

    def _part(self, port: OutputPort, now: OutputPort) -> tuple[list[Any], Compiled]:
        graph = now.graph
        if graph is None:
            raise GoneError(f"the value {port} is in no graph any more", who="a handle")
        if graph.holder is not None or graph.graph is not None:
            raise _lookup_error(
                port,
                f"it is inside {graph.label}, which may run any number of times",
                hint="make it a result of what holds it, or put a probe on it",
            )
        if not self.is_compiled(graph):
            raise _lookup_error(
                port,
                "its graph is another one, or was changed since it was compiled",
                hint="compile the graph as it is now",
            )
        memo: dict[Any, Any] = {}
        part = graph.clone([now], memo=memo)
        twins = {memo[p]: p for p in graph.parameters if p in memo}
        keys = [
            twins[p].index if twins[p].name is None else twins[p].name
            for p in part.parameters
        ]
        compiled = self._compile(part)
        if compiled.executable_attribute("state") is not None:
            raise _lookup_error(
                port,
                "it depends on variables, which have other values now",
                hint="make it a result, or put a probe on it",
            )
        return keys, compiled

    def is_compiled(self, graph: Graph) -> bool:
        """Whether a graph has the structure of the compiled one."""
        if graph.digest() in self._digests:
            return True
        try:
            return self._bring(graph).digest() == self._digests[1]
        except AmandaError:
            return False  # the compiled graph could be converted


def _lookup_error(port: OutputPort, why: str, hint: str | None = None) -> UsageError:
    return UsageError(
        f"the handle {port} has no value in this executable", got=why, hint=hint
    )
