"""Numeric comparison of values: tolerances by element type, and measures of difference.

>>> import numpy as np
>>> found = compare_values(np.float32([1.0, 2.5]), np.float32([1.0, 2.0]))
>>> found.equal, found.max_abs, found.unequal, found.place
(False, 0.5, 1, (1,))
>>> print(found)
1 of 2 elements differ, at [1] 2.5, not 2; max abs 0.5, max rel 0.25, SNR 13 dB
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, log10, sqrt
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Difference", "Tolerance", "compare_values", "default_tolerance"]


class Tolerance(NamedTuple):
    """Values are equal where |got - wanted| <= atol + rtol * |wanted|."""

    rtol: float
    atol: float


_EXACT: Final = Tolerance(0.0, 0.0)
_TOLERANCES: Final = {
    "float64": Tolerance(1e-7, 1e-9),
    "float32": Tolerance(1e-4, 1e-5),
    "float16": Tolerance(1e-2, 1e-3),
    "bfloat16": Tolerance(5e-2, 1e-2),
    "complex128": Tolerance(1e-7, 1e-9),
    "complex64": Tolerance(1e-4, 1e-5),
}
_NARROW: Final = Tolerance(0.25, 0.0625)
"""Floats of 8 bits and fewer: a unit in the last place, and one of small values."""
_BLOCK: Final = 1 << 15
"""Elements that are compared at a time: in float64 they stay in the cache."""


@dataclass(frozen=True)
class Difference:
    """How a value differs from the one that is wanted.

    The measures are None where elements are no numbers, or cannot be compared.
    """

    equal: bool
    """Whether all elements are equal within the tolerance."""
    why: str = ""
    """Why the values cannot be compared element by element: other types or shapes."""
    size: int = 0
    unequal: int = 0
    """The number of elements that are not equal."""
    place: tuple[int, ...] | None = None
    """The index of the element that differs most from its tolerance."""
    got: Any = None
    """The element at `place`, as is `wanted`."""
    wanted: Any = None
    max_abs: float | None = None
    max_rel: float | None = None
    """The largest relative difference, over elements that are wanted to be nonzero."""
    cosine: float | None = None
    """The cosine of the angle between the values as vectors; None for a zero vector."""
    snr: float | None = None
    """The signal-to-noise ratio in dB; infinite where there is no difference."""
    max_ulp: float | None = None
    """The largest number of floats of the element type between two elements."""

    def __str__(self) -> str:
        if self.why:
            return self.why
        if self.place is None:
            return f"{self.size} elements equal"
        where = list(self.place)
        return (
            f"{self.unequal} of {self.size} elements differ, at {where} "
            f"{_element_text(self.got)}, not {_element_text(self.wanted)}"
            + "".join(f"{mark}{text}" for mark, text in self._measures())
        )

    def _measures(self) -> list[tuple[str, str]]:
        """The measures as text, each with what precedes it."""
        shown = [
            ("max abs ", self.max_abs, ""),
            ("max rel ", self.max_rel, ""),
            ("SNR ", self.snr, " dB"),
        ]
        texts = [f"{name}{x:.3g}{unit}" for name, x, unit in shown if x is not None]
        return list(zip(["; ", *[", "] * len(texts)], texts, strict=False))


def default_tolerance(dtype: Any) -> Tolerance:
    """The tolerance of an element type: of whole models, not of single ops.

    >>> default_tolerance("float32"), default_tolerance("int8")
    (Tolerance(rtol=0.0001, atol=1e-05), Tolerance(rtol=0.0, atol=0.0))
    """
    name = str(dtype)
    if name.startswith(("float8", "float6", "float4")):
        return _NARROW
    return _TOLERANCES.get(name, _EXACT)


def compare_values(
    got: Any,
    wanted: Any,
    tolerance: Tolerance | None = None,
    *,
    measures: bool = True,
) -> Difference:
    """Compare two arrays, or sequences or maps of arrays; None is an absent value.

    Element types and shapes must be equal; NaN equals NaN. The default tolerance is
    that of the element type: none for integers. Of sequences and maps the largest
    difference is returned. Without `measures`, `max_abs` is the only measure of floats
    that is computed, which takes a fraction of the time.
    """
    import numpy as np

    if isinstance(wanted, Mapping):
        return _compare_maps(got, wanted, tolerance, measures)
    if isinstance(wanted, list | tuple):
        return _compare_sequences(got, wanted, tolerance, measures)
    if got is None or wanted is None:
        return _unlike(_kind_text(got), _kind_text(wanted), got is wanted)
    if isinstance(got, list | tuple | Mapping):
        return _unlike(_kind_text(got), _kind_text(wanted))
    a, b = np.asarray(got), np.asarray(wanted)
    if a.dtype != b.dtype or a.shape != b.shape:
        return _unlike(_kind_text(a), _kind_text(b))
    if tolerance is None:
        tolerance = default_tolerance(b.dtype)
    if b.dtype.kind in "bOSUT":
        return _compare_exact(a, b)
    if b.dtype.kind in "iu" and tolerance == _EXACT:
        return _with_measures(_compare_exact(a, b), a, b)
    found = _compare_numbers(a, b, tolerance)
    return _with_measures(found, a, b) if measures else found


def _kind_text(value: Any) -> str:
    if value is None:
        return "no value"
    if isinstance(value, list | tuple):
        return f"a sequence of {len(value)}"
    if isinstance(value, Mapping):
        return f"a map of {len(value)}"
    return f"{value.dtype}{list(value.shape)}"


def _unlike(got: str, wanted: str, equal: bool = False) -> Difference:
    return Difference(equal, "" if equal else f"{got}, not {wanted}")


def _compare_sequences(
    got: Any, wanted: Sequence[Any], tolerance: Tolerance | None, measures: bool
) -> Difference:
    if not isinstance(got, list | tuple) or len(got) != len(wanted):
        return _unlike(_kind_text(got), _kind_text(wanted))
    numbered = dict(enumerate(got)), dict(enumerate(wanted))
    return _largest(*numbered, tolerance, measures)


def _compare_maps(
    got: Any, wanted: Mapping[Any, Any], tolerance: Tolerance | None, measures: bool
) -> Difference:
    if not isinstance(got, Mapping) or got.keys() != wanted.keys():
        return _unlike(_kind_text(got), _kind_text(wanted))
    return _largest(got, wanted, tolerance, measures)


def _largest(
    got: Mapping[Any, Any],
    wanted: Mapping[Any, Any],
    tolerance: Tolerance | None,
    measures: bool,
) -> Difference:
    """The largest difference of elements, with all of them counted."""
    found = {
        key: compare_values(got[key], value, tolerance, measures=measures)
        for key, value in wanted.items()
    }
    if not found:
        return Difference(True)
    key, worst = max(
        found.items(),
        key=lambda row: (not row[1].equal, bool(row[1].why), row[1].max_abs or 0.0),
    )
    return replace(
        worst,
        why=f"element {key!r}: {worst.why}" if worst.why else "",
        size=sum(each.size for each in found.values()),
        unequal=sum(each.unequal for each in found.values()),
    )


def _compare_exact(a: Any, b: Any) -> Difference:
    import numpy as np

    same = np.asarray(a == b, dtype=bool)
    unequal = int(same.size - np.count_nonzero(same))
    if not unequal:
        return Difference(True, size=same.size)
    place = _index(int(np.argmin(same)), same.shape)
    return Difference(
        False, size=same.size, unequal=unequal, place=place, got=a[place],
        wanted=b[place],
    )  # fmt: skip


def _compare_numbers(a: Any, b: Any, tolerance: Tolerance) -> Difference:
    """Compare numbers block by block, with the largest difference."""
    unequal, largest, worst, at = 0, 0.0, -1.0, 0
    for start, x, y in _unequal_blocks(a, b):
        apart = _distances(x, y)
        largest = max(largest, float(apart.max()))
        excess = _excess(apart, y, tolerance)
        unequal += int((excess > 1).sum())
        place = int(excess.argmax())
        if excess[place] > max(worst, 1.0):
            worst, at = float(excess[place]), start + place
    found = Difference(not unequal, size=a.size, unequal=unequal, max_abs=largest)
    if not unequal:
        return found
    index = _index(at, a.shape)
    return replace(found, place=index, got=a[index], wanted=b[index])


def _unequal_blocks(a: Any, b: Any) -> Iterator[tuple[int, Any, Any]]:
    """Blocks of two arrays that differ, in float64, each with where it begins."""
    wide = "complex128" if b.dtype.kind == "c" else "float64"
    flat = a.reshape(-1), b.reshape(-1)
    for start in range(0, a.size, _BLOCK):
        x, y = (each[start : start + _BLOCK] for each in flat)
        if not (x == y).all():
            yield start, x.astype(wide), y.astype(wide)


def _distances(x: Any, y: Any) -> Any:
    """|x - y|: 0 between equal infinities and NaN, infinite to a NaN."""
    import numpy as np

    with np.errstate(invalid="ignore", over="ignore"):
        apart = np.abs(x - y)
    lost = np.isnan(apart)
    if lost.any():
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        apart[lost] = inf
        apart[same] = 0.0
    return apart


def _excess(apart: Any, wanted: Any, tolerance: Tolerance) -> Any:
    """Distances in units of what the tolerance allows: more than 1 is unequal."""
    import numpy as np

    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        bound = tolerance.atol + tolerance.rtol * np.abs(wanted)
        excess = np.where(apart > 0, apart / bound, 0.0)
    excess[(apart > 0) & ~np.isfinite(wanted)] = inf
    return np.where(np.isnan(excess), inf, excess)


def _with_measures(found: Difference, a: Any, b: Any) -> Difference:
    """A difference of numbers with its measures."""
    import numpy as np

    wide = "complex128" if b.dtype.kind == "c" else "float64"
    x, y = a.astype(wide).reshape(-1), b.astype(wide).reshape(-1)
    apart = _distances(x, y)
    with np.errstate(over="ignore", invalid="ignore"):
        size = np.abs(y)
        nonzero = np.isfinite(size) & (size > 0)
        ratio = np.divide(apart, size, out=np.zeros_like(size), where=nonzero)
    finite = np.isfinite(x) & np.isfinite(y)
    if not finite.all():
        x, y = x[finite], y[finite]
    return replace(
        found,
        max_abs=float(apart.max(initial=0.0)),
        max_rel=float(ratio.max(initial=0.0)),
        cosine=_cosine(x, y),
        snr=_snr(size, apart),
        max_ulp=_max_ulp(a, b) if b.dtype.kind not in "ciu" else None,
    )


def _cosine(x: np.ndarray, y: np.ndarray) -> float | None:
    import numpy as np

    x, y = x.view("float64"), y.view("float64")  # of complex numbers, both parts
    scale = max(float(np.abs(x).max(initial=0.0)), float(np.abs(y).max(initial=0.0)))
    if not scale:
        return None
    x, y = x / scale, y / scale
    length = sqrt(float(np.vdot(x, x)) * float(np.vdot(y, y)))
    return float(np.vdot(y, x)) / length if length else None


def _snr(size: np.ndarray, apart: np.ndarray) -> float | None:
    import numpy as np

    noise, signal = float(apart.max(initial=0.0)), float(size.max(initial=0.0))
    if not noise:
        return inf
    if noise == inf or not np.isfinite(signal) or not signal:
        return None
    ratio = np.linalg.norm(size / signal) / np.linalg.norm(apart / noise)
    return 20 * (log10(float(ratio)) + log10(signal) - log10(noise))


def _max_ulp(a: Any, b: Any) -> float | None:
    """The largest distance in units of the last place; infinite to NaN and infinity.

    Floats of one sign are ordered as the integers of their bits are.
    """
    import numpy as np

    unsigned = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64"}
    if b.dtype.itemsize not in unsigned:  # long double
        return None
    bits = unsigned[b.dtype.itemsize]
    x, y = (np.ascontiguousarray(each).reshape(-1) for each in (a, b))
    places = [slice(start, start + _BLOCK) for start in range(0, x.size, _BLOCK)]
    return max((_max_ulp_of_block(x[at], y[at], bits) for at in places), default=0.0)


def _max_ulp_of_block(a: Any, b: Any, bits: str) -> float:
    import numpy as np

    top = 8 * b.dtype.itemsize - 1
    ints = [each.view(bits) for each in (a, b)]
    mask = ints[0].dtype.type((1 << top) - 1)
    sizes = [(each & mask).astype("int64") for each in ints]
    signs = [(each >> ints[0].dtype.type(top)).astype(bool) for each in ints]
    other_sign = (sizes[0] + sizes[1].astype("float64")).astype("float64")
    far = np.where(signs[0] == signs[1], np.abs(sizes[0] - sizes[1]), other_sign)
    flat = [each.astype("float64") for each in (a, b)]
    both_nan = np.isnan(flat[0]) & np.isnan(flat[1])
    lost = np.isfinite(flat[0]) != np.isfinite(flat[1])
    far = np.where(lost, inf, np.where(both_nan, 0.0, far))
    return float(far.max(initial=0.0))


def _index(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The index of an element from its place in row-major order."""
    import numpy as np

    return tuple(map(int, np.unravel_index(flat, shape)))


def _element_text(value: Any) -> str:
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if kind == "c":
        return f"{complex(value):.6g}"
    if kind in ("f", "V"):
        return f"{float(value):.6g}"
    return repr(value.item() if kind in ("i", "u", "b") else value)
