"""`amanda compare`: a model on several backends, result by result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import click

from amanda.cli.answer import Answer, Table
from amanda.cli.feeding import feeds_of, options
from amanda.cli.frame import verb
from amanda.cli.source import opened
from amanda.cli.terminal import working
from amanda.errors import NumericMismatchError, UsageError

__all__ = ["Difference", "command", "difference"]


class Difference(NamedTuple):
    """How far one result is from the one it should equal."""

    equal: bool
    largest: float | None  # absolute; None where they cannot be compared
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
@click.option("--format", "form", help="The format of FILE, where it does not show.")
@click.option("--rtol", type=float, default=1e-4, show_default=True)
@click.option("--atol", type=float, default=1e-5, show_default=True)
@options
def command(
    file: str,
    *,
    backends: tuple[str, ...],
    form: str | None,
    rtol: float,
    atol: float,
    **given: Any,
) -> Answer:
    """Feed FILE the same values on each backend, and compare what comes out.

    Types and shapes must be equal, integers too; floats may differ by ATOL plus RTOL
    times the size of the number. Exit code 5 says that something differs.
    """
    from amanda.running import run

    if len(backends) < 2:
        raise UsageError(
            "there is nothing to compare with",
            expected="--backend twice or more",
            got=", ".join(backends) or "none",
            hint="`amanda backends` lists those that are installed",
        )
    graph, form = opened(file, form)
    feeds = feeds_of(graph, **given)
    found = {}
    for name in backends:
        with working(f"running {file} on {name}"):
            found[name] = run(graph, feeds, backend=name)
    told = [
        (name, key, difference(found[name][key], wanted, rtol, atol))
        for name in backends[1:]
        for key, wanted in found[backends[0]].items()
    ]
    return _answer(file, form, backends, told)


def difference(got: Any, wanted: Any, rtol: float, atol: float) -> Difference:
    """
    >>> import numpy as np
    >>> difference(np.float32([1.0, 2.5]), np.float32([1.0, 2.0]), 1e-4, 1e-5)
    Difference(equal=False, largest=0.5, why='')
    """
    import numpy as np

    a, b = np.asarray(got), np.asarray(wanted)
    if a.dtype != b.dtype or a.shape != b.shape:
        why = f"{a.dtype}{list(a.shape)} against {b.dtype}{list(b.shape)}"
        return Difference(False, None, why)
    if a.dtype.kind not in "fcV":
        return Difference(bool(np.array_equal(a, b)), None)
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    a, b = a.astype(wide), b.astype(wide)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        far = np.where(same, 0.0, np.abs(a - b))
        near = same | (np.isfinite(b) & (far <= atol + rtol * np.abs(b)))
    return Difference(bool(np.all(near)), float(np.max(far, initial=0.0)))


def _answer(
    file: str,
    form: str,
    backends: tuple[str, ...],
    told: list[tuple[str, Any, Difference]],
) -> Answer:
    rows = [
        (name, str(key), "equal" if d.equal else "differs", d.why or _far(d))
        for name, key, d in told
    ]
    data: Mapping[str, object] = {
        "file": file,
        "format": form,
        "reference": backends[0],
        "results": [
            {"backend": name, "result": str(key), **d._asdict()}
            for name, key, d in told
        ],
    }
    equal = all(d.equal for _, _, d in told)
    text: list[str | Table] = [f"compared with {backends[0]}"]
    text.append(Table(("backend", "result", "verdict", "largest difference"), rows))
    code = 0 if equal else NumericMismatchError.exit_code
    return Answer(data, text, exit_code=code)


def _far(found: Difference) -> str:
    return "" if found.largest is None else f"{found.largest:.3g}"
