"""How much a value is off, and how much of it rounding explains."""

from __future__ import annotations

from math import inf
from typing import Any, Final

from amanda.comparison import Difference, compare_values

__all__ = ["error_size", "rounding_bound"]

_ROUNDING: Final = {"float64": 1e-11, "float32": 2e-5, "complex64": 2e-5}


def error_size(got: Any, wanted: Any, difference: Difference | None = None) -> float:
    """The largest difference, relative to the largest element that is wanted.

    Infinities count as the largest numbers of their type: a mask may have either.
    `difference` is that of the values, if it is known.
    """
    if difference is None:
        difference = compare_values(got, wanted, measures=False)
    if difference.why:
        return inf
    kind = getattr(getattr(wanted, "dtype", None), "kind", "O")
    if kind not in "fcV":
        return inf if difference.unequal else 0.0
    if not difference.max_abs:
        return 0.0
    largest = _largest_element(wanted)
    if kind == "f" and not largest < _infinite(wanted):
        return _masked_size(got, wanted)
    return difference.max_abs / largest if largest else inf


def _infinite(value: Any) -> float:
    """What counts as infinite in an element type."""
    from ml_dtypes import finfo

    limits: Any = finfo
    return float(limits(value.dtype).max) / 2


def _masked_size(got: Any, wanted: Any) -> float:
    """The error of a value with infinite elements, which must be the same in both."""
    import numpy as np

    bound = _infinite(wanted)
    masks = [np.where(np.abs(x) >= bound, np.sign(x), 0) for x in (got, wanted)]
    if not np.array_equal(masks[0], masks[1]):
        return inf
    others = masks[0] == 0
    return error_size(got[others], wanted[others])


def _largest_element(value: Any) -> float:
    import numpy as np

    wide = value if value.dtype.kind in "fc" else value.astype("float32")
    return float(np.nan_to_num(np.abs(wide), nan=0.0, posinf=inf).max(initial=0.0))


def rounding_bound(wanted: Any) -> float:
    """The relative error up to which it is rounding: many additions, few roundings."""
    from ml_dtypes import finfo

    dtype = getattr(wanted, "dtype", None)
    name = str(dtype)
    if name in _ROUNDING:
        return _ROUNDING[name]
    if name == "complex128":
        return _ROUNDING["float64"]
    if dtype is None or dtype.kind not in "fV":
        return 0.0
    limits: Any = finfo
    return 8 * float(limits(dtype).eps)
