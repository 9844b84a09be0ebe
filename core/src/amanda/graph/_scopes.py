"""Scopes: in which modules of a framework, and at which line, ops were written.

A mapping that reads a framework notes them in one table of the root graph, by the names
of the source ops, which names and provenance of ops refer to. So ops carry nothing, and
conversions and passes preserve them at no cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from amanda.graph._graph import Graph
    from amanda.graph._op import Op

__all__ = ["SCOPES_RECORD", "Scope", "ScopeTable"]

SCOPES_RECORD: Final = "amanda:scopes"
"""The attribute of a root graph with the table."""
MAX_OPS: Final = 1 << 16
MAX_LINE: Final = 400
"""Characters of a source line; what is more is cut."""


class Scope(NamedTuple):
    """Where an op was written."""

    op: str
    """The name of the source op."""
    type: str
    """Its type, such as `aten.linear.default`."""
    modules: tuple[str, ...]
    """The paths of the modules around it, outermost first: `""`, `layer1`, ..."""
    classes: tuple[str, ...]
    """Their classes."""
    line: str
    """The source line, with its file."""


class ScopeTable:
    """The scopes of a graph. At most `MAX_OPS` ops have one.

    >>> table = ScopeTable()
    >>> table.add("relu", "aten.relu.default", ("", "act"), ("Net", "ReLU"), "net.py:3")
    >>> table.get("relu").modules
    ('', 'act')
    >>> table.get("relu") == ScopeTable(table.as_attribute()).get("relu")
    True
    """

    def __init__(self, attribute: object = None) -> None:
        self._ops: dict[str, tuple[str, int, int]] = {}
        self._stacks: dict[tuple[tuple[str, ...], tuple[str, ...]], int] = {}
        self._lines: dict[str, int] = {}
        self._by_index: tuple[list[Any], list[str]] | None = None
        """Stacks and lines in order; None after a change."""
        if isinstance(attribute, Mapping):
            self._read(attribute)

    @classmethod
    def of(cls, graph: Graph) -> ScopeTable | None:
        """The table of the root of a graph; None if there is none."""
        root = graph.root
        found = root.attrs.get(SCOPES_RECORD) if root.has_attrs else None
        return None if found is None else cls(found)

    def _read(self, attribute: Mapping[str, Any]) -> None:
        """Take over what is valid in an attribute, which a file may have changed."""
        try:
            for modules, classes in attribute["stacks"]:
                if len(modules) != len(classes):
                    raise ValueError
                key = (tuple(map(str, modules)), tuple(map(str, classes)))
                self._stacks[key] = len(self._stacks)
            for line in attribute["lines"]:
                self._lines[str(line)] = len(self._lines)
            for name, (type, stack, line) in attribute["ops"].items():
                if stack < len(self._stacks) and line < len(self._lines):
                    self._ops[str(name)] = (str(type), int(stack), int(line))
        except (KeyError, TypeError, ValueError, AttributeError):
            self._ops.clear()

    def add(
        self, op: str, type: str, modules: tuple[str, ...], classes: tuple[str, ...],
        line: str,
    ) -> None:  # fmt: skip
        """Add the scope of an op; the first one of a name is kept."""
        if len(self._ops) < MAX_OPS and op not in self._ops:
            stack = self._stacks.setdefault((modules, classes), len(self._stacks))
            place = self._lines.setdefault(line[:MAX_LINE], len(self._lines))
            self._ops[op] = (type, stack, place)
            self._by_index = None

    def as_attribute(self) -> dict[str, Any]:
        """The table as data, for `SCOPES_RECORD`."""
        return {
            "stacks": [[list(m), list(c)] for m, c in self._stacks],
            "lines": list(self._lines),
            "ops": {name: list(row) for name, row in self._ops.items()},
        }

    def __len__(self) -> int:
        return len(self._ops)

    def get(self, name: str) -> Scope | None:
        """The scope of a source op."""
        row = self._ops.get(name)
        if row is None:
            return None
        type, stack, line = row
        if self._by_index is None:
            self._by_index = list(self._stacks), list(self._lines)
        stacks, lines = self._by_index
        modules, classes = stacks[stack]
        return Scope(name, type, modules, classes, lines[line])

    def scope_of(self, op: Op) -> Scope | None:
        """The scope of an op, by its name or that of an op that it was made from."""
        found = None if op.name is None else self.get(op.name)
        made = op.provenance
        if found is None and made is not None:
            scopes = map(self.get, made.sources)
            found = next((scope for scope in scopes if scope is not None), None)
        return found
