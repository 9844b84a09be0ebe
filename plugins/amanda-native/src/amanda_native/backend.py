"""The backend `native`, whose devices are libraries, and the backend of one library."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from amanda.errors import AmandaError, BackendError, PluginIncompatibleError
from amanda_native.discovery import find_libraries, find_library

if TYPE_CHECKING:
    from amanda.backend import Executable
    from amanda.graph import Graph, Op
    from amanda_native.library import LibraryInfo

__all__ = ["Backend", "LibraryBackend"]

_STD = "amanda/std/1"
_ISOLATE = "isolate"
_TAKES_KEPT = 4096


class LibraryState(NamedTuple):
    """A row of `amanda backends --load`."""

    name: str
    state: str
    reason: str


class _Library(Protocol):
    """A library in this process, or in one of its own."""

    @property
    def info(self) -> LibraryInfo: ...

    def takes(self, text: str) -> Literal[True] | str: ...


class Backend:
    """Entry `native` of `amanda.backends`.

    Its devices are libraries, by name or path: `native:mine`, `native:./libmine.so`,
    `native:mine:gpu:0`. The option `isolate` runs a library in a process of its own.
    """

    name = "native"
    namespace = _STD

    def __init__(self) -> None:
        self._lock = Lock()
        self._backends: dict[Any, LibraryBackend] = {}

    def devices(self) -> Sequence[str]:
        """The libraries in the folders of AMANDA_NATIVE_PATH; none is loaded.

        PATH stands for the path of any other one."""
        return [*find_libraries(), "PATH"]

    def states(self) -> Iterator[LibraryState]:
        """Whether each library can be used, tried in a process of its own."""
        for name, path in find_libraries().items():
            backend = LibraryBackend(name, path, isolate=True)
            try:
                info = backend.library().info
            except AmandaError as error:
                is_old = isinstance(error, PluginIncompatibleError)
                state = "incompatible" if is_old else "broken"
                got = f": {error.got}" if error.got else ""
                yield LibraryState(name, state, f"{error.message}{got}")
                continue
            yield LibraryState(name, "usable", f"{info.library or info.name}, {path}")
            backend.close()

    def select(self, device: str | None, options: Mapping[str, Any]) -> LibraryBackend:
        """The backend of the library that a device names."""
        path, place = find_library(device)
        isolate = is_isolated(options)
        key = device, file_key(path), isolate
        with self._lock:
            found = self._backends.get(key)
            if found is None or found.is_closed:
                name = f"native:{device or path}"
                found = ChosenLibrary(name, path, place, isolate=isolate)
                self._backends[key] = found
        return found

    def takes(self, op: Op) -> Literal[True] | str:
        return self.select(None, {}).takes(op)

    def compile(
        self, graph: Graph, device: str | None, options: Mapping[str, Any]
    ) -> Executable:
        return self.select(device, options).compile(graph, device, options)


class LibraryBackend:
    """The backend of one library, loaded when it is first used.

    A distribution that contains a library has an entry point for such an object::

        BACKEND = LibraryBackend("mine", Path(__file__).with_name("libmine.so"))

    `device` is one of the library's; None is the first one.
    """

    def __init__(
        self,
        name: str,
        path: Path | str,
        device: str | None = None,
        *,
        isolate: bool = False,
    ) -> None:
        self.name = name
        self.path = Path(path)
        self._device = device
        self._isolate = isolate
        self._lock = Lock()
        self._loaded: Any = None
        self._takes = lru_cache(_TAKES_KEPT)(self._ask)

    @property
    def namespace(self) -> str:
        info: LibraryInfo = self.library().info
        return info.namespace

    def library(self) -> Any:
        """The library, loaded on the first call."""
        with self._lock:
            if self._loaded is None:
                self._loaded = self._load()
            return self._loaded

    def _load(self) -> Any:
        if self._isolate:
            from amanda_native.isolation.remote_library import RemoteLibrary

            return RemoteLibrary(self.path)
        from amanda_native.library import NativeLibrary

        return NativeLibrary(self.path)

    @property
    def is_closed(self) -> bool:
        """Whether the process of the library has ended."""
        return bool(getattr(self._loaded, "is_closed", False))

    def close(self) -> None:
        """End the process of the library, if it has one."""
        if self._isolate and self._loaded is not None:
            self._loaded.close()

    def devices(self) -> Sequence[str]:
        return list(self.library().info.devices)

    def select(self, device: str | None, options: Mapping[str, Any]) -> LibraryBackend:
        """This backend, or one that runs the library in a process of its own."""
        if is_isolated(options) == self._isolate:
            return self
        return LibraryBackend(self.name, self.path, device, isolate=not self._isolate)

    def takes(self, op: Op) -> Literal[True] | str:
        """True, or the library's reason why an op is not supported."""
        from amanda_native.graph_text import op_text

        if op.graph is None:
            return f"{op.label} is in no graph"
        return self._takes(op_text(op))

    def _ask(self, text: str) -> Literal[True] | str:
        library: _Library = self.library()
        return library.takes(text)

    def compile(
        self, graph: Graph, device: str | None, options: Mapping[str, Any]
    ) -> Executable:
        """Compile a graph; options but `isolate` are handed to the library."""
        from amanda_native.executable import GraphPorts, NativeExecutable
        from amanda_native.graph_text import graph_text

        library = self.library()
        place = self.find_device(device)
        typed = _infer_types(graph)
        text, weights = graph_text(typed)
        given = {key: value for key, value in options.items() if key != _ISOLATE}
        ports = GraphPorts.of(typed)
        if self._isolate:
            made: Executable = library.compile(place, text, weights, given, ports)
            return made
        address = library.compile(place, text, weights, given)
        return NativeExecutable(library, address, ports)

    def find_device(self, device: str | None) -> str:
        """The device of the library that is meant; None is the preferred one."""
        info: LibraryInfo = self.library().info
        place = device or self._device or info.devices[0]
        if place in info.devices:
            return place
        raise BackendError(
            f"the native library {info.name!r} has no device {place!r}",
            expected=f"one of {', '.join(info.devices)}",
            got=place,
        )


class ChosenLibrary(LibraryBackend):
    """A library that was chosen as a device of the backend `native`.

    The device of the choice is the library, and one of its devices after a colon."""

    def select(self, device: str | None, options: Mapping[str, Any]) -> LibraryBackend:
        del device, options
        return self

    def find_device(self, device: str | None) -> str:
        del device
        return super().find_device(None)


def _infer_types(graph: Graph) -> Graph:
    """A copy of a graph with types where they can be inferred."""
    from amanda_std.backends import infer

    typed = graph.clone()
    if typed.namespace == _STD:
        infer(typed)
    return typed


def is_isolated(options: Mapping[str, Any]) -> bool:
    wanted = options.get(_ISOLATE, False)
    if not isinstance(wanted, bool):
        raise BackendError(
            f"the option {_ISOLATE!r} is true or false", expected="true or false",
            got=repr(wanted),
        )  # fmt: skip
    return wanted


def file_key(path: Path) -> tuple[Any, ...]:
    """The identity of a file, which changes when it is built again."""
    if not path.exists():
        return (str(path),)
    facts = path.stat()
    return (str(path.resolve()), facts.st_ino, facts.st_mtime_ns)
