"""Graphs as YAML text.

>>> from amanda.graph import Graph
>>> graph = Graph("amanda/std/1", name="net")
>>> _ = graph.add("relu", [graph.parameter(name="x")], name="y")
>>> print(dumps(graph), end="")
amanda: 1
graph:
  name: net
  namespace: amanda/std/1
  input_ports: [x]
  ops:
    y:
      type: relu
      input_ports: 1
      output_ports: 1
  edges:
    - net.x -> y.0
"""

from __future__ import annotations

from amanda.files.text.document.schema import (
    EdgeDocument,
    published_data,
    read_data,
    text_locator,
    to_data,
)
from amanda.files.text.syntax.layout import YamlStyle, format_document
from amanda.files.text.syntax.plain_data import decode_text
from amanda.files.text.syntax.yaml_parser import locate, parse
from amanda.graph import Graph, bulk

__all__ = ["dumps", "dumps_published", "loads"]


def dumps(graph: Graph) -> str:
    """The graph as YAML, deterministic."""
    with bulk():
        return format_document(YamlStyle(), to_data(graph))


def dumps_published(graph: Graph) -> str:
    """The graph in the published schema; FormatError for what it cannot hold."""
    with bulk():
        return format_document(YamlStyle(), published_data(graph, is_json=False))


def loads(text: str | bytes, name: str = "<text>") -> Graph | EdgeDocument:
    """The graph or edge that a document describes; a single op is returned in a graph.

    Raises FormatError with line and column; `name` is the text's name in errors.
    """
    text = decode_text(text, name)
    with bulk():
        return read_data(parse(text, name), text_locator(text, name, locate))
