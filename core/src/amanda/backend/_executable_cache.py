"""Executables kept for graphs that are compiled again.

Two graphs are the same to a backend when their structure is, and their constants are:
small ones by content, as they decide shapes; large ones only by being the very same
tensor, so that no weight is read for it. Copies of a graph share their tensors.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from hashlib import blake2b
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from amanda.tensors import Tensor

if TYPE_CHECKING:
    from amanda.graph import Graph

__all__ = ["ExecutableCache", "cache_key"]

SMALL: Final = 1 << 12
"""Bytes of a constant that counts by content."""
MOST: Final = 4
"""Executables that are kept though nobody else has them: each has its weights."""
_PLAIN = (str, int, float, bool, bytes, type(None))


class ExecutableCache:
    """The last few executables, by key. Several threads may use it at once.

    >>> kept = Kept(most=1)
    >>> kept.put("a", 1)
    >>> kept.put("b", 2)
    >>> kept.get("a"), kept.get("b")
    (None, 2)
    """

    def __init__(self, most: int = MOST) -> None:
        self.most = most
        self.hits = 0
        self._rows: OrderedDict[Any, tuple[Any, Any]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Any) -> Any:
        with self._lock:
            row = self._rows.get(key)
            if row is None:
                return None
            self._rows.move_to_end(key)
            self.hits += 1
            return row[0]

    def put(self, key: Any, executable: Any, alive: Any = None) -> None:
        """`alive`: what the key names by identity, and so must not go before it."""
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
    """The key of a graph with options, and the tensors that it names by identity.

    The key is None where an option is no plain value: of a function or an object nobody
    knows when it is the same."""
    if not all(isinstance(value, _PLAIN) for value in options.values()):
        return None, []
    tensors: list[Tensor] = []
    wiring = _wiring_key(graph, tensors)
    names = tuple(port.name for port in (*graph.parameters, *graph.outputs))
    told = tuple(sorted(options.items()))
    types = tuple(type(value) for _, value in told)
    return (graph.digest(), wiring, names, told, types, *more), tensors


def _wiring_key(graph: Graph, tensors: list[Tensor]) -> bytes:
    """A hash of which op reads which, and of which tensor is where.

    The digest tells no two tensors of one type apart, and not in which order ops stand;
    this does, so that no tensor is taken for another."""
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
    """What tells the tensors in an attribute apart; None where there is none."""
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
