"""File records: what a file says that no part of a graph stands for.

A format stores them under an attribute key that no attribute of its framework can
have, so that a model is written as it was read. Passes need not know of them: the
record of an op stays with the op, and the writer drops what no longer fits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["FileRecords"]

_NONE: Final[Mapping[str, Any]] = {}


class FileRecords:
    """The records of one kind, on ops, ports and graphs.

    >>> from amanda.graph import Graph
    >>> records = FileRecords("mine:record")
    >>> graph = Graph("amanda/std/1")
    >>> records.add(graph, version=3, doc="")
    >>> records.of(graph)
    {'version': 3}
    """

    def __init__(self, key: str) -> None:
        self.key = key

    def of(self, item: Any) -> Mapping[str, Any]:
        """The record of an op, a port or a graph; empty where there is none."""
        found = item.attrs.get(self.key, _NONE) if item.has_attrs else _NONE
        return found if isinstance(found, Mapping) else _NONE

    def add(self, item: Any, **facts: Any) -> None:
        """Record the facts that are not empty."""
        given = {name: value for name, value in facts.items() if value}
        if given:
            item.attrs[self.key] = {**self.of(item), **given}
