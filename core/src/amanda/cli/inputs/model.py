"""Loading of models for verbs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from amanda.cli.output.terminal import show_progress
from amanda.errors import UsageError

if TYPE_CHECKING:
    from amanda.graph import Graph, ScopeTable

__all__ = ["dim_option", "find_scopes", "load_option", "open_model", "set_given_dims"]

_KEY: Final = "amanda.load options"


def _keep(context: click.Context, _: click.Parameter, texts: Sequence[str]) -> None:
    context.meta[_KEY] = parse_load_options(texts)


load_option = click.option(
    "--load-option",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_keep,
    expose_value=False,
    help="An option of the format of the file, such as signature=NAME; its "
    "documentation lists them.",
)
"""The option of verbs that read a model, for `open_model`."""


dim_option = click.option(
    "--dim",
    "dims",
    multiple=True,
    metavar="DIM=SIZE",
    help="The size, or another name, of a symbolic dim of an input: batch=1, or "
    "INPUT:AXIS=1; INPUT=1,3 is the whole shape.",
)
"""The option of verbs that change a model, for `set_given_dims`."""


def set_given_dims(graph: Graph, texts: Sequence[str]) -> None:
    """Give dims of inputs the sizes that `--dim` states."""
    from amanda.graph import set_dims
    from amanda.types import Dim, parse_dim

    sizes: dict[str, Dim | list[Dim]] = {}
    for text in texts:
        name, mark, value = text.rpartition("=")
        if not mark or not name or not value:
            raise UsageError(
                "--dim takes a dim and its size", expected="DIM=SIZE", got=text
            )
        dims = [parse_dim(each) for each in value.split(",")]
        sizes[name] = dims if "," in value else dims[0]
    set_dims(graph, sizes)


def find_scopes(graph: Graph, form: str) -> ScopeTable | None:
    """The modules and source lines of ops, of the graph or read by its format."""
    from amanda.graph import ScopeTable
    from amanda.host import host_in_use

    table = ScopeTable.of(graph)
    if table is None:
        read = getattr(host_in_use().get("formats", form), "scopes", None)
        table = None if read is None else read(graph)
    return table


def parse_load_options(texts: Sequence[str]) -> dict[str, str]:
    """
    >>> parse_load_options(["signature=predict", "outputs=a:0,b"])
    {'signature': 'predict', 'outputs': 'a:0,b'}
    """
    found: dict[str, str] = {}
    for text in texts:
        name, mark, value = text.partition("=")
        if not mark or not name.isidentifier() or name in found:
            raise UsageError(
                "--load-option takes a name and a value, each name once",
                expected="NAME=VALUE", got=text,
            )  # fmt: skip
        found[name] = value
    return found


def given_load_options() -> dict[str, Any]:
    """The options of `--load-option` of the running verb."""
    context = click.get_current_context(silent=True)
    return {} if context is None else dict(context.meta.get(_KEY, {}))


def open_model(file: str, form: str | None) -> tuple[Graph, str]:
    """Load a file; returns the graph and the name of its format.

    Where a file names no results, they are all values that no op uses.
    """
    from amanda.api.files import load
    from amanda.host import default_host

    options = given_load_options()
    entry = default_host().format_to_read(file, form)
    with show_progress(f"reading {file}"):
        graph = load(file, format=entry.choice, **options)
    if not graph.results and not graph.entries:
        _add_results(graph)
    return graph, entry.name


def _add_results(graph: Graph) -> None:
    for op in graph:
        if not any(port.is_used for port in op.outputs):
            for port in op.outputs:
                suffix = f":{port.index}" if port.index else ""
                graph.result(port, None if op.name is None else f"{op.name}{suffix}")
