"""`amanda compare`: compares the results of several backends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from amanda.cli.group import verb
from amanda.cli.inputs.backend_options import (
    backend_label,
    fallback_option,
    parse_options_per_backend,
    strict_shapes_option,
)
from amanda.cli.inputs.feeds import feed_options, read_feeds
from amanda.cli.inputs.model import load_option, open_model
from amanda.cli.output.answer import Answer, Table
from amanda.cli.output.terminal import show_progress
from amanda.errors import AmandaError, NumericMismatchError, UsageError

if TYPE_CHECKING:
    from amanda.graph import Graph

__all__ = ["ResultDifference", "command", "compare_arrays"]


class ComparedBackend(NamedTuple):
    """A backend to compare, with its options."""

    backend: str
    options: dict[str, Any]

    def __str__(self) -> str:
        return backend_label(self.backend, self.options)


class ResultDifference(NamedTuple):
    """The difference of a result from that of the first backend."""

    equal: bool
    largest: float | None  # absolute; None if they cannot be compared
    why: str = ""


@verb("compare", "run a model on several backends and compare")
@click.argument("file", type=click.Path())
@click.option(
    "--backend",
    "backends",
    multiple=True,
    metavar="NAME[:DEVICE]",
    help="Give two or more; all are compared with the first.",
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
@click.option("--format", "form", help="The format of FILE; default: detected.")
@load_option
@click.option("--rtol", type=float, default=1e-4, show_default=True)
@click.option("--atol", type=float, default=1e-5, show_default=True)
@strict_shapes_option
@feed_options
def command(
    file: str,
    *,
    backends: tuple[str, ...],
    options_told: tuple[str, ...],
    fallback: tuple[str, ...],
    form: str | None,
    rtol: float,
    atol: float,
    strict_shapes: bool,
    **given: Any,
) -> Answer:
    """Run FILE with the same feeds on each backend, and compare the results.

    Types, shapes and integers must be equal; floats may differ by ATOL + RTOL * |x|.
    Exit code 5 means that a result differs. A backend may be named twice, with
    different options.
    """
    if len(backends) < 2:
        raise UsageError(
            "there is nothing to compare with",
            expected="--backend twice or more",
            got=", ".join(backends) or "none",
            hint="`amanda backends` lists those that are installed",
        )
    told = parse_options_per_backend(options_told, backends)
    sides = [ComparedBackend(*each) for each in zip(backends, told, strict=True)]
    graph, form = open_model(file, form)
    feeds = read_feeds(graph, **given)
    common = {"fallback": fallback or None, "strict_shapes": strict_shapes}
    reference, *others = _results(file, graph, feeds, sides, common)
    found = [
        (side, key, compare_arrays(results[key], wanted, rtol, atol))
        for side, results in zip(sides[1:], others, strict=True)
        for key, wanted in reference.items()
    ]
    return _comparison_answer(file, form, sides, found)


def _results(
    file: str,
    graph: Graph,
    feeds: Mapping[Any, Any],
    sides: Sequence[ComparedBackend],
    common: Mapping[str, Any],
) -> list[dict[Any, Any]]:
    """The results of each backend. All compile before any runs, so that an invalid
    option is found early."""
    from amanda.api.compilation import compile

    compiled = []
    for side in sides:
        with show_progress(f"compiling {file} for {side}"), _named_in_errors(side):
            compiled.append(compile(graph, side.backend, **common, **side.options))
    found = []
    for side, each in zip(sides, compiled, strict=True):
        with show_progress(f"running {file} on {side}"), _named_in_errors(side):
            found.append(each(feeds))
    return found


@contextmanager
def _named_in_errors(side: ComparedBackend) -> Iterator[None]:
    """Errors in this context name the backend and its options."""
    try:
        yield
    except AmandaError as error:
        error.who = error.who or f"backend {side}"
        raise


def compare_arrays(got: Any, wanted: Any, rtol: float, atol: float) -> ResultDifference:
    """
    >>> import numpy as np
    >>> compare_arrays(np.float32([1.0, 2.5]), np.float32([1.0, 2.0]), 1e-4, 1e-5)
    ResultDifference(equal=False, largest=0.5, why='')
    """
    import numpy as np

    a, b = np.asarray(got), np.asarray(wanted)
    if a.dtype != b.dtype or a.shape != b.shape:
        why = f"{a.dtype}{list(a.shape)} against {b.dtype}{list(b.shape)}"
        return ResultDifference(False, None, why)
    if a.dtype.kind not in "fcV":
        return ResultDifference(bool(np.array_equal(a, b)), None)
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    a, b = a.astype(wide), b.astype(wide)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        far = np.where(same, 0.0, np.abs(a - b))
        near = same | (np.isfinite(b) & (far <= atol + rtol * np.abs(b)))
    return ResultDifference(bool(np.all(near)), float(np.max(far, initial=0.0)))


def _comparison_answer(
    file: str,
    form: str,
    sides: Sequence[ComparedBackend],
    told: Sequence[tuple[ComparedBackend, Any, ResultDifference]],
) -> Answer:
    rows = [
        (
            str(side),
            str(key),
            "equal" if d.equal else "differs",
            d.why or _largest_text(d),
        )
        for side, key, d in told
    ]
    data: Mapping[str, object] = {
        "file": file,
        "format": form,
        "reference": sides[0].backend,
        "reference_options": sides[0].options,
        "results": [
            {**side._asdict(), "result": str(key), **d._asdict()}
            for side, key, d in told
        ],
    }
    equal = all(d.equal for _, _, d in told)
    text: list[str | Table] = [f"compared with {sides[0]}"]
    text.append(Table(("backend", "result", "verdict", "largest difference"), rows))
    code = 0 if equal else NumericMismatchError.exit_code
    return Answer(data, text, exit_code=code)


def _largest_text(found: ResultDifference) -> str:
    return "" if found.largest is None else f"{found.largest:.3g}"
