"""Arrays of a run, in memory up to a limit and in temporary files beyond it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, MutableMapping
from typing import Any, Final

from amanda.graph import OutputPort
from amanda_inspect.windows import array_bytes

__all__ = ["MemoryBudget", "ValueStore"]

SMALL: Final = 1 << 12
"""Bytes of arrays that stay in memory."""


class MemoryBudget:
    """Bytes that several stores may keep in memory together."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0


class ValueStore(MutableMapping[OutputPort, Any]):
    """A mapping to arrays; those that exceed the budget are mapped from files."""

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self._arrays: dict[OutputPort, Any] = {}
        self._sizes: dict[OutputPort, int] = {}

    def __getitem__(self, port: OutputPort) -> Any:
        return self._arrays[port]

    def __setitem__(self, port: OutputPort, value: Any) -> None:
        if port in self._arrays:
            del self[port]
        size = array_bytes(value)
        if size > SMALL and self._budget.used + size > self._budget.limit:
            value, size = _map_from_file(value), 0
        self._arrays[port] = value
        self._sizes[port] = size
        self._budget.used += size

    def __delitem__(self, port: OutputPort) -> None:
        del self._arrays[port]
        self._budget.used -= self._sizes.pop(port)

    def __iter__(self) -> Iterator[OutputPort]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


def _map_from_file(value: Any) -> Any:
    """An array of a temporary file, which ends with it; others stay as they are."""
    import numpy as np

    if not isinstance(value, np.ndarray) or value.dtype.hasobject:
        return value
    with tempfile.TemporaryFile() as file:
        np.ascontiguousarray(value).tofile(file)
        return np.memmap(file, value.dtype, "r", shape=value.shape)
