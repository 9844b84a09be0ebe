"""`amanda reduce`: the smallest model that fails like a given one."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from amanda.cli import (
    Answer,
    Table,
    feed_options,
    load_option,
    open_model,
    parse_backend_options,
    read_feeds,
    verb,
)
from amanda.errors import UsageError
from amanda.graph import Graph
from amanda_inspect.reduction.failures import Test
from amanda_inspect.reduction.isolation import IsolatedTest, ScriptTest
from amanda_inspect.reduction.models import count_ops
from amanda_inspect.reduction.reducer import (
    NUMPY,
    Reduction,
    find_failing_op,
    reduce,
)
from amanda_inspect.reduction.running import ConversionTest, RunTest
from amanda_inspect.reduction.saving import save_reduction
from amanda_inspect.windows import Backend

__all__ = ["command"]


@verb("reduce", "the smallest model that fails like a given one")
@click.argument("file", type=click.Path())
@click.argument("reference", type=click.Path(), required=False)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default="reduced",
    show_default=True,
    help="A folder for the model, its feeds, a script and the steps.",
)
@click.option(
    "--backend",
    "backends",
    multiple=True,
    metavar="NAME[:DEVICE]",
    help="The backend that fails; given twice, that of the right results comes first.",
)
@click.option(
    "--option",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    help="An option of the backend that fails; its documentation lists them.",
)
@click.option("--to", "target", metavar="NAMESPACE", help="A conversion that fails.")
@click.option(
    "--test",
    "script",
    metavar="CMD",
    help="A command that exits with 0 if a model has the fault; {} is the model file, "
    "{feeds} a .npz file.",
)
@click.option(
    "--values",
    metavar="NAME[:DEVICE]",
    help="The backend that computes values inside of the model; default: that of the "
    "right results, or numpy.",
)
@click.option(
    "--preload",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A Python file to run first, which registers backends or mappings.",
)
@click.option("--seconds", type=float, help="End the search after this time.")
@click.option(
    "--time-limit",
    type=float,
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="A model that takes longer hangs.",
)
@click.option("--format", "form", help="The format of the files; default: detected.")
@load_option
@feed_options
def command(
    file: str,
    reference: str | None,
    *,
    output: Path,
    backends: tuple[str, ...],
    options: tuple[str, ...],
    target: str | None,
    script: str | None,
    values: str | None,
    preload: tuple[Path, ...],
    seconds: float | None,
    time_limit: float,
    form: str | None,
    **given: Any,
) -> Answer:
    """Reduce the model in FILE to a small one that fails in the same way.

    It fails on a backend, with an error, a crash or results that another backend or the
    model REFERENCE does not give; in a conversion, --to; or by a command, --test. Ops
    are cut away, and inputs replaced by recorded values, as long as it fails.

    Examples:
        amanda reduce digits.onnx --test "grep -q Softmax {}" -o small
    """
    for path in preload:
        runpy.run_path(str(path))
    graph, form_name = open_model(file, form)
    test: Test = _test_of(backends, options, target, script, reference, file, form_name)
    recorder = Backend(values, {}) if values else _recorder(test)
    with ExitStack() as stack:
        feeds: Mapping[Any, Any]
        if reference is not None:
            assert isinstance(test, RunTest)
            other, _ = open_model(reference, form)
            feeds = read_feeds(other, **given)
            model, test = find_failing_op(graph, other, feeds, test.backend)
            part, feeds, whole = model.graph, model.feeds, count_ops(graph)
        else:
            feeds = _feeds(graph, script or target, given)
            part, whole = graph, count_ops(graph)
        if isinstance(test, RunTest | ConversionTest) and reference is None:
            isolated = IsolatedTest(test, seconds=time_limit, preload=preload)
            test = stack.enter_context(isolated)
        found = reduce(
            part, feeds, test, values=recorder, seconds=seconds, tell=_show_step
        )
        is_same = part.namespace == graph.namespace
        suffix = Path(file).suffix if is_same else ".amanda"
        form = form_name if is_same else None
        saved = save_reduction(
            found, test, output, suffix=suffix, form=form, preload=preload
        )
    return Answer(
        _data(found, whole, output, saved), _lines(found, whole, output, saved)
    )


def _show_step(text: str) -> None:
    """Show a step on a terminal, while the search goes on."""
    if sys.stderr.isatty():
        click.echo(text, err=True)


def _test_of(
    backends: Sequence[str],
    options: Sequence[str],
    target: str | None,
    script: str | None,
    reference: str | None,
    file: str,
    form: str,
) -> RunTest | ConversionTest | ScriptTest:
    """The test that the options describe, of which there has to be one."""
    chosen = [bool(backends), target is not None, script is not None]
    if sum(chosen) != 1 or len(backends) > 2 or (reference and len(backends) != 1):
        raise UsageError(
            "it is not clear how the model fails",
            expected="one of --backend (twice to compare two), --to and --test; with a "
            "REFERENCE model, --backend once",
            got=f"--backend {len(backends)} times, --to {target}, --test {script}",
        )
    if script is not None:
        return ScriptTest(script, Path(file).suffix, form)
    if target is not None:
        return ConversionTest(target)
    right = Backend(backends[0], {}) if len(backends) == 2 else None
    return RunTest(Backend(backends[-1], parse_backend_options(options)), right)


def _recorder(test: Test) -> Backend:
    reference = test.reference if isinstance(test, RunTest) else None
    return NUMPY if reference is None else reference


def _feeds(
    graph: Graph, is_static: str | None, given: Mapping[str, Any]
) -> dict[Any, Any]:
    """The feeds; a conversion and a command need none, so they may be random."""
    if is_static and given["random"] is None and not given["feeds"]:
        given = {**given, "random": 0}
    return dict(read_feeds(graph, **given))


def _lines(
    found: Reduction, whole: int, folder: Path, saved: Sequence[str]
) -> Iterator[str | Table]:
    yield f"{whole} ops are reduced to {found.ops}, after {found.tests} tests"
    yield f"it fails: {found.failure}"
    rows = [(op.type, op.name or "") for op in found.graph.walk() if not op.is_constant]
    yield Table(("op", "name"), rows[:20])
    if found.drawn:
        yield f"{found.drawn} values are random, since no backend computes those there"
    if not found.is_complete:
        yield "the time was over before the search; more --seconds may find fewer ops"
    yield from (f"saved {folder}/{name}" for name in saved)


def _data(
    found: Reduction, whole: int, folder: Path, saved: Sequence[str]
) -> dict[str, object]:
    return {
        "ops": found.ops,
        "ops_of_original": whole,
        "types": [op.type for op in found.graph.walk() if not op.is_constant],
        "failure": {"kind": found.failure.kind, "what": found.failure.what,
                    "text": found.failure.text},
        "tests": found.tests,
        "steps": [{"what": s.what, "ops": s.ops, "tests": s.tests}
                  for s in found.steps],
        "complete": found.is_complete,
        "random_values": found.drawn,
        "saved": [f"{folder}/{name}" for name in saved],
    }  # fmt: skip
