"""`amanda run`: a model on a backend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from amanda.cli.group import verb
from amanda.cli.inputs.backend_options import (
    backend_option,
    fallback_option,
    parse_backend_options,
    strict_shapes_option,
)
from amanda.cli.inputs.feeds import feed_options, read_feeds, summarize_value
from amanda.cli.inputs.model import load_option, open_model
from amanda.cli.output.answer import Answer, Table
from amanda.cli.output.placement import placement_data, placement_lines
from amanda.cli.output.terminal import show_progress

__all__ = ["command"]


@verb("run", "run a model on a backend")
@click.argument("file", type=click.Path())
@click.option("--backend", metavar="NAME[:DEVICE]", help="See `amanda backends`.")
@click.option("--format", "form", help="The format of FILE; default: detected.")
@load_option
@click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="NAME",
    help="A result or an op; only what it needs is run.",
)
@backend_option
@fallback_option
@click.option(
    "--distributed",
    is_flag=True,
    help="Run as one of several processes, configured by the environment; the same "
    "as --option distributed=true.",
)
@click.option(
    "--seed",
    type=int,
    help="The seed of random ops that have none; default: another in every run.",
)
@click.option("--save", metavar="FILE.npz", help="Write the results to this file.")
@strict_shapes_option
@feed_options
def command(
    file: str,
    *,
    backend: str | None,
    form: str | None,
    targets: tuple[str, ...],
    options_told: tuple[str, ...],
    fallback: tuple[str, ...],
    distributed: bool,
    seed: int | None,
    save: str | None,
    strict_shapes: bool,
    **given: Any,
) -> Answer:
    """Run FILE and print the results.

    The default backend is AMANDA_BACKEND, or the only one installed. With --fallback,
    what ran on which backend is printed, too.

    Examples:
        amanda run digits.onnx --backend numpy --random 1
    """
    from amanda.api.compilation import compile

    graph, form = open_model(file, form)
    if targets:
        graph = graph.clone(list(targets))
    feeds = read_feeds(graph, **given)
    told = parse_backend_options(options_told)
    if distributed:
        told.setdefault("distributed", True)
    told.setdefault("seed", seed)
    with show_progress(f"running {file}"):
        compiled = compile(
            graph,
            backend,
            fallback=fallback or None,
            strict_shapes=strict_shapes,
            **told,
        )
        results = compiled(feeds)
    if save is not None:
        _save_results(save, results)
    shown = {str(name): summarize_value(value) for name, value in results.items()}
    data = {
        "file": file,
        "format": form,
        "backend": backend,
        "results": {n: {"type": t, "values": v} for n, (t, v) in shown.items()},
        "saved": save,
        "placement": placement_data(compiled),
    }
    rows = [(name, *texts) for name, texts in shown.items()]
    table = Table(("result", "type", "values"), rows)
    return Answer(data, [table, *placement_lines(compiled)])


def _save_results(path: str, results: dict[Any, Any]) -> None:
    from amanda.cli.inputs.array_files import write_arrays
    from amanda.files.atomic import replace_file

    with replace_file(Path(path)) as file:
        write_arrays(file, {str(name): value for name, value in results.items()})
