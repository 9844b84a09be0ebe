"""Backends as the core calls them: faults name the plug-in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from amanda.current_host import Plugin, PluginCall
from amanda.dictionary import parse_span
from amanda.errors import (
    AmandaError,
    BackendError,
    NamespaceError,
    PluginBrokenError,
)

if TYPE_CHECKING:
    from amanda.backend._implementations import Implementation
    from amanda.backend._protocols import (
        Backend,
        DynamicSize,
        Executable,
        PrecisionChange,
    )
    from amanda.dictionary import OpDef, Span
    from amanda.graph import Graph, Op

__all__ = ["GuardedBackend"]


class GuardedBackend:
    """A backend, whose exceptions and invalid answers become errors that name it."""

    def __init__(self, backend: Backend, plugin: Plugin, host: Any = None) -> None:
        self.backend = backend
        self.plugin = plugin
        self._host = host

    @property
    def namespace(self) -> str:
        """The namespace that it consumes, or a span of them."""
        return str(self.backend.namespace)

    @property
    def span(self) -> Span:
        """The namespaces that it consumes."""
        try:
            return parse_span(self.namespace)
        except NamespaceError as error:
            raise PluginBrokenError(
                f"{self.plugin.what} consumes an invalid namespace", got=error.message
            ) from error

    def calling(
        self, doing: str, error: type[AmandaError] = PluginBrokenError
    ) -> PluginCall[Any]:
        """A context for code of the backend."""
        return PluginCall(self._host, self.plugin, doing, error)

    def select(self, device: str | None, options: Mapping[str, Any]) -> GuardedBackend:
        """The backend of a device, where devices are backends of their own."""
        select: Any = getattr(self.backend, "select", None)
        if select is None:
            return self
        with self.calling(f"selecting the device {device!r}", BackendError):
            return GuardedBackend(select(device, options), self.plugin, self._host)

    def devices(self) -> list[str]:
        with self.calling("listing its devices"):
            return [str(device) for device in self.backend.devices()]

    def states(self) -> list[dict[str, str]]:
        """The name, state and reason of each device, where it reports them."""
        with self.calling("listing the states of its devices"):
            rows: Iterable[Any] = getattr(self.backend, "states", tuple)()
            keys = ("name", "state", "reason")
            return [{key: str(getattr(row, key)) for key in keys} for row in rows]

    def implementations(self, definition: OpDef) -> list[Implementation] | None:
        """The implementations of ops of this definition, if it reports them."""
        with self.calling("listing implementations"):
            list_them = getattr(self.backend, "implementations", None)
            return None if list_them is None else list(list_them(definition))

    def takes(self, op: Op) -> bool | str:
        """True, or the reason why an op is not supported, or False without one."""
        with self.calling("asked what it takes"):
            answer: object = self.backend.takes(op)
        return answer if isinstance(answer, str) else answer is True

    def dynamic_sizes(self, graph: Graph) -> list[DynamicSize] | None:
        """The sizes that are not known when a graph is compiled, if it lists them."""
        with self.calling("listing dynamic sizes"):
            list_them = getattr(self.backend, "dynamic_sizes", None)
            return None if list_them is None else list(list_them(graph))

    def precision_changes(self, graph: Graph) -> list[PrecisionChange]:
        """The dtypes in which it does not compute, where it lists them."""
        with self.calling("listing changes of precision"):
            list_them = getattr(self.backend, "precision_changes", None)
            return [] if list_them is None else list(list_them(graph))

    def prepare(self, graph: Graph) -> Graph:
        """A graph in the backend's namespace as it can be compiled."""
        prepare: Any = getattr(self.backend, "prepare", None)
        if prepare is None:
            return graph
        with self.calling("preparing a graph", BackendError):
            return prepare(graph)  # type: ignore[no-any-return]

    def compile(
        self, graph: Graph, device: str | None, options: Mapping[str, Any]
    ) -> Executable:
        with self.calling("compiling", BackendError):
            executable: Any = self.backend.compile(graph, device, dict(options))
        if not callable(executable):
            raise PluginBrokenError(
                f"{self.plugin.what} did not return an executable",
                got=type(executable).__name__,
            )
        return executable  # type: ignore[no-any-return]
