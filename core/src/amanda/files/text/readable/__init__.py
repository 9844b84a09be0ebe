"""Graphs in a readable form, which can be read back without loss.

>>> from amanda.graph import Graph
>>> from amanda.types import parse_type
>>> graph = Graph("amanda/std/1", name="net")
>>> x = graph.parameter(parse_type("float32[n, 3]"), "x")
>>> y = graph.add("relu", [x], {"alpha": 0.5}, name="y").output
>>> _ = graph.result(y, "out")
>>> print(dumps(graph), end="")
amanda 1
<BLANKLINE>
graph %net in "amanda/std/1" ($x: float32[n, 3]) -> (out) {
  %y = relu($x) {alpha: 0.5}
  return %y
}
"""

from __future__ import annotations

from amanda.files.content import expect_valid_content
from amanda.files.text.construct.build_graph import build_graph
from amanda.files.text.readable.parser import ReadableParser
from amanda.files.text.readable.printer import ReadablePrinter
from amanda.files.text.syntax.plain_data import decode_text
from amanda.graph import Graph, bulk

__all__ = ["dumps", "loads"]


def dumps(
    graph: Graph,
    *,
    abbreviate: bool = False,
    max_ops: int | None = None,
    depth: int | None = None,
) -> str:
    """The graph as text, deterministic.

    `abbreviate` omits elements of tensors and the rest of long values, `max_ops`
    further ops of each graph, `depth` graphs nested deeper. Omissions appear as
    `...`; such a text cannot be loaded.
    """
    if not abbreviate:
        expect_valid_content(graph)
    printer = ReadablePrinter(abbreviate=abbreviate, max_ops=max_ops, depth=depth)
    with bulk():
        return printer.text(graph)


def loads(text: str | bytes, name: str = "<text>") -> Graph:
    """The graph of a text that `dumps`, or a person, wrote.

    Raises FormatError with line and column; `name` is the text's name in errors.
    """
    with bulk():
        parser = ReadableParser(decode_text(text, name), name)
        return build_graph(parser.plan(), parser.tokens.where)
