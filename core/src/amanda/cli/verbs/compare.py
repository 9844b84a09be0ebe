"""`amanda compare`: compares the results of models, backends and stored outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import click

from amanda.cli.group import verb
from amanda.cli.inputs.backend_options import (
    backend_label,
    fallback_option,
    parse_options_per_backend,
    strict_shapes_option,
)
from amanda.cli.inputs.feed_files import read_output_files
from amanda.cli.inputs.feeds import feed_options, read_feeds
from amanda.cli.inputs.model import load_option, open_model
from amanda.cli.output.answer import Answer, Table
from amanda.cli.output.terminal import show_progress
from amanda.comparison import (
    Difference,
    Tolerance,
    compare_values,
    default_tolerance,
    match_ports,
)
from amanda.errors import AmandaError, NumericMismatchError, UsageError

if TYPE_CHECKING:
    from amanda.backend import Compiled
    from amanda.graph import Graph
    from amanda.types import TensorType

__all__ = ["command"]


Key: TypeAlias = str | int


class Side(NamedTuple):
    """A model on a backend with its options; what is compared."""

    file: str
    graph: Graph
    backend: str | None
    options: dict[str, Any]

    @property
    def backend_text(self) -> str:
        return backend_label(self.backend or "the default backend", self.options)


class Comparison(NamedTuple):
    """A result of a side, compared with that of the first side."""

    side: Side
    key: Key
    wanted: Key
    """The key of the result that is wanted."""
    difference: Difference


@verb("compare", "run models on backends and compare the results")
@click.argument("files", type=click.Path(), nargs=-1, required=True)
@click.option(
    "--backend",
    "backends",
    multiple=True,
    metavar="NAME[:DEVICE]",
    help="One for all files, one for each, or several for one file.",
)
@click.option(
    "--expected",
    metavar="FILE",
    help="Outputs to compare with: a .npz file by name, a .npy file, or a folder with "
    "such files, or those of ONNX, output_0.pb.",
)
@click.option(
    "--option",
    "options_told",
    multiple=True,
    metavar="[BACKEND.]NAME=VALUE",
    help="An option of all these backends, or of one by name, as in jax.results=jax, "
    "or by number, as in 2.results=jax. Their documentation lists them.",
)
@fallback_option
@click.option("--format", "form", help="The format of the files; default: detected.")
@load_option
@click.option("--rtol", type=float, help="Default: by element type.")
@click.option("--atol", type=float, help="Default: by element type.")
@strict_shapes_option
@feed_options
def command(
    files: tuple[str, ...],
    *,
    backends: tuple[str, ...],
    expected: str | None,
    options_told: tuple[str, ...],
    fallback: tuple[str, ...],
    form: str | None,
    rtol: float | None,
    atol: float | None,
    strict_shapes: bool,
    **given: Any,
) -> Answer:
    """Run models with the same feeds, and compare their results with the first ones.

    Several files, or one file on several --backend, or with stored --expected outputs.
    Inputs and outputs correspond by name, else by order or type. Types, shapes and
    integers must be equal; floats may differ by ATOL + RTOL * |x|, by default 1e-5 and
    1e-4 for float32. Exit code 5 means that a result differs.

    Examples:
        amanda compare digits.onnx --backend jax --backend numpy --random 1
    """
    sides, form = _sides(files, backends, options_told, form, expected is not None)
    graph = sides[0].graph
    common = {"fallback": fallback or None, "strict_shapes": strict_shapes}
    compiled = [_compile(side, common) for side in sides]
    feeds = read_feeds(graph, **given)
    results = [
        _run(side, each, _feeds_for(each, compiled[0], feeds))
        for side, each in zip(sides, compiled, strict=True)
    ]
    slots = [{slot.key: slot.type for slot in each.outputs} for each in compiled]
    if expected is None:
        reference, wanted, types = _name(sides[0], sides), results[0], slots[0]
        pairs = list(zip(sides, results, slots, strict=True))[1:]
    else:
        reference, wanted = (
            f"the outputs in {expected}",
            read_output_files(expected, slots[0]),
        )
        types = {key: _type_of(value) for key, value in wanted.items()}
        pairs = list(zip(sides, results, slots, strict=True))
    found = [
        Comparison(side, key, name, _compare(result[key], wanted[name], rtol, atol))
        for side, result, own in pairs
        for name, key in match_ports(types, own, "outputs").items()
    ]
    return _comparison_answer(form, reference, sides, found)


def _sides(
    files: Sequence[str],
    backends: Sequence[str],
    options: Sequence[str],
    form: str | None,
    has_expected: bool,
) -> tuple[list[Side], str]:
    """What is compared, and the format of the first file."""
    count = max(len(files), len(backends))
    if count < 2 and not has_expected:
        raise UsageError(
            "there is nothing to compare with",
            expected="two files, --backend twice or more, or --expected",
            got=f"{files[0]} on {', '.join(backends) or 'the default backend'}",
            hint="`amanda backends` lists those that are installed",
        )
    if len(files) > 1 and len(backends) > 1 and len(files) != len(backends):
        raise UsageError(
            "several files take one backend, or one each",
            expected=f"1 or {len(files)} times --backend",
            got=f"{len(backends)} times",
        )
    backends = _one_for_each(backends or [""], count)
    told = parse_options_per_backend(options, backends)
    opened = [open_model(file, form) for file in files]
    graphs = [graph for graph, _ in opened]
    rows = zip(
        _one_for_each(files, count),
        _one_for_each(graphs, count),
        [backend or None for backend in backends],
        told,
        strict=True,
    )
    return [Side(*row) for row in rows], opened[0][1]


def _one_for_each(items: Sequence[Any], count: int) -> list[Any]:
    """One item for each side; a single one is for all."""
    return list(items) * (count if len(items) == 1 else 1)


def _compile(side: Side, common: Mapping[str, Any]) -> Compiled:
    """All sides compile before any runs, so that an invalid option is found early."""
    from amanda.api.compilation import compile

    progress = f"compiling {side.file} for {side.backend_text}"
    with show_progress(progress), _named_in_errors(side):
        return compile(side.graph, side.backend, **common, **side.options)


def _run(side: Side, compiled: Compiled, feeds: Mapping[Any, Any]) -> dict[Any, Any]:
    progress = f"running {side.file} on {side.backend_text}"
    with show_progress(progress), _named_in_errors(side):
        return compiled(feeds)


def _feeds_for(
    compiled: Compiled, first: Compiled, feeds: Mapping[Any, Any]
) -> dict[Any, Any]:
    """The feeds of the first side by the keys of another."""
    if compiled is first:
        return dict(feeds)
    wanted, others = (
        {slot.key: slot.type for slot in each.inputs} for each in (first, compiled)
    )
    keys = match_ports(wanted, others, "inputs")
    return {keys[key]: value for key, value in feeds.items()}


def _type_of(value: Any) -> TensorType:
    from amanda.types import DType, TensorType

    return TensorType(DType.of(value.dtype), value.shape)


@contextmanager
def _named_in_errors(side: Side) -> Iterator[None]:
    """Errors in this context name the backend and its options."""
    try:
        yield
    except AmandaError as error:
        error.who = error.who or f"backend {side.backend_text}"
        raise


def _compare(
    got: Any, wanted: Any, rtol: float | None, atol: float | None
) -> Difference:
    """Compare a result; a tolerance that is given is that of floats alone."""
    dtype = getattr(wanted, "dtype", None)
    if (rtol is None and atol is None) or (
        dtype is not None and dtype.kind in "biuOSU"
    ):
        return compare_values(got, wanted)
    usual = default_tolerance("float32" if dtype is None else dtype)
    given = Tolerance(
        usual.rtol if rtol is None else rtol, usual.atol if atol is None else atol
    )
    return compare_values(got, wanted, given)


def _name(side: Side, sides: Sequence[Side]) -> str:
    """A side as the table names it: by what distinguishes the sides."""
    if len({each.file for each in sides}) == 1:
        return side.backend_text
    if len({each.backend_text for each in sides}) == 1:
        return side.file
    return f"{side.file} on {side.backend_text}"


def _comparison_answer(
    form: str, reference: str, sides: Sequence[Side], found: Sequence[Comparison]
) -> Answer:
    rows = [
        (
            _name(each.side, sides),
            str(each.key),
            "equal" if each.difference.equal else "differs",
            *_measures(each.difference),
        )
        for each in found
    ]
    first = sides[0]
    data: Mapping[str, object] = {
        "file": first.file,
        "format": form,
        "reference": first.backend,
        "reference_options": first.options,
        "compared_with": reference,
        "results": [_comparison_data(each) for each in found],
    }
    equal = all(each.difference.equal for each in found)
    headings = ("compared", "result", "verdict", "max abs", "max rel", "SNR dB",
                "cosine", "ulp")  # fmt: skip
    text: list[str | Table] = [f"compared with {reference}", Table(headings, rows)]
    text += [f"{_name(each.side, sides)}, {each.key}: {each.difference}"
             for each in found if not each.difference.equal]  # fmt: skip
    code = 0 if equal else NumericMismatchError.exit_code
    return Answer(data, text, exit_code=code)


def _measures(found: Difference) -> list[str]:
    values = (found.max_abs, found.max_rel, found.snr, found.cosine, found.max_ulp)
    return ["" if value is None else f"{value:.3g}" for value in values]


def _comparison_data(found: Comparison) -> dict[str, object]:
    side, difference = found.side, found.difference
    return {
        "file": side.file,
        "backend": side.backend,
        "options": side.options,
        "result": str(found.key),
        "wanted": str(found.wanted),
        "equal": difference.equal,
        "largest": difference.max_abs,
        "why": difference.why,
        "max_rel": difference.max_rel,
        "snr": difference.snr,
        "cosine": difference.cosine,
        "max_ulp": difference.max_ulp,
        "elements": difference.size,
        "unequal": difference.unequal,
        "place": difference.place,
    }
