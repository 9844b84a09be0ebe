"""Cache of executables, for graphs that are compiled again.

Graphs are equal here if their structure and their constants are: small constants are
compared by content, as they may decide shapes; large ones by identity, so that no
weight is read. Copies of a graph share their tensors.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from hashlib import blake2b
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from amanda.tensors import Tensor

if TYPE_CHECKING:
    from amanda.graph import Graph

__all__ = ["ExecutableCache", "cache_key"]

SMALL: Final = 1 << 12
"""Size in bytes up to which constants are compared by content."""
MOST: Final = 4
"""Number of cached executables, each of which holds its weights."""
_PLAIN = (str, int, float, bool, bytes, type(None))


class ExecutableCache:
    """The most recent executables, by key. Thread-safe.

    >>> cache = ExecutableCache(most=1)
    >>> cache.put("a", 1)
    >>> cache.put("b", 2)
    >>> cache.get("a"), cache.get("b")
    (None, 2)
    """

    def __init__(self, most: int = MOST) -> None:
        self.most = most
        self.hits = 0
        self._rows: OrderedDict[Any, tuple[Any, Any]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable) -> Any:
        with self._lock:
            row = self._rows.get(key)
            if row is None:
                return None
            self._rows.move_to_end(key)
            self.hits += 1
            return row[0]

    def put(self, key: Hashable, executable: Any, alive: Any = None) -> None:
        """Add an executable; `alive` holds objects identified by the key."""
        with self._lock:
            self._rows[key] = (executable, alive)
            self._rows.move_to_end(key)
            while len(self._rows) > self.most:
                self._rows.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._rows.clear()

    def __len__(self) -> int:
        return len(self._rows)


def cache_key(
    graph: Graph, options: Mapping[str, Any], *more: Any
) -> tuple[Any, list[Tensor]]:
    """The cache key of a graph with options, and the tensors it has by identity.

    The key is None if an option is not a plain value, such as a function."""
    if not all(isinstance(value, _PLAIN) for value in options.values()):
        return None, []
    tensors: list[Tensor] = []
    wiring = _wiring_key(graph, tensors)
    names = tuple(port.name for port in (*graph.parameters, *graph.outputs))
    told = tuple(sorted(options.items()))
    types = tuple(type(value) for _, value in told)
    return (graph.digest(), wiring, names, told, types, *more), tensors


def _wiring_key(graph: Graph, tensors: list[Tensor]) -> bytes:
    """A hash of the edges, the order of ops, and the tensors of constants.

    The digest of a graph does not distinguish tensors of one type, nor orders of
    ops."""
    state = blake2b(digest_size=20)
    numbers: dict[Any, int] = {}

    def number(port: Any) -> int:
        return -1 if port is None else numbers.setdefault(port, len(numbers))

    for part in graph.graphs():
        for op in part:
            row: list[Any] = [
                op.type,
                *map(number, op.inputs),
                *map(number, op.outputs),
            ]
            if op.has_attrs:
                row += [_identity(value, tensors) for value in op.attrs.values()]
            state.update(repr(row).encode())
        state.update(repr([*map(number, part.results)]).encode())
    return state.digest()


def _identity(value: Any, tensors: list[Tensor]) -> Any:
    """Identifies the tensors in an attribute; None if it has none."""
    if isinstance(value, list | tuple):
        return [_identity(item, tensors) for item in value]
    if isinstance(value, dict):
        return [_identity(item, tensors) for item in value.values()]
    if not isinstance(value, Tensor):
        return None
    if value.nbytes <= SMALL:
        return value.digest()
    tensors.append(value)
    return id(value)
