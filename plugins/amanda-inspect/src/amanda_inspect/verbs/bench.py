"""`amanda bench`: times and memory of a model on several backends."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from amanda.cli import (
    Answer,
    Table,
    feed_options,
    given_load_options,
    load_option,
    open_model,
    parse_options_per_backend,
    read_feeds,
    show_progress,
    verb,
)
from amanda_inspect.benchmarking import (
    Measurement,
    mebibytes,
    peak_memory,
    time_backends,
)
from amanda_inspect.plot import plot_measurements
from amanda_inspect.windows import Backend

__all__ = ["command"]


@verb("bench", "time a model on several backends, side by side")
@click.argument("file", type=click.Path())
@click.option(
    "--backend",
    "backends",
    multiple=True,
    metavar="NAME[:DEVICE]",
    help="May be repeated; the others are compared with the first.",
)
@click.option(
    "--option",
    "options",
    multiple=True,
    metavar="[BACKEND.]NAME=VALUE",
    help="An option of all backends, or of one by name or number.",
)
@click.option("--rounds", type=click.IntRange(min=1), default=30, show_default=True)
@click.option("--warm-up", type=click.IntRange(min=0), default=3, show_default=True)
@click.option(
    "--seconds",
    type=float,
    default=10.0,
    show_default=True,
    help="At most for each backend; three rounds are always made.",
)
@click.option(
    "--plot",
    metavar="FILE",
    help="Draw the times with their spread: .svg, or .png with matplotlib.",
)
@click.option("--no-memory", is_flag=True, help="Do not measure memory.")
@click.option("--format", "form", help="The format of FILE; default: detected.")
@load_option
@feed_options
def command(
    file: str,
    *,
    backends: tuple[str, ...],
    options: tuple[str, ...],
    rounds: int,
    warm_up: int,
    seconds: float,
    plot: str | None,
    no_memory: bool,
    form: str | None,
    **given: Any,
) -> Answer:
    """Time FILE on backends: compilation, first call, calls, memory.

    Each round calls every backend once, so that they are compared under one load. Times
    are medians with quartiles. Memory is that of a process for each backend that loads,
    compiles and calls the model.

    Examples:
        amanda bench digits.onnx --backend jax --backend numpy --random 1 --rounds 5
        amanda bench digits.onnx --backend numpy --random 1 --rounds 5 --plot digits.svg
    """
    graph, form = open_model(file, form)
    feeds = read_feeds(graph, **given)
    names = backends or ("",)
    told = parse_options_per_backend(options, names)
    sides = [Backend(n or None, each) for n, each in zip(names, told, strict=True)]
    with show_progress(f"timing {file}"):
        found = time_backends(
            graph, feeds, sides, rounds=rounds, warm_up=warm_up, seconds=seconds
        )
    if not no_memory and all(isinstance(key, str) for key in feeds):
        loading = given_load_options()
        arrays = {str(key): value for key, value in feeds.items()}
        for each in found:
            with show_progress(f"measuring memory of {each.backend}"):
                each.memory = peak_memory(file, form, loading, arrays, each.backend)
    if plot is not None:
        plot_measurements(plot, Path(file).name, found)
    return Answer({"file": file, "backends": [_data(m) for m in found]}, _lines(found))


def _lines(found: Sequence[Measurement]) -> list[str | Table]:
    first = found[0].median
    rows = []
    for each in found:
        low, high = each.quartiles
        rows.append((
            str(each.backend),
            f"{each.median * 1e3:.3g}",
            f"{low * 1e3:.3g} to {high * 1e3:.3g}",
            f"{each.median / first:.2f}",
            f"{each.throughput:.4g}",
            f"{each.compiling:.3g}",
            f"{each.first * 1e3:.3g}",
            mebibytes(each.memory),
        ))  # fmt: skip
    headings = (
        "backend", "median ms", "quartiles ms", "ratio", "calls/s", "compile s",
        "first call ms", "memory MiB",
    )  # fmt: skip
    return [f"{len(found[0].calls)} rounds", Table(headings, rows)]


def _data(found: Measurement) -> dict[str, object]:
    low, high = found.quartiles
    return {
        "backend": found.backend.name,
        "options": dict(found.backend.options),
        "median": found.median,
        "quartiles": [low, high],
        "least": min(found.calls),
        "calls": len(found.calls),
        "throughput": found.throughput,
        "compiling": found.compiling,
        "first_call": found.first,
        "memory": found.memory,
    }
