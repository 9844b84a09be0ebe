"""`amanda bisect`: the first op at which two runs differ."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click

from amanda.cli import (
    Answer,
    Table,
    feed_options,
    load_option,
    open_model,
    parse_backend_options,
    read_feeds,
    show_progress,
    verb,
)
from amanda.comparison import Difference
from amanda.errors import NumericMismatchError, UsageError
from amanda.graph import OutputPort
from amanda_inspect.anonymous import Anonymous, anonymize
from amanda_inspect.bisection import MAX_MEMORY, Bisection, OpError, bisect
from amanda_inspect.matching import describe_differences
from amanda_inspect.reproduction import Reproduction, save_reproduction
from amanda_inspect.windows import Backend

__all__ = ["command"]


@verb("bisect", "find the first op where two models, or two backends, differ")
@click.argument("files", type=click.Path(), nargs=-1, required=True)
@click.option(
    "--backend",
    "backends",
    multiple=True,
    metavar="NAME[:DEVICE]",
    help="That of the reference, and the other one if it is given twice.",
)
@click.option(
    "--option",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    help="An option of the other backend; its documentation lists them.",
)
@click.option(
    "--max-memory",
    type=int,
    default=MAX_MEMORY >> 20,
    show_default=True,
    metavar="MB",
    help="Memory for values of both runs.",
)
@click.option(
    "--save",
    type=click.Path(path_type=Path, file_okay=False),
    help="A folder for the op alone, what it reads, both outputs and a script.",
)
@click.option(
    "--anonymous-weights",
    "is_anonymous",
    is_flag=True,
    help="Save random weights in place of those of the models, if the error shows.",
)
@click.option("--format", "form", help="The format of the files; default: detected.")
@load_option
@feed_options
def command(
    files: tuple[str, ...],
    *,
    backends: tuple[str, ...],
    options: tuple[str, ...],
    max_memory: int,
    save: Path | None,
    is_anonymous: bool,
    form: str | None,
    **given: Any,
) -> Answer:
    """Find the first op of a model that makes an error against a reference.

    Two FILES of any formats, the reference first; or one file on two backends. The
    error that an op makes, on what the reference reads, is separated from what it
    inherits. Exit code 5 means that an op makes an error.

    Examples:
        amanda bisect digits.onnx --backend numpy --backend jax --random 1
    """
    if len(files) > 2 or len(backends) > 2 or len(files) + len(backends) < 2:
        raise UsageError(
            "there are not two runs to compare",
            expected="two files, or one file and --backend twice",
            got=f"{len(files)} files, --backend {len(backends)} times",
        )
    if len(files) == 1 and len(backends) < 2:
        raise UsageError(
            "one file is compared on two backends",
            expected="--backend twice",
            got=", ".join(backends),
        )
    if is_anonymous and save is None:
        raise UsageError(
            "random weights are those of a reproduction",
            expected="--anonymous-weights with --save FOLDER",
            got="no --save",
        )
    graphs = [open_model(file, form)[0] for file in files]
    feeds = read_feeds(graphs[0], **given)
    told = parse_backend_options(options)
    first = backends[0] if backends else None
    second = backends[1] if len(backends) > 1 else None
    with show_progress(f"comparing {' and '.join(files)}"):
        found = bisect(
            graphs[0],
            graphs[-1],
            feeds,
            backend=first,
            other_backend=second,
            other_options=told,
            max_memory=max_memory << 20,
        )
    bundle = None
    if save is not None and found.first is not None:
        sides = Backend(first, {}), Backend(second or first, told)
        bundle = _save(found.first, save, sides, is_anonymous)
    text = [*_lines(found, files[-1]), *(_bundle_lines(bundle) if bundle else ())]
    code = NumericMismatchError.exit_code if found.first else 0
    return Answer(_data(found, bundle), text, exit_code=code)


class _Bundle(NamedTuple):
    """What was saved of an error."""

    folder: Path
    files: list[str]
    anonymous: Anonymous | None = None


def _save(
    error: OpError, folder: Path, sides: tuple[Backend, Backend], is_anonymous: bool
) -> _Bundle:
    if not is_anonymous:
        made = Reproduction.of(error)
        return _Bundle(folder, save_reproduction(made, folder, sides[1], str(error)))
    with show_progress("drawing random weights"):
        found = anonymize(error, sides)
    files = []
    if found.reproduction is not None:
        title = f"{error.op.label}, with random weights"
        files = save_reproduction(found.reproduction, folder, sides[1], title)
    return _Bundle(folder, files, found)


def _bundle_lines(bundle: _Bundle) -> Iterator[str]:
    found = bundle.anonymous
    if found is not None and found.reproduction is None:
        yield (
            f"\nnothing is saved: the error does not show with random weights, which "
            f"were drawn {found.draws} times; without --anonymous-weights, --save "
            "writes those of the model"
        )
    elif found is not None:
        yield f"\nrandom weights, with which the error shows (size {found.size:.3g}):"
        yield from (f"  {place}" for place in found.replaced)
        yield from (f"  kept: {place}" for place in found.kept)
    yield from (f"saved {bundle.folder}/{name}" for name in bundle.files)


def _lines(found: Bisection, file: str) -> Iterator[str | Table]:
    rows = [
        (str(key), "equal" if each.equal else "differs", *_measures(each))
        for key, each in found.results.items()
    ]
    yield Table(("result", "verdict", "max abs", "max rel", "SNR dB"), rows)
    if found.unmatched or found.unmatched_of_reference:
        counts = len(found.unmatched), len(found.unmatched_of_reference)
        yield (
            f"{counts[0]} ops correspond to none of the reference, which has "
            f"{counts[1]} others"
        )
    first = found.first
    if first is None:
        yield f"no op of {file} makes an error beyond rounding"
        return
    yield f"\nthe first op of {file} that makes an error:"
    yield from _error_lines(first)
    others = [each for each in found.errors if each.is_made and each is not first]
    if others:
        yield f"\n{len(others)} more ops make errors; the largest:"
        others.sort(key=lambda each: -each.size)
        yield Table(
            ("op", "error made", "inherited and made"),
            [(each.op.label, *_sizes(each)) for each in others[:5]],
        )


def _error_lines(error: OpError) -> Iterator[str | Table]:
    where = "".join(f", in a body of {name}" for name in reversed(error.inside))
    yield f"  {error.op.label}{where}"
    if error.counterpart is not None:
        yield f"  in the reference: {error.counterpart.label}"
        differences = describe_differences(error.op, error.counterpart)
        yield from (f"  {text}" for text in differences)
    if error.sources:
        yield f"  mapped by {error.rule} from {', '.join(error.sources)}"
    yield f"  makes:    {error.made}"
    yield f"  in all:   {error.total}"
    if error.unmatched:
        names = ", ".join(each.label for each in error.unmatched[:8])
        yield f"  computed with ops that the reference has not: {names}"
    if error.missing:
        names = ", ".join(each.label for each in error.missing[:8])
        yield f"  without ops that the reference computes it with: {names}"
    if error.values is not None:
        rows = [
            (f"reads {_name(port)}", *_range(value))
            for port, value in error.values.inputs.items()
        ]
        rows += [("gives", *_range(value)) for value in error.values.made.values()]
        rows += [("wanted", *_range(value)) for value in error.values.wanted.values()]
        yield Table(("value", "type", "least", "largest", "mean"), rows)


def _name(port: OutputPort) -> str:
    return port.name or port.op.label


def _range(value: Any) -> tuple[str, ...]:
    import numpy as np

    dtype = getattr(value, "dtype", None)
    if dtype is None:
        return (type(value).__name__, "", "", "")
    kind = f"{dtype}{list(value.shape)}"
    if dtype.kind not in "fiuV" or not value.size:
        return (kind, "", "", "")
    wide = np.asarray(value).astype("float64")
    return (kind, *(f"{float(f(wide)):.6g}" for f in (np.min, np.max, np.mean)))


def _measures(found: Difference) -> list[str]:
    values = (found.max_abs, found.max_rel, found.snr)
    return ["" if value is None else f"{value:.3g}" for value in values]


def _sizes(error: OpError) -> tuple[str, str]:
    return tuple(  # type: ignore[return-value]
        each.why or f"{each.max_abs:.3g}" if each.max_abs is not None else each.why
        for each in (error.made, error.total)
    )


def _data(found: Bisection, bundle: _Bundle | None) -> dict[str, object]:
    return {
        "first": None if found.first is None else _error_data(found.first),
        "errors": [_error_data(each) for each in found.errors if each.is_made],
        "results": {str(key): _difference_data(d) for key, d in found.results.items()},
        "unmatched": [op.label for op in found.unmatched],
        "unmatched_of_reference": [op.label for op in found.unmatched_of_reference],
        "saved": [] if bundle is None else bundle.files,
        "anonymous": _anonymous_data(bundle and bundle.anonymous),
    }


def _anonymous_data(found: Anonymous | None) -> dict[str, object] | None:
    if found is None:
        return None
    return {
        "shows": found.reproduction is not None,
        "draws": found.draws,
        "size": found.size,
        "replaced": found.replaced,
        "kept": found.kept,
    }


def _error_data(error: OpError) -> dict[str, object]:
    return {
        "op": error.op.name,
        "type": error.op.type,
        "label": error.op.label,
        "counterpart": None if error.counterpart is None else error.counterpart.label,
        "differences": []
        if error.counterpart is None
        else describe_differences(error.op, error.counterpart),
        "inside": list(error.inside),
        "sources": list(error.sources),
        "rule": error.rule,
        "size": error.size,
        "made": _difference_data(error.made),
        "total": _difference_data(error.total),
        "unmatched": [op.label for op in error.unmatched],
        "missing": [op.label for op in error.missing],
    }


def _difference_data(found: Difference) -> dict[str, object]:
    return {
        "equal": found.equal, "why": found.why, "max_abs": found.max_abs,
        "max_rel": found.max_rel, "snr": found.snr, "unequal": found.unequal,
        "elements": found.size, "place": found.place,
    }  # fmt: skip
