"""Strict comparison of outputs: their number, dtypes, shapes and values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amanda.comparison import Tolerance, compare_values

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
        if isinstance(have, list | tuple) and isinstance(want, list | tuple):
            why = difference(have, want, rtol, atol, ulps)
        else:
            compared = compare_values(have, want, _tolerance(want, rtol, atol, ulps))
            why = None if compared.equal else str(compared)
        if why:
            return f"output {i}: {why}"
    return None


def _tolerance(want: Any, rtol: float, atol: float, ulps: int) -> Tolerance:
    """The tolerance of an output; of bfloat16 at least two units in the last place."""
    import numpy as np

    if getattr(getattr(want, "dtype", None), "name", "") == "bfloat16":
        rtol = max(rtol, 2**-6)
    if ulps and want is not None:
        atol = max(atol, ulps * _ulp_of_largest(np.asarray(want)))
    return Tolerance(rtol, atol)


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
