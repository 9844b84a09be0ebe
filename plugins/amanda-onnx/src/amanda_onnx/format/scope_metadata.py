"""Scopes of ops as properties of nodes, as `torch.onnx.export` writes them.

namespace                        ": net.Net/fc: torch.nn...Linear/linear: aten.linear"
pkg.torch.onnx.name_scopes       "['', 'fc', 'linear']"
pkg.torch.onnx.class_hierarchy   "['net.Net', 'torch.nn...Linear', 'aten.linear']"
pkg.torch.onnx.stack_trace       the innermost frame
"""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Mapping
from typing import Any, Final

from amanda.formatkit import encode_varint
from amanda.graph import Graph, Op, Scope, ScopeTable
from amanda_onnx.format.messages import SCHEMA
from amanda_onnx.format.model_metadata import NOTES_KEY, notes_of

__all__ = ["ScopeWriter", "scopes_of_nodes"]

_NAMES: Final = "pkg.torch.onnx.name_scopes"
_CLASSES: Final = "pkg.torch.onnx.class_hierarchy"
_LINE: Final = "pkg.torch.onnx.stack_trace"
_NAMESPACE: Final = "namespace"
_PROPS: Final = SCHEMA.tag("NodeProto", "metadata_props")
_KEY: Final = SCHEMA.tag("StringStringEntryProto", "key")
_VALUE: Final = SCHEMA.tag("StringStringEntryProto", "value")


class ScopeWriter:
    """Encodes the scopes of the nodes of a model; equal properties once."""

    def __init__(self, table: ScopeTable) -> None:
        self._table = table
        self._known: dict[Any, bytes] = {}
        self._starts: dict[Any, tuple[str, str]] = {}

    def encode(self, op: Op) -> bytes:
        """The properties of a node, as fields of its message."""
        scope = self._table.scope_of(op)
        if scope is None:
            return b""
        shared = (scope.modules, scope.classes, scope.type, scope.line)
        text = self._known.get(shared)
        if text is None:
            text = self._known[shared] = _encode(_shared_pairs(scope))
        return _encode(self._own_pairs(scope)) + text

    def _own_pairs(self, scope: Scope) -> list[tuple[str, str]]:
        key = scope.modules, scope.classes
        start = self._starts.get(key)
        if start is None:
            rows = zip(*key, strict=True)
            namespace = "".join(f"{path}: {type}/" for path, type in rows)
            names = "".join(f"{path!r}, " for path in scope.modules)
            start = self._starts[key] = namespace, names
        return [
            (_NAMESPACE, f"{start[0]}{scope.op}: {scope.type}"),
            (_NAMES, f"[{start[1]}{scope.op!r}]"),
        ]


def _shared_pairs(scope: Scope) -> list[tuple[str, str]]:
    pairs = [(_CLASSES, repr([*scope.classes, scope.type]))]
    return [*pairs, (_LINE, scope.line)] if scope.line else pairs


def _encode(pairs: list[tuple[str, str]]) -> bytes:
    out = b""
    for key, value in pairs:
        entry = b""
        for tag, text in ((_KEY, key), (_VALUE, value)):
            raw = text.encode("utf-8", "replace")
            entry += tag + encode_varint(len(raw)) + raw
        out += _PROPS + encode_varint(len(entry)) + entry
    return out


# -- reading -------------------------------------------------------------------


def scopes_of_nodes(graph: Graph) -> ScopeTable:
    """The scopes that nodes of a model have as properties."""
    table = ScopeTable()
    for op in graph.walk():
        if op.name is None or not op.has_attrs or NOTES_KEY not in op.attrs:
            continue
        props = notes_of(op).get("metadata_props")
        if isinstance(props, Mapping) and _NAMES in props:
            names, classes = _texts(props[_NAMES]), _texts(props.get(_CLASSES))
            if names and len(names) == len(classes):
                modules = names[:-1], classes[:-1]
                table.add(op.name, classes[-1], *modules, props.get(_LINE, ""))
    return table


def _texts(text: object) -> tuple[str, ...]:
    """A list of strings, as Python writes it; empty for anything else."""
    if not isinstance(text, str) or len(text) > 1 << 14:
        return ()
    try:
        found = literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return ()
    is_list = isinstance(found, list) and all(isinstance(x, str) for x in found)
    return tuple(found) if is_list else ()
