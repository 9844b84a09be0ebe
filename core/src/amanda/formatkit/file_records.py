"""File records: what a file says that no part of a graph stands for.

A format stores them under an attribute key that no attribute of its framework can
have, so that a model is written as it was read. Passes need not know of them: the
record of an op stays with the op, and the writer drops what no longer fits. Other
readers, such as those of text forms, may fill them with anything, so a format states
the kinds of its fields, and a field of another kind is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from amanda.errors import FormatError
from amanda.formatkit.wire import iter_fields

__all__ = [
    "FileRecords",
    "RecordCheck",
    "any_of",
    "dict_of",
    "is_message",
    "of_class",
    "list_of",
]

RecordCheck: TypeAlias = Callable[[Any], bool]
"""Whether a value is of a kind."""

_NONE: Final[Mapping[str, Any]] = {}


def of_class(*types: type) -> RecordCheck:
    """Values of exactly these types.

    >>> of_class(int)(3), of_class(int)(True)
    (True, False)
    """
    return lambda value: value.__class__ in types


def list_of(item: RecordCheck) -> RecordCheck:
    """Lists of values of a kind."""
    return lambda value: isinstance(value, list | tuple) and all(map(item, value))


def dict_of(item: RecordCheck) -> RecordCheck:
    """Values of a kind by name."""

    def fits(value: Any) -> bool:
        names = isinstance(value, Mapping) and all(isinstance(k, str) for k in value)
        return names and all(map(item, value.values()))

    return fits


def any_of(*kinds: RecordCheck) -> RecordCheck:
    """Values of one of several kinds."""
    return lambda value: any(each(value) for each in kinds)


def is_message(value: Any) -> bool:
    """Whether a value is bytes that can be the fields of a protobuf message."""
    if not isinstance(value, bytes):
        return False
    try:
        return all(True for _ in iter_fields(value))
    except FormatError:
        return False


class FileRecords:
    """The records of one name, on ops, ports and graphs; `kinds` are those of fields.

    >>> from amanda.graph import Graph
    >>> records = FileRecords("mine:record", {"version": of_class(int)})
    >>> graph = Graph("amanda/std/1")
    >>> records.add(graph, version=3, doc="")
    >>> records.of(graph)
    {'version': 3}
    """

    def __init__(self, key: str, kinds: Mapping[str, RecordCheck] = _NONE) -> None:
        self.key = key
        self.kinds = kinds

    def of(self, item: Any) -> Mapping[str, Any]:
        """The record of an op, a port or a graph; empty where there is none."""
        found = item.attrs.get(self.key, _NONE) if item.has_attrs else _NONE
        if not isinstance(found, Mapping):
            raise self._error(item, "the record", found)
        for name, value in found.items():
            fits = self.kinds.get(name)
            if fits is not None and not fits(value):
                raise self._error(item, f"the field {name!r}", value)
        return found

    def _error(self, item: Any, what: str, value: Any) -> FormatError:
        return FormatError(
            f"{what} of {self.key!r} has another kind than the format writes",
            who=getattr(item, "label", item),
            got=f"{type(value).__name__} {value!r:.60}",
            hint=f"correct or remove the attribute {self.key!r}",
        )

    def add(self, item: Any, **facts: Any) -> None:
        """Record the facts that are not empty."""
        given = {name: value for name, value in facts.items() if value}
        if given:
            item.attrs[self.key] = {**self.of(item), **given}
