"""Samples of an op: arguments and expected results from an independent oracle.

Oracles are loops over Python numbers in double precision, never another kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import nan, prod
from typing import Any

import numpy as np

from amanda.types import DType


@dataclass(frozen=True)
class Sample:
    """One call of an op; `expected` is a list if there are several results.

    `smooth`: whether finite differences can check the gradient here. `fixed`:
    positions of arguments without a gradient."""

    args: tuple[Any, ...]
    expected: Any
    attrs: dict[str, Any] = field(default_factory=dict)
    tolerance: float | None = None
    smooth: bool = True
    fixed: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Copy the attributes, which a loop that yields samples may go on to change."""
        object.__setattr__(self, "attrs", dict(self.attrs))


Samples = Iterator[Sample]

CLOSE = {1: 1e-9, 2: 2e-2, 4: 1e-5, 8: 1e-9}
"""Tolerance for a float by its size in bytes."""


def difference(got: Any, expected: Any, tolerance: float | None = None) -> str | None:
    """How a value differs from the expected one; None if it does not.

    Classes, dtypes, shapes and structure must be equal; numbers may differ by
    rounding, or by `tolerance`."""
    if isinstance(expected, list | tuple):
        if not isinstance(got, list | tuple) or len(got) != len(expected):
            return f"{len(expected)} values expected"
        rows = zip(got, expected, strict=True)
        return next((d for a, b in rows if (d := difference(a, b, tolerance))), None)
    if isinstance(expected, dict):
        if not isinstance(got, dict) or list(got) != list(expected):
            return f"the keys {list(expected)} expected"
        return difference(list(got.values()), list(expected.values()), tolerance)
    if hasattr(expected, "read"):  # the cell of a variable
        return difference(got.read(), expected.read(), tolerance)
    if expected is None:
        return None if got is None else "nothing expected"
    if isinstance(got, list | tuple | dict):
        return f"one value expected, got a {type(got).__name__}"
    return _difference(np.asarray(got), np.asarray(expected), tolerance)


def _difference(got: Any, expected: Any, tolerance: float | None) -> str | None:
    if (got.dtype, got.shape) != (expected.dtype, expected.shape):
        wanted = f"{expected.dtype}{list(expected.shape)}"
        return f"{wanted} expected, got {got.dtype}{list(got.shape)}"
    if expected.dtype == object:
        same = got.tolist() == expected.tolist()
        return None if same else f"{expected.tolist()} expected, got {got.tolist()}"
    if got.dtype.kind in "biu" and tolerance is None:
        same = bool((got == expected).all())
    else:
        wide = "complex128" if got.dtype.kind == "c" else "float64"
        close = tolerance or CLOSE[got.dtype.itemsize // (1 + (wide[0] == "c"))]
        a, b = got.astype(wide), expected.astype(wide)
        same = np.allclose(a, b, rtol=close, atol=close, equal_nan=True)
    if same:
        return None
    return f"{expected.tolist()} expected, got {got.tolist()}"


def array(values: Any, dtype: str = "float64") -> Any:
    return np.array(values, DType(dtype).numpy)


def ramp(*shape: int, dtype: str = "float64", start: float = -1.0) -> Any:
    """Distinct numbers in a pattern that no two axes share."""
    size = prod(shape)
    numbers = [start + 0.37 * i - 0.011 * i * i % 0.3 for i in range(size)]
    return np.array(numbers, "float64").reshape(shape).astype(DType(dtype).numpy)


def arange_of_shape(*shape: int, dtype: str = "int64", start: int = 0) -> Any:
    """Consecutive integers in this shape."""
    size = prod(shape)
    return np.arange(start, start + size).astype(DType(dtype).numpy).reshape(shape)


def elementwise_by_loop(
    function: Callable[..., Any], *arrays: Any, dtype: Any = None
) -> Any:
    """Apply a scalar function to broadcast arrays in a plain loop."""
    full = np.broadcast_arrays(*arrays)
    out = np.empty(full[0].shape, object)
    for at in np.ndindex(out.shape):
        out[at] = function(*(_scalar(a[at]) for a in full))
    return out.astype(arrays[-1].dtype if dtype is None else DType(dtype).numpy)


def _scalar(value: Any) -> Any:
    found = value.item() if hasattr(value, "item") else value
    return found if isinstance(found, bool | int | float | complex) else float(found)


def unary(
    function: Callable[[Any], Any],
    points: Sequence[float],
    *,
    dtypes: Iterable[str] = ("float32", "float64", "float16", "bfloat16"),
    result: str | None = None,
    edges: Sequence[tuple[float, float]] = (),
    smooth: bool = True,
) -> Callable[[], Samples]:
    """Samples of a unary function: each dtype, an empty array, rank 0."""

    def make() -> Samples:
        for dtype in dtypes:
            x = array(points, dtype)
            yield Sample(
                (x,), elementwise_by_loop(function, x, dtype=result), smooth=smooth
            )
        first = next(iter(dtypes))
        x = array(points[0], first)
        yield Sample(
            (x,), elementwise_by_loop(function, x, dtype=result), smooth=smooth
        )
        empty = np.zeros((0, 3), DType(first).numpy)
        yield Sample(
            (empty,), elementwise_by_loop(function, empty, dtype=result), smooth=False
        )
        if edges:
            x = array([a for a, _ in edges], first)
            y = array([b for _, b in edges], result or first)
            yield Sample((x,), y, smooth=False)

    return make


def binary(
    function: Callable[[Any, Any], Any],
    left: Sequence[float],
    right: Sequence[float],
    *,
    dtypes: Iterable[str] = ("float32", "float64", "int32", "int64"),
    result: str | None = None,
    smooth: bool = True,
) -> Callable[[], Samples]:
    """Samples of a binary function: broadcasting, an empty array, rank 0."""

    def make() -> Samples:
        for dtype in dtypes:
            a, b = array(left, dtype), array(right, dtype)
            yield Sample(
                (a, b), elementwise_by_loop(function, a, b, dtype=result), smooth=smooth
            )
            column = a.reshape(-1, 1)
            expected = elementwise_by_loop(function, column, b, dtype=result)
            yield Sample((column, b), expected, smooth=smooth)
        first = next(iter(dtypes))
        a, b = array(left[0], first), array(right, first)
        yield Sample(
            (a, b), elementwise_by_loop(function, a, b, dtype=result), smooth=smooth
        )
        a, b = array(left[0], first), array(right[0], first)
        yield Sample(
            (a, b), elementwise_by_loop(function, a, b, dtype=result), smooth=smooth
        )
        empty = np.zeros((2, 0), DType(first).numpy)
        one = empty[:, :1].reshape(2, 0)
        yield Sample(
            (empty, one),
            elementwise_by_loop(function, empty, one, dtype=result),
            smooth=False,
        )

    return make


def reduce_by_loop(
    function: Callable[[list[Any]], Any],
    x: Any,
    axes: Iterable[int] | None,
    keepdims: bool,
    dtype: str | None = None,
) -> Any:
    """Apply a function to the numbers along axes, gathered in a plain loop."""
    gone = {a % x.ndim for a in (range(x.ndim) if axes is None else axes)}
    shape = [1 if i in gone else d for i, d in enumerate(x.shape)]
    groups: dict[tuple[int, ...], list[Any]] = {at: [] for at in np.ndindex(*shape)}
    for at in np.ndindex(x.shape):
        key = tuple(0 if i in gone else j for i, j in enumerate(at))
        groups[key].append(_scalar(x[at]))
    out = np.empty(shape, object)
    for key, numbers in groups.items():
        out[key] = function(numbers)
    if not keepdims:
        out = out.reshape([d for i, d in enumerate(shape) if i not in gone])
    return np.asarray(out).astype(x.dtype if dtype is None else DType(dtype).numpy)


def reductions(
    function: Callable[[list[Any]], Any],
    *,
    dtypes: Iterable[str] = ("float32", "float64", "int32"),
    result: str | None = None,
    empty: bool = True,
    smooth: bool = True,
) -> Callable[[], Samples]:
    """Samples of a reduction: all forms of axes, keepdims, empty arrays, rank 0.

    `empty`: whether the reduction of no elements has a value."""

    def make() -> Samples:
        for dtype in dtypes:
            whole = dtype.startswith(("int", "uint", "bool"))
            x = (
                arange_of_shape(2, 3, 2, dtype=dtype)
                if whole
                else ramp(2, 3, 2, dtype=dtype)
            )
            if dtype == "bool":
                x = array([[[1, 0], [1, 1], [0, 0]], [[1, 1], [0, 1], [1, 0]]], dtype)
            for axes in (None, (1,), (-1, 0), ()):
                for keep in (False, True):
                    y = reduce_by_loop(function, x, axes, keep, result)
                    yield Sample((x, axes), y, {"keepdims": keep}, smooth=smooth)
        first = next(iter(dtypes))
        x = array(3, first)
        yield Sample(
            (x, None), reduce_by_loop(function, x, None, False, result), smooth=smooth
        )
        forms = [(0, 2), (2, 0)] if empty else [(0, 2)]
        for form in forms:
            x = np.zeros(form, DType(first).numpy)
            y = reduce_by_loop(function, x, (1,), False, result)
            yield Sample((x, (1,)), y, smooth=False)

    return make


__all__ = [
    "Iterable",
    "Sample",
    "Samples",
    "array",
    "binary",
    "arange_of_shape",
    "difference",
    "elementwise_by_loop",
    "reduce_by_loop",
    "nan",
    "ramp",
    "reductions",
    "unary",
]
