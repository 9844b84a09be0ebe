"""MetaGraphDef: a graph with signatures, and what is kept beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from amanda.errors import FormatError, UsageError
from amanda.formatkit import MessageChunks, MessageFile, Span
from amanda.graph import Graph
from amanda_tf.graphdef import graph_chunks, read_graph
from amanda_tf.loading.interface import parameter_node
from amanda_tf.messages import SAVED_RECORDS
from amanda_tf.nodes.names import node_names
from amanda_tf.nodes.references import Spelling
from amanda_tf.saved_messages import SAVED
from amanda_tf.saved_models.signatures import add_entries, signature_fields

if TYPE_CHECKING:
    from amanda.dictionary import Dictionary

__all__ = ["choose_meta_graph", "meta_graph_chunks", "read_meta_graph", "tags_of"]

SERVE = "serve"


def tags_of(data: memoryview, span: Span) -> list[str]:
    """The tags of a MetaGraphDef."""
    fields = SAVED.read("MetaGraphDef", data, *span)
    at = fields.get("meta_info_def", (0, 0))
    info: Any = SAVED.read("MetaGraphDef.MetaInfoDef", data, *at)
    return sorted(info.get("tags", ()))


def choose_meta_graph(
    known: Sequence[list[str]], tags: Sequence[str] | None, who: str
) -> int:
    """The index of the MetaGraphDef with these tags, of those with the tags `known`.

    Without tags it is the only one, or that of `serve`.
    """
    if not known:
        raise FormatError("a SavedModel without a graph", who=who)
    if tags is None and len(known) == 1:
        return 0
    wanted = sorted([SERVE] if tags is None else tags)
    if wanted in known:
        return known.index(wanted)
    shown = "; ".join(",".join(each) or "none" for each in known)
    if tags is None:
        raise UsageError(
            f"none of the {len(known)} graphs of the SavedModel has the tag {SERVE!r}",
            who=who, hint=f"choose one by tags: {shown}",
        )  # fmt: skip
    raise UsageError(
        "the SavedModel has no graph with these tags", who=who, expected=shown,
        got=",".join(wanted),
    )  # fmt: skip


def read_meta_graph(file: MessageFile, span: Span, dictionary: Dictionary) -> Graph:
    """The graph of a MetaGraphDef, with an entry for each signature."""
    fields = SAVED.read("MetaGraphDef", file.data, *span)
    if "graph_def" not in fields:
        raise FormatError("a MetaGraphDef without a graph", where=f"byte {span[0]}")
    root = read_graph(file, dictionary, fields["graph_def"])
    signatures: dict[str, bytes] = {}
    for at in fields.get("signature_def", ()):
        entry = SAVED.read("MetaGraphDef.SignatureDefEntry", file.data, *at)
        start, end = entry.get("value", (at[1], at[1]))
        signatures[entry.get("key", "")] = bytes(file.data[start:end])
    add_entries(root, signatures)
    meta = SAVED.raw_fields(
        "MetaGraphDef", file.data, span, without=["graph_def", "signature_def"]
    )
    SAVED_RECORDS.add(root, meta=meta, signatures=signatures)
    return root


def meta_graph_chunks(root: Graph, dictionary: Dictionary) -> MessageChunks:
    """The MetaGraphDef of a graph that has such a record."""
    facts = SAVED_RECORDS.of(root)
    out = MessageChunks(facts.get("meta", b""))
    graph = graph_chunks(root, dictionary, results=False)
    out.append_message(SAVED.tag("MetaGraphDef", "graph_def"), graph)
    spelling = Spelling(node_names(root).__getitem__, None, parameter_node)
    out.append(signature_fields(root, facts.get("signatures", {}), spelling))
    return out
