"""`amanda show`: prints a model in readable form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from amanda.cli.group import verb
from amanda.cli.inputs.model import find_scopes, load_option, open_model
from amanda.cli.output.answer import Answer, Table
from amanda.errors import UsageError

if TYPE_CHECKING:
    from amanda.graph import Graph

__all__ = ["command"]

LARGE = 100  # ops in all graphs up to which nothing is folded
FEW = 40  # ops shown of each graph, half of them at its end
SHALLOW = 1  # depth to which a large graph is shown by default


@verb("show", "print a model in readable form")
@click.argument("file", type=click.Path())
@click.option("--format", "form", help="The format of the file; default: detected.")
@load_option
@click.option("--full", is_flag=True, help="Fold nothing and cut nothing.")
@click.option("--depth", type=click.IntRange(0), help="Fold deeper graphs.")
@click.option("--op", "name", help="Show the ops of this name, with their neighbors.")
def command(
    file: str, *, form: str | None, full: bool, depth: int | None, name: str | None
) -> Answer:
    """Show the graph in FILE in readable form.

    Long values are cut, and records of the file format omitted. Large graphs are
    folded: only their first and last ops are shown. With --full nothing is omitted,
    and the text can be saved as .amtxt and loaded again.

    Examples:
        amanda show digits.onnx
        amanda show digits.onnx --op /10/Softmax
    """
    if full and depth is not None:
        raise UsageError("--full and --depth exclude each other")
    graph, form = open_model(file, form)
    data: dict[str, object] = {"file": file, "format": form}
    if name is not None:
        return _ops_answer(graph, name, data, full=full)
    text = _readable_text(graph, full=full, depth=depth)
    return Answer({**data, "text": text}, [text])


def _readable_text(graph: Graph, *, full: bool, depth: int | None) -> str:
    from itertools import islice

    from amanda.files.text import readable

    if full:
        return readable.dumps(graph).rstrip("\n")
    large = len(list(islice(graph.walk(), LARGE + 1))) > LARGE
    text = readable.dumps(
        graph,
        abbreviate=True,
        max_ops=FEW if large else None,
        depth=SHALLOW if large and depth is None else depth,
    )
    return text.rstrip("\n")


def _ops_answer(
    graph: Graph, name: str, data: dict[str, object], *, full: bool
) -> Answer:
    from amanda.cli.output.op_page import op_data, op_text, ops_named

    found = ops_named(graph, name)
    if not found:
        raise UsageError(
            f"no op is named {name!r}",
            who=data["file"],
            hint=_similar_name(graph, name)
            or "`amanda show FILE --full` has every name",
        )

    scopes = find_scopes(graph, str(data["format"]))

    def text() -> Iterator[str | Table]:
        for i, op in enumerate(found):
            yield from [""] if i else []
            yield from op_text(op, scopes, full=full)

    pages = [op_data(op, scopes, full=full) for op in found]
    return Answer({**data, "ops": pages}, text())


def _similar_name(graph: Graph, name: str) -> str | None:
    from difflib import get_close_matches

    names = {op.name for op in graph.walk() if op.name}
    near = get_close_matches(name, names, n=1) if len(names) < 10_000 else []
    return f"did you mean {near[0]!r}?" if near else None
