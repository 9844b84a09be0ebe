"""Strict comparison of outputs: their number, dtypes, shapes and values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["difference"]


def difference(
    found: Sequence[Any], expected: Sequence[Any], rtol: float, atol: float,
    ulps: int = 0,
) -> str | None:  # fmt: skip
    """The first difference between outputs, described; None where there is none.

    `ulps`: tolerated units in the last place of the largest element.
    """
    if len(found) != len(expected):
        return f"{len(found)} outputs, not {len(expected)}"
    for i, (have, want) in enumerate(zip(found, expected, strict=True)):
        why = _value_difference(have, want, rtol, atol, ulps)
        if why:
            return f"output {i}: {why}"
    return None


def _value_difference(
    have: Any, want: Any, rtol: float, atol: float, ulps: int
) -> str | None:
    import numpy as np

    if isinstance(want, list | tuple):
        if not isinstance(have, list | tuple):
            return f"{type(have).__name__}, not a sequence"
        return difference(have, want, rtol, atol, ulps)
    if want is None or have is None:
        return None if have is want else f"{have}, not {want}"
    have, want = np.asarray(have), np.asarray(want)
    if have.dtype != want.dtype:
        return f"{have.dtype}, not {want.dtype}"
    if have.shape != want.shape:
        return f"shape {have.shape}, not {want.shape}"
    if want.dtype.kind in "OUS":
        return None if (have == want).all() else "other strings"
    if have.dtype.name == "bfloat16":
        rtol = max(rtol, 2**-6)  # two units in the last place, as in the suite
    wide = "complex128" if want.dtype.kind == "c" else "float64"
    a, b = have.astype(wide), want.astype(wide)
    if ulps:
        atol = max(atol, ulps * _ulp_of_largest(want))
    close = np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
    if close.all():
        return None
    bad = np.argwhere(~close)
    at = tuple(map(int, bad[0]))
    return f"{len(bad)} of {want.size} elements, at {list(at)} {a[at]}, not {b[at]}"


def _ulp_of_largest(array: Any) -> float:
    """One unit in the last place of the largest finite element; 0 for integers."""
    import numpy as np
    from ml_dtypes import finfo

    limits: Any = finfo
    try:
        step = float(limits(array.dtype).eps)
    except ValueError:
        return 0.0
    sizes = np.abs(array.astype("complex128")).reshape(-1)
    return step * float(sizes[np.isfinite(sizes)].max(initial=0.0))
