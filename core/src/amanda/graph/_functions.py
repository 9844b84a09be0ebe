"""The functions of a root graph, some of which are read on first use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import RLock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amanda.graph._graph import Graph


class FunctionTable(dict[str, Any]):
    """Functions by name; a deferred one is built when it is first looked up."""

    __slots__ = ("_lock", "_root", "readers")

    def __init__(self, functions: dict[str, Graph], root: Graph) -> None:
        super().__init__(functions)
        self.readers: dict[str, Callable[[], Graph]] = {}
        self._root = root
        self._lock = RLock()

    def defer(self, name: str, read: Callable[[], Graph]) -> None:
        """Add a function that `read` returns when it is first needed."""
        self.readers[name] = read
        super().__setitem__(name, None)

    def known_functions(self) -> Iterator[Graph]:
        """The functions that need not be read."""
        return iter([each for each in super().values() if each is not None])

    def __getitem__(self, name: str, /) -> Graph:
        found = super().__getitem__(name)
        return self._read(name) if found is None else found

    def _read(self, name: str) -> Graph:
        with self._lock:  # of several threads, the first reads it
            found: Graph | None = super().__getitem__(name)
            if found is None:
                found = self.readers[name]()
                found.owner = self._root
                super().__setitem__(name, found)
                del self.readers[name]
            return found

    def get(self, name: str, default: Any = None, /) -> Any:
        return self[name] if name in self else default  # noqa: SIM401

    def pop(self, name: str, /) -> Graph:  # type: ignore[override]
        found = self[name]
        del self[name]
        return found

    def values(self) -> Any:
        return [self[name] for name in self]

    def items(self) -> Any:
        return [(name, self[name]) for name in self]

    def copy(self) -> dict[str, Any]:
        return dict(self.items())

    def __eq__(self, other: object) -> bool:
        return self.copy() == other

    __hash__ = None


def known_functions(functions: dict[str, Graph]) -> Iterator[Graph]:
    """The functions that are no deferred ones."""
    if isinstance(functions, FunctionTable):
        return functions.known_functions()
    return iter(functions.values())
