"""Kinds of nodes: the nodes of a file that have equal ops and attributes are of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from amanda.formatkit import MessageFile, Span
from amanda_tf.nodes.attributes import copier_of, read_entry
from amanda_tf.nodes.references import Groups, groups_and_types, has_fixed_outputs

if TYPE_CHECKING:
    from amanda.dictionary import Dictionary, OpDef

__all__ = ["NodeKind", "NodeKinds"]

Outputs: TypeAlias = "tuple[Groups | None, list[Any]]"
_SMALL: Final = 512
"""The most bytes of attributes that are read once for all nodes that have them."""


class NodeKind:
    """What nodes of one op with equal attributes have in common."""

    __slots__ = ("_outputs", "_own", "attrs", "entry", "facts")

    def __init__(
        self,
        entry: OpDef | None,
        attrs: dict[str, Any],
        facts: dict[str, Any],
        outputs: Outputs | None,
    ) -> None:
        self.entry = entry
        self.attrs = attrs
        self.facts = facts  # how attributes are written, where the writer would not
        self._outputs = outputs
        copiers = [(key, copier_of(value)) for key, value in attrs.items()]
        self._own = [(key, copy) for key, copy in copiers if copy is not None]

    @property
    def outputs(self) -> Outputs:
        """The groups and the types of the outputs; no groups for an unknown op."""
        found = self._outputs
        if found is None:
            entry = self.entry
            found = (None, []) if entry is None else groups_and_types(entry, self.attrs)
            self._outputs = found
        return found

    def copy_attrs(self) -> dict[str, Any]:
        """The attributes of one node, which may be changed."""
        attrs = self.attrs.copy()
        for key, copy in self._own:
            attrs[key] = copy(attrs[key])
        return attrs


class NodeKinds:
    """The kinds of the nodes of a file, whose ops are of the dictionary's version."""

    def __init__(self, file: MessageFile, dictionary: Dictionary) -> None:
        self.file = file
        self.dictionary = dictionary
        self._entries: dict[str, tuple[OpDef | None, Outputs | None]] = {}
        """The definition of an op, and its outputs where no attribute decides them."""
        self._known: dict[tuple[str, int, bytes], NodeKind] = {}

    def kind_of(self, name: str, op: str, spans: list[Span]) -> NodeKind:
        """The kind of a node with attributes at these places."""
        if not spans:
            return self._read(name, op, spans)
        (start, end), stop = spans[0], spans[-1][1]
        if op == "Const" or not end <= stop <= start + _SMALL:
            return self._read(name, op, spans)
        key = op, end - start, bytes(self.file.data[start:stop])
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._read(name, op, spans)
        return found

    def _read(self, name: str, op: str, spans: list[Span]) -> NodeKind:
        attrs: dict[str, Any] = {}
        facts: dict[str, Any] = {}
        for span in spans:
            key, value, fact = read_entry(self.file, span, name)
            attrs[key] = value
            if fact:
                facts[key] = fact
        known = self._entries.get(op)
        if known is None:
            entry = self.dictionary.get(op)
            is_fixed = entry is not None and has_fixed_outputs(entry)
            outputs = groups_and_types(entry, {}) if entry and is_fixed else None
            known = self._entries[op] = entry, outputs
        return NodeKind(known[0], attrs, facts, known[1])
