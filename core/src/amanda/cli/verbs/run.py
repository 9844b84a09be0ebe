"""`amanda run`: a model on a backend."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

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
from amanda.cli.output.profiles import (
    expect_profiles,
    profile_data,
    profile_lines,
    write_trace,
)
from amanda.cli.output.results import save_results
from amanda.cli.output.terminal import show_progress
from amanda.cli.output.timing import Timer

if TYPE_CHECKING:
    from amanda.backend import Profile
    from amanda.graph import Graph

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
    help="A result, an op, or NAME:INDEX, an output of an op; only what it needs is "
    "run.",
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
@click.option(
    "--save",
    metavar="PATH",
    help="Write the results: to a .npz file, to a .npy file if there is only one, else "
    "to a folder with a .npy file for each.",
)
@click.option(
    "--repeat",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Run N times more, and print the median.",
)
@click.option(
    "--profile",
    is_flag=True,
    help="Print the time of each op and of each op of FILE that it comes from.",
)
@click.option(
    "--trace",
    metavar="FILE.json",
    help="Write the profile in Chrome's trace event format, which Perfetto opens.",
)
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
    repeat: int,
    profile: bool,
    trace: str | None,
    **given: Any,
) -> Answer:
    """Run FILE and print the results.

    The default backend is AMANDA_BACKEND, or the only one installed. With --fallback,
    what ran on which backend is printed, too. The times of --profile are of ops run one
    after the other; numpy adds the memory that each allocates.

    Examples:
        amanda run digits.onnx --backend numpy --random 1
        amanda run digits.onnx --backend numpy --random 1 --target chances
        amanda run digits.onnx --backend numpy --random 1 --repeat 5 --save out.npz
        amanda run digits.onnx --backend numpy --random 1 --target /0/Conv --profile
    """
    from amanda.api.compilation import compile

    timer = Timer()
    with timer.measure("load"):
        graph, form = open_model(file, form)
    if targets:
        graph = _part_of_targets(graph, targets)
    feeds = read_feeds(graph, **given)
    options = _all_options(options_told, distributed, seed)
    if profile or trace:
        expect_profiles(backend)
        options["profile"] = True
    options |= {"fallback": fallback or None, "strict_shapes": strict_shapes}
    with timer.measure("compile"), show_progress(f"compiling {file}"):
        compiled = compile(graph, backend, **options)
    with timer.measure("first call"), show_progress(f"running {file}"):
        results = compiled(feeds)
    timer.repeat(lambda: compiled(feeds), repeat, f"running {file}")
    if save is not None:
        save_results(save, results)
    shown, table = _report_results(results)
    data: dict[str, object] = {"file": file, "format": form, "backend": backend}
    data |= {"results": shown, "saved": save, "placement": placement_data(compiled)}
    text: list[str | Table] = [table, *placement_lines(compiled)]
    if repeat:
        data["seconds"] = timer.seconds
        text += ["", timer.line()]
    if profile or trace:
        with show_progress(f"profiling {file}"):
            found = compiled.profile(feeds)
        text += _report_profile(found, data, trace)
    return Answer(data, text)


def _report_results(results: Mapping[str, Any]) -> tuple[dict[str, object], Table]:
    """The type and some values of each result, as data and as a table."""
    shown = {str(name): summarize_value(value) for name, value in results.items()}
    data: dict[str, object] = {
        n: {"type": t, "values": v} for n, (t, v) in shown.items()
    }
    rows = [(name, *texts) for name, texts in shown.items()]
    return data, Table(("result", "type", "values"), rows)


def _part_of_targets(graph: Graph, targets: tuple[str, ...]) -> Graph:
    """What the targets need, which are its results, as of `amanda.run`."""
    from amanda.backend import target_of

    names = tuple(dict.fromkeys(targets))
    part = graph.clone([target_of(graph, name) for name in names])
    for port, name in zip(part.outputs, names, strict=True):
        port.name = name
    return part


def _all_options(
    options_told: tuple[str, ...], distributed: bool, seed: int | None
) -> dict[str, Any]:
    """The options of the backend, those among the verb's own arguments included."""
    options = parse_backend_options(options_told)
    if distributed:
        options.setdefault("distributed", True)
    options.setdefault("seed", seed)
    return options


def _report_profile(
    found: Profile, data: dict[str, object], trace: str | None
) -> Iterator[str | Table]:
    """Lines of a profile, which is added to the data and written to a file."""
    data["profile"] = profile_data(found)
    if trace is not None:
        write_trace(trace, found)
    yield ""
    yield from profile_lines(found)
