"""Graphs as JSON text.

>>> from amanda.graph import Graph
>>> graph = Graph("amanda/std/1", name="net")
>>> _ = graph.add("relu", [graph.parameter(name="x")], name="y")
>>> loads(dumps(graph)).same_as(graph)
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amanda.files.text.document.schema import (
    EdgeDocument,
    published_data,
    read_data,
    text_locator,
    to_data,
)
from amanda.files.text.syntax.json_parser import locate, parse
from amanda.files.text.syntax.layout import JsonStyle, format_document
from amanda.files.text.syntax.plain_data import decode_text
from amanda.graph import Graph, bulk

if TYPE_CHECKING:
    from amanda.tensors import Tensor

__all__ = ["dumps", "dumps_published", "dumps_without_weights", "loads"]


def dumps(graph: Graph) -> str:
    """The graph as JSON, deterministic."""
    with bulk():
        return format_document(JsonStyle(), to_data(graph))


def dumps_without_weights(graph: Graph) -> tuple[str, list[Tensor]]:
    """The graph as JSON, and its tensors, which the JSON refers to by index.

    A tensor is `{"dtype": "float32", "shape": [2, 3], "weight": 0}` in it; `loads` does
    not read such a text."""
    weights: list[Tensor] = []
    with bulk():
        return format_document(JsonStyle(), to_data(graph, weights)), weights


def dumps_published(graph: Graph) -> str:
    """The graph in the published schema; FormatError for what it cannot hold."""
    with bulk():
        return format_document(JsonStyle(), published_data(graph, is_json=True))


def loads(text: str | bytes, name: str = "<text>") -> Graph | EdgeDocument:
    """The graph or edge that a document describes; a single op is returned in a graph.

    Raises FormatError with line and column; `name` is the text's name in errors.
    """
    text = decode_text(text, name)
    with bulk():
        return read_data(parse(text, name), text_locator(text, name, locate))
