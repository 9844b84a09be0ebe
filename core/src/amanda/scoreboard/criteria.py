"""Criteria for outputs whose values a framework leaves open.

A criterion is a function of calls of the compiled graph: `draw()` returns the outputs
of another call. It returns why the outputs are not right; None where they are.

    DataSet(feeds, expected, rtol, atol, criterion=same_quantities(svd, expected, ...))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from amanda.scoreboard.comparison import difference

__all__ = [
    "Criterion",
    "as_exact_as",
    "same_distribution",
    "same_quantities",
    "same_types",
]

Criterion = Callable[[Callable[[], Sequence[Any]]], str | None]

_FALSE_ALARM: Final = 1e-9
"""The chance that all elements of a right output meet the bound, at most."""
_ERRORS: Final = 6.0
"""How many standard errors the mean ranks of draws may be apart."""
_ERROR_RATIO: Final = 2.0
"""How much larger the rounding error of right outputs may be than that of others."""


def same_types(expected: Sequence[Any]) -> Criterion:
    """Dtypes and shapes as expected: all that uninitialized memory has."""

    def why(draw: Callable[[], Sequence[Any]]) -> str | None:
        return _type_difference(draw(), expected)

    return why


def same_quantities(
    quantities: Callable[..., Sequence[Any]], expected: Sequence[Any], rtol: float,
    atol: float,
) -> Criterion:  # fmt: skip
    """Equal quantities that the outputs determine, as A = QR of a factorization.

    `quantities` is a function of the outputs.
    """

    def why(draw: Callable[[], Sequence[Any]]) -> str | None:
        outputs = draw()
        return _type_difference(outputs, expected) or difference(
            quantities(*outputs), quantities(*expected), rtol, atol
        )

    return why


def as_exact_as(
    expected: Sequence[Any], exact: Sequence[Any], rtol: float, atol: float,
    ulps: int = 0,
) -> Criterion:  # fmt: skip
    """Outputs equal to `expected`, or as near to `exact` as `expected` are.

    `exact` are the same outputs computed in float64. Each output is right if it equals
    the expected one within the tolerance, or if its largest error is at most twice the
    largest error of the expected one, both against the exact one. The second holds
    where rounding decides most digits, as of a gradient that is 0 in exact arithmetic.
    """

    def why(draw: Callable[[], Sequence[Any]]) -> str | None:
        outputs = draw()
        wrong = _type_difference(outputs, expected)
        if wrong:
            return wrong
        for i, (have, want, true) in enumerate(
            zip(outputs, expected, exact, strict=True)
        ):
            wrong = difference([have], [want], rtol, atol, ulps)
            ours, theirs = _largest_error(have, true), _largest_error(want, true)
            if wrong and not ours <= _ERROR_RATIO * theirs:
                wrong = wrong.removeprefix("output 0: ")
                return f"output {i}: {wrong}; errors {ours:.1e} and {theirs:.1e}"
        return None

    return why


def _largest_error(array: Any, exact: Any) -> float:
    """The largest distance of an element from the exact one."""
    import numpy as np

    wide = np.result_type(exact, np.float64)
    apart = np.abs(np.asarray(array).astype(wide) - np.asarray(exact).astype(wide))
    return float(apart.max(initial=0.0))


def same_distribution(
    draws: Sequence[Any], expected: Sequence[Any], rtol: float, atol: float
) -> Criterion:
    """Outputs of the same distribution as `draws`, an array [calls, elements] each.

    As many calls are made, whose first elements are compared. Three two-sample tests
    compare every output: the Kolmogorov-Smirnov statistic of each element, the same of
    the difference between neighbouring elements (which depends on what is drawn
    together), both at a level of 1e-9 for the output as a whole; the mean of an
    output's ranks and of their squares must agree to 6 standard errors. Values closer
    than the tolerance are equal.
    """

    def why(draw: Callable[[], Sequence[Any]]) -> str | None:
        import numpy as np

        calls = [draw() for _ in range(len(draws[0]))]
        for outputs in calls:
            wrong = _type_difference(outputs, expected)
            if wrong:
                return wrong
        for i, theirs in enumerate(draws):
            count = np.asarray(theirs).reshape(len(theirs), -1).shape[1]
            flat = [np.asarray(each[i]).reshape(-1)[:count] for each in calls]
            ours = _as_columns(np.stack(flat))
            wrong = _distribution_difference(ours, _as_columns(theirs), rtol, atol)
            if wrong:
                return f"output {i}: {wrong}"
        return None

    return why


def _type_difference(found: Sequence[Any], expected: Sequence[Any]) -> str | None:
    import numpy as np

    have, want = ([(str(x.dtype), x.shape) for x in map(np.asarray, values)]
                  for values in (found, expected))  # fmt: skip
    return None if have == want else f"dtypes and shapes {have}, not {want}"


def _as_columns(draws: Any) -> Any:
    """Draws as rows of real numbers."""
    import numpy as np

    rows = np.asarray(draws)
    rows = rows.reshape(len(rows), -1)
    if rows.dtype.kind == "c":
        return np.concatenate([rows.real, rows.imag], 1).astype("float64")
    return rows.astype("float64")


def _distribution_difference(
    ours: Any, theirs: Any, rtol: float, atol: float
) -> str | None:
    import numpy as np

    if not ours.size:
        return None
    level = -np.log(_FALSE_ALARM / (2 * ours.shape[1])) / 2
    bound = float(np.sqrt(level * (1 / len(ours) + 1 / len(theirs))))
    for name, change in (("element", _identity), ("difference", _differences)):
        a, b = change(ours), change(theirs)
        if not a.shape[1]:
            continue
        ranks = _ranks(np.concatenate([a, b]), rtol, atol)
        apart = _kolmogorov_smirnov(ranks, len(a))
        worst = int(apart.argmax())
        if apart[worst] > bound:
            found = f"Kolmogorov-Smirnov statistic {apart[worst]:.3f}"
            return f"{name} {worst}: {found} of {len(a)} draws, not under {bound:.3f}"
        errors = _rank_errors(ranks, len(a))
        if errors > _ERRORS:
            return f"the mean ranks of {name}s are {errors:.1f} standard errors apart"
    return None


def _identity(rows: Any) -> Any:
    return rows


def _differences(rows: Any) -> Any:
    return rows[:, 1:] - rows[:, :-1]


def _ranks(rows: Any, rtol: float, atol: float) -> Any:
    """The rank of each value in its column; equal within the tolerance is equal."""
    import numpy as np

    order = np.argsort(rows, axis=0, kind="stable")
    values = np.take_along_axis(rows, order, 0)
    with np.errstate(invalid="ignore"):
        apart = np.abs(np.diff(values, axis=0))
        is_new = apart > atol + rtol * np.abs(values[1:])
    is_new |= np.isnan(values[1:]) & ~np.isnan(values[:-1])
    levels = np.concatenate([np.zeros_like(is_new[:1]), is_new]).cumsum(0)
    found = np.empty(rows.shape)
    np.put_along_axis(found, order, levels, 0)
    return found


def _kolmogorov_smirnov(ranks: Any, count: int) -> Any:
    """The largest difference between the shares of ours and theirs up to a rank."""
    import numpy as np

    apart = np.zeros(ranks.shape[1])
    for column in range(ranks.shape[1]):
        numbers = ranks[:, column].astype("int64")
        size = int(numbers.max()) + 1
        ours = np.bincount(numbers[:count], minlength=size).cumsum() / count
        theirs = np.bincount(numbers[count:], minlength=size).cumsum()
        apart[column] = np.abs(ours - theirs / (len(numbers) - count)).max()
    return apart


def _rank_errors(ranks: Any, count: int) -> float:
    """How many standard errors the draws' mean ranks, and their squares, are apart."""
    import numpy as np

    centered = ranks / np.maximum(ranks.max(0), 1) - 0.5
    worst = 0.0
    for per_draw in (centered.mean(1), np.square(centered).mean(1)):
        ours, theirs = per_draw[:count], per_draw[count:]
        error = np.sqrt(ours.var() / len(ours) + theirs.var() / len(theirs))
        apart = abs(float(ours.mean() - theirs.mean()))
        if apart > 1e-9:
            worst = max(worst, apart / float(error) if error > 0 else math.inf)
    return worst
