"""Graphs in a short form for people, which is read back without loss.

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

from amanda.files.text.construct.build_graph import build
from amanda.files.text.readable.parser import Parser
from amanda.files.text.readable.printer import Printer
from amanda.files.text.syntax.plain_data import decoded
from amanda.graph import Graph, bulk

__all__ = ["dumps", "loads"]


def dumps(
    graph: Graph,
    *,
    abbreviate: bool = False,
    max_ops: int | None = None,
    depth: int | None = None,
) -> str:
    """The graph as text, the same for the same graph every time.

    `abbreviate` leaves out the elements of tensors and the rest of long values,
    `max_ops` all but so many ops of each graph, `depth` what stands deeper in graphs.
    Each says so in the text, by `...`, and what is shortened cannot be loaded.
    """
    printer = Printer(abbreviate=abbreviate, max_ops=max_ops, depth=depth)
    with bulk():
        return printer.text(graph)


def loads(text: str | bytes, name: str = "<text>") -> Graph:
    """The graph that `dumps` wrote, or a person.

    Raises FormatError with line and column; `name` is what it calls the text.
    """
    with bulk():
        parser = Parser(decoded(text, name), name)
        return build(parser.plan(), parser.tokens.where)
