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

from amanda.files.text.document.schema import EdgeDocument, locating, read_data, to_data
from amanda.files.text.syntax.layout import Yaml, laid_out
from amanda.files.text.syntax.plain_data import decoded
from amanda.files.text.syntax.yaml_parser import locate, parse
from amanda.graph import Graph, bulk

__all__ = ["dumps", "loads"]


def dumps(graph: Graph) -> str:
    """The graph as YAML, the same text for the same graph every time."""
    with bulk():
        return laid_out(Yaml(), to_data(graph))


def loads(text: str | bytes, name: str = "<text>") -> Graph | EdgeDocument:
    """What a document is about; a lone op comes as a graph that holds it.

    Raises FormatError with line and column; `name` is what it calls the text.
    """
    text = decoded(text, name)
    with bulk():
        return read_data(parse(text, name), locating(text, name, locate))
