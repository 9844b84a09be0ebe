"""Windows: the places of largest elements, norms, columns of windows."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from amanda.types import minimum
from amanda_std.engine.annotations import Array, Floating, Host, Index, Number, Real
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, array, ramp
from amanda_std.engine.values import Operators
from amanda_std.engine.values import dims as dims_of
from amanda_std.ops._late import late
from amanda_std.ops.math.reduction import bound
from amanda_std.ops.nn.convolution import Pairs, explicit, steps
from amanda_std.ops.nn.convolution import windows as places_without_ceil
from amanda_std.ops.tensor.creation import number
from amanda_std.ops.tensor.interpolation import is_between, own_dtype, parts_of, whole


class Cut:
    """Where the windows over some dims lie; dims may be values."""

    def __init__(
        self, spatial: Any, window: Any, strides: Any, padding: Any, dilations: Any,
        ceil: bool = False,
    ) -> None:  # fmt: skip
        n = len(window)
        self.spatial, self.window = list(spatial), tuple(window)
        self.strides, self.dilations = steps(strides, n), steps(dilations, n)
        self.pads = explicit(padding, spatial, window, self.strides, self.dilations)
        self.size = places_without_ceil(
            spatial, window, self.strides, tuple(self.pads), self.dilations
        )
        if ceil:
            self.size = [self._rounded_up(i) for i in range(n)]

    def _rounded_up(self, i: int) -> Any:
        """The last window must begin in the data or the pads before it."""
        n, k, s, d = (
            self.spatial[i], self.window[i], self.strides[i], self.dilations[i],
        )  # fmt: skip
        a, b = self.pads[i]
        most = -(-(n + a + b - (k - 1) * d - 1) // s) + 1
        begun = (n + a - 1) // s + 1
        if isinstance(most, Operators) or isinstance(begun, Operators):
            return late.minimum(most, begun)
        return minimum(most, begun)

    def at(self, i: int) -> tuple[Any, Any]:
        """[places, window] along an axis: what is read, and whether it is data."""
        begin = late.multiply(late.arange(0, self.size[i]), self.strides[i])
        inside = late.multiply(late.arange(0, self.window[i]), self.dilations[i])
        begin = late.subtract(begin, self.pads[i][0])
        at = late.add(late.expand_dims(begin, (1,)), inside)
        last = late.subtract(whole(self.spatial[i]), 1)
        return at, is_between(at, np.asarray(0), last)

    @property
    def is_padded(self) -> bool:
        return any(map(any, self.pads))


def _inside(at: Any, size: Any) -> Any:
    last = late.subtract(whole(size), 1)
    return late.minimum(late.maximum(at, np.asarray(0)), last)


def seen_by(x: Any, cut: Cut, fill: Any, ceil: bool = False) -> Any:
    """[N, C, *places, *window]: what each window sees, `fill` where there is none."""
    n = len(cut.window)
    for i in reversed(range(n)):
        at, there = cut.at(i)
        x = late.gather(x, _inside(at, cut.spatial[i]), i + 2)
        if any(cut.pads[i]) or ceil:
            rest = tuple(range(2, 2 * (n - i)))
            x = late.where(late.expand_dims(there, rest) if rest else there, x, fill)
    odd, even = range(3, 2 * n + 2, 2), range(2, 2 * n + 2, 2)
    return late.transpose(x, perm=(0, 1, *even, *odd))


def _flat_window(x: Any, cut: Cut) -> Any:
    """The axes of the window as one."""
    batch, channels = x.shape[:2]
    return late.reshape(x, [batch, channels, *cut.size, math.prod(cut.window)])


@composite
def max_pool_with_indices(
    x: Real, *, window: tuple[int, ...], strides: tuple[int, ...] | None = None,
    padding: Pairs | str | None = None, dilations: tuple[int, ...] | None = None,
    ceil: bool = False, whole_tensor: bool = False, column_major: bool = False,
) -> tuple[Real, Index]:  # fmt: skip
    """The largest of every window of NC* data, and its place

    Places count through the axes after the channels, or, by `whole_tensor`, through all
    of the tensor; `column_major`: the first of these axes fastest."""
    cut = Cut(x.shape[2:], window, strides, padding, dilations, ceil)
    fill = number(bound(own_dtype(x).numpy, True), x)
    seen = _flat_window(seen_by(x, cut, fill, ceil), cut)
    best = late.argmax(seen, -1)
    n = len(cut.window)
    order = range(n) if column_major else reversed(range(n))
    place: Any = None
    step: Any = np.asarray(1)
    tap = dict(zip(range(n), _unravelled(best, cut.window), strict=True))
    for i in order:
        begin = late.multiply(late.arange(0, cut.size[i]), cut.strides[i])
        begin = late.reshape(begin, [cut.size[i], *[1] * (n - 1 - i)])
        one = late.add(tap[i] * cut.dilations[i] - cut.pads[i][0], begin)
        one = late.multiply(one, step)
        place = one if place is None else late.add(place, one)
        step = late.multiply(step, whole(cut.spatial[i]))
    if whole_tensor:
        planes = late.arange(0, late.multiply(whole(x.shape[0]), whole(x.shape[1])))
        first = late.reshape(late.multiply(planes, step), [*x.shape[:2], *[1] * n])
        place = late.add(place, first)
    return late.max(seen, (-1,)), place


def _unravelled(flat: Any, sizes: Any) -> list[Any]:
    """A place counted through some sizes, as one along each."""
    found: list[Any] = []
    for n in reversed(sizes):
        found.insert(0, late.remainder(flat, n))
        flat = late.floor_divide(flat, n)
    return found


@composite
def max_unpool(
    x: Array, indices: Index, size: Host, *, whole_tensor: bool = False
) -> Array:
    """NC* elements at their places in data of a size (of NC*), 0 elsewhere

    Places count as those of max_pool_with_indices."""
    rank = x.ndim
    dims = parts_of(size, rank)
    area: Any = np.asarray(1)
    for d in dims[2:]:
        area = late.multiply(area, whole(d))
    planes = late.multiply(whole(dims[0]), whole(dims[1]))
    at = indices
    if not whole_tensor:
        first = late.multiply(late.arange(0, planes), area)
        first = late.reshape(first, [*x.shape[:2], *[1] * (rank - 2)])
        at = late.add(at, first)
    empty = late.full(late.reshape(late.multiply(planes, area), [1]), number(0, x))
    rows = late.expand_dims(late.reshape(at, [-1]), (1,))
    return late.reshape(late.scatter_nd(empty, rows, late.reshape(x, [-1])), dims)


@composite
def lp_pool(
    x: Floating, *, window: tuple[int, ...], p: float = 2.0,
    strides: tuple[int, ...] | None = None, padding: Pairs | str | None = None,
    dilations: tuple[int, ...] | None = None, ceil: bool = False,
) -> Floating:  # fmt: skip
    """The p-norm of every window of NC* data"""
    cut = Cut(x.shape[2:], window, strides, padding, dilations, ceil)
    n = len(cut.window)
    seen = seen_by(late.pow(late.abs(x), number(p, x)), cut, number(0, x), ceil)
    total = late.sum(seen, tuple(range(n + 2, 2 * n + 2)))
    return late.pow(total, number(1 / p, x))


@composite
def global_lp_pool(x: Floating, *, p: float = 2.0) -> Floating:
    """The p-norm of every channel of NC* data"""
    powered = late.pow(late.abs(x), number(p, x))
    total = late.sum(powered, tuple(range(2, x.ndim)), keepdims=True)
    return late.pow(total, number(1 / p, x))


# -- as many windows as are told -------------------------------------------------


def _stretches(old: Any, new: Any) -> tuple[Any, Any, Any]:
    """[new, most] places of the parts of an axis, which there are, and how many."""
    i = late.arange(0, new)
    old_, new_ = whole(old), whole(new)
    start = late.floor_divide(late.multiply(i, old_), new_)
    last = late.multiply(late.add(i, 1), old_)
    end = late.negative(late.floor_divide(late.negative(last), new_))
    most = old // new + 2
    if isinstance(old, int) and isinstance(new, int):
        most = max((-(-(j + 1) * old // new) - j * old // new for j in range(new)),
                   default=1)  # fmt: skip
    at = late.add(late.expand_dims(start, (1,)), late.arange(0, most))
    stop = late.expand_dims(end, (1,))
    there = late.less(at, stop)
    return late.minimum(at, late.subtract(stop, 1)), there, late.subtract(end, start)


def _adapted(x: Any, size: Any, fold: Any) -> Any:
    rank = x.ndim
    for i, new in enumerate(parts_of(size, rank - 2)):
        axis = i + 2
        at, there, count = _stretches(x.shape[axis], new)
        x = fold(late.gather(x, at, axis), there, count, axis, rank - axis - 1)
    return x


@composite
def adaptive_max_pool(x: Real, size: Host) -> Real:
    """The largest of as many parts of NC* data as are told

    Their lengths are as even as can be; neighbours may overlap by one element."""
    return _adapted(x, size, lambda seen, _, __, axis, ___: late.max(seen, (axis + 1,)))


@composite
def adaptive_avg_pool(x: Floating, size: Host) -> Floating:
    """The mean of as many parts of NC* data as are told, as in adaptive_max_pool"""

    def fold(seen: Any, there: Any, count: Any, axis: int, after: int) -> Any:
        rest = tuple(range(2, 2 + after))
        mask = late.expand_dims(there, rest) if rest else there
        total = late.sum(late.where(mask, seen, number(0, x)), (axis + 1,))
        rest = tuple(range(1, 1 + after))
        many = late.astype(count, dtype=own_dtype(x))
        return late.divide(total, late.expand_dims(many, rest) if rest else many)

    return _adapted(x, size, fold)


# -- windows as columns ------------------------------------------------------------


@composite
def unfold(
    x: Number, *, window: tuple[int, ...], strides: tuple[int, ...] | None = None,
    padding: Pairs | str | None = None, dilations: tuple[int, ...] | None = None,
) -> Number:  # fmt: skip
    """Every window of NC* data as a column: [N, C * window, places] (im2col)"""
    cut = Cut(x.shape[2:], window, strides, padding, dilations)
    n = len(cut.window)
    seen = seen_by(x, cut, number(0, x))
    turned = late.transpose(
        seen, perm=(0, 1, *range(n + 2, 2 * n + 2), *range(2, n + 2))
    )
    rows = x.shape[1] * math.prod(cut.window)
    return late.reshape(turned, [x.shape[0], rows, math.prod(cut.size)])


@composite
def fold(
    x: Number, size: Host, window: Host, *, strides: tuple[int, ...] | None = None,
    padding: Pairs | None = None, dilations: tuple[int, ...] | None = None,
) -> Number:  # fmt: skip
    """Columns [N, C * window, places] added up where their windows lie (col2im)"""
    told = isinstance(window, tuple | list)
    n = len(window) if told else dims_of(window)[0].__index__()
    dims = parts_of(size, n)
    cut = Cut(dims, parts_of(window, n), strides, padding, dilations)
    batch, columns = x.shape[:2]
    channels = columns // math.prod(cut.window)
    parted = late.reshape(x, [batch, channels, *cut.window, *cut.size])
    place, there = None, None
    for i in range(n):
        at, inside = (late.transpose(each, perm=(1, 0)) for each in cut.at(i))
        apart = tuple(a for a in range(2 * n) if a not in (i, n + i))
        at, inside = (late.expand_dims(each, apart) if apart else each
                      for each in (_inside(at, dims[i]), inside))  # fmt: skip
        place = (
            at if place is None else late.add(late.multiply(place, whole(dims[i])), at)
        )
        there = inside if there is None else late.logical_and(there, inside)
    kept = late.where(there, parted, number(0, x))
    rows = late.transpose(kept, perm=(*range(2, 2 * n + 2), 0, 1))
    area: Any = 1
    for d in dims:
        area = area * d
    empty = late.full([area, batch, channels], number(0, x))
    total = late.scatter_nd(
        empty, late.expand_dims(place, (2 * n,)), rows, reduction="add"
    )
    turned = late.transpose(total, perm=(1, 2, 0))
    return late.reshape(turned, [batch, channels, *dims])


# -- samples: loops over windows -----------------------------------------------------


def places_seen(at: Any, window: Any, s: Any, pads: Any, d: Any, size: Any) -> Any:
    """What a window sees: (place in the window, place in the data), if there is one."""
    for tap in np.ndindex(*window):
        where = tuple(
            p * q - low + k * e
            for p, q, k, e, (low, _) in zip(at, s, tap, d, pads, strict=True)
        )
        if all(0 <= p < n for p, n in zip(where, size, strict=True)):
            yield tap, where


_FORMS: list[tuple[Any, ...]] = [
    # data, window, strides, pads, dilations, ceil, places
    ((1, 2, 5, 4), (2, 3), None, ((0, 0), (0, 0)), None, False, (4, 2)),
    ((2, 1, 6, 5), (3, 2), (2, 2), ((1, 1), (0, 1)), None, False, (3, 3)),
    ((1, 1, 7), (2,), (2,), ((0, 0),), None, True, (4,)),
    ((1, 2, 6), (2,), None, ((1, 0),), (2,), False, (5,)),
]


def _over_windows(make: Any, dtypes: Any = ("float64", "float32")) -> Samples:
    """`make(x, plane, taps)` tells the results of a window."""
    for data, window, strides, pads, dilations, ceil, size in _FORMS:
        s, d = steps(strides, len(window)), steps(dilations, len(window))
        for dtype in dtypes:
            x = ramp(*data, dtype=dtype)
            x = x[:, :, ::-1].copy()
            given = {"window": window, "strides": strides, "padding": pads,
                     "dilations": dilations, "ceil": ceil}  # fmt: skip
            for attrs, results in make(x):
                made = [np.zeros((*data[:2], *size), t) for t in results]
                for i, c, *at in np.ndindex(made[0].shape):
                    taps = places_seen(at, window, s, pads, d, data[2:])
                    one = attrs["of"](x, (i, c), [w for _, w in taps])
                    for y, v in zip(made, one, strict=True):
                        y[(i, c, *at)] = v
                more = {k: v for k, v in attrs.items() if k != "of"}
                many = len(made) > 1
                yield Sample((x,), made if many else made[0], given | more)


def _best(all_: bool, column: bool) -> Any:
    def of(x: Any, plane: Any, seen: Any) -> Any:
        value = max(float(x[plane + w]) for w in seen)
        where = next(w for w in seen if float(x[plane + w]) == value)
        sizes = x.shape[2:]
        if column:
            where, sizes = where[::-1], sizes[::-1]
        place = 0
        for p, n in zip(where, sizes, strict=True):
            place = place * n + p
        if all_:
            place += (plane[0] * x.shape[1] + plane[1]) * math.prod(sizes)
        return value, place

    return of


@max_pool_with_indices.samples
def _() -> Samples:
    def make(x: Any) -> Any:
        for all_, column in itertools.product((False, True), repeat=2):
            attrs = {"of": _best(all_, column), "whole_tensor": all_,
                     "column_major": column}  # fmt: skip
            yield attrs, (x.dtype, "int64")

    yield from _over_windows(make, ("float64", "float32", "int32"))
    none = np.zeros((0, 1, 3)), {"window": (2,)}
    y = np.zeros((0, 1, 2))
    yield Sample((none[0],), [y, y.astype("int64")], none[1], smooth=False)


@lp_pool.samples
def _() -> Samples:
    def make(x: Any) -> Any:
        for p in (1.0, 2.0, 3.0):

            def of(x: Any, plane: Any, seen: Any, p: float = p) -> Any:
                total = sum(abs(float(x[plane + w])) ** p for w in seen)
                return (total ** (1 / p),)

            yield {"of": of, "p": p}, (x.dtype,)

    yield from _over_windows(make)
    yield Sample((np.zeros((0, 1, 3)),), np.zeros((0, 1, 2)), {"window": (2,)},
                 smooth=False)  # fmt: skip


@global_lp_pool.samples
def _() -> Samples:
    for dtype in ("float64", "float32"):
        x = ramp(2, 3, 2, 2, dtype=dtype)
        for p in (1.0, 2.0, 3.0):
            y = np.zeros((2, 3, 1, 1))
            for i, c in np.ndindex(2, 3):
                numbers = [abs(float(v)) ** p for v in x[i, c].reshape(-1)]
                y[i, c] = sum(numbers) ** (1 / p)
            yield Sample((x,), y.astype(dtype), {"p": p})
    yield Sample((np.zeros((0, 3, 2)),), np.zeros((0, 3, 1)), smooth=False)


@max_unpool.samples
def _() -> Samples:
    for dtype in ("float64", "int32"):
        x = array([[[5, 7]], [[6, 8]]], dtype)
        at = array([[[1, 3]], [[0, 2]]], "int64")
        y = array([[[0, 5, 0, 7]], [[6, 0, 8, 0]]], dtype)
        yield Sample((x, at, (2, 1, 4)), y)
        wide = at + array([[[0]], [[4]]], "int64")
        yield Sample((x, wide, (2, 1, 4)), y, {"whole_tensor": True})
    none = np.zeros((0, 1, 2)), np.zeros((0, 1, 2), "int64")
    yield Sample((*none, (0, 1, 4)), np.zeros((0, 1, 4)), smooth=False)


def _adaptive(fold_: Any, dtypes: Any) -> Any:
    def make() -> Samples:
        for dtype in dtypes:
            for data, size in (((1, 2, 7, 5), (3, 2)), ((2, 1, 4), (6,)),
                               ((1, 1, 6, 6), (2, 6))):  # fmt: skip
                x = ramp(*data, dtype=dtype)
                y = np.zeros((*data[:2], *size))
                for i, c, *at in np.ndindex(y.shape):
                    spans = [
                        range(math.floor(p * n / m), math.ceil((p + 1) * n / m))
                        for p, n, m in zip(at, data[2:], size, strict=True)
                    ]
                    seen = [float(x[(i, c, *w)]) for w in itertools.product(*spans)]
                    y[(i, c, *at)] = fold_(seen)
                yield Sample((x, size), y.astype(dtype))
        yield Sample((ramp(0, 1, 4), (2,)), np.zeros((0, 1, 2)), smooth=False)

    return make


adaptive_max_pool.samples(_adaptive(max, ("float64", "float32")))
adaptive_avg_pool.samples(
    _adaptive(lambda n: math.fsum(n) / len(n), ("float64", "float32"))
)


def _slow_columns(x: Any, window: Any, s: Any, pads: Any, d: Any, size: Any) -> Any:
    """Of each element of the columns, the element of the data that it is, if any."""
    for i, c, *at in np.ndindex(*x[:2], *size):
        column = int(np.ravel_multi_index(at, size))
        for tap, where in places_seen(at, window, s, pads, d, x[2:]):
            row = c * math.prod(window) + int(np.ravel_multi_index(tap, window))
            yield (i, row, column), (i, c, *where)


def _columns(back: bool) -> Any:
    def make() -> Samples:
        for data, window, strides, pads, dilations, ceil, size in _FORMS:
            if ceil:
                continue
            s, d = steps(strides, len(window)), steps(dilations, len(window))
            wide = (data[0], data[1] * math.prod(window), math.prod(size))
            attrs = {"window": window, "strides": strides, "padding": pads,
                     "dilations": dilations}  # fmt: skip
            for dtype in ("float64", "float32"):
                x, columns = ramp(*data, dtype=dtype), ramp(*wide, dtype=dtype)
                y, total = np.zeros(wide, dtype), np.zeros(data, dtype)
                for at, where in _slow_columns(data, window, s, pads, d, size):
                    y[at] = x[where]
                    total[where] += columns[at]
                if back:
                    attrs.pop("window", None)
                    yield Sample((columns, data[2:], window), total, attrs)
                else:
                    yield Sample((x,), y, attrs)
        flat = {"window": (2,)}
        if back:
            yield Sample((np.zeros((0, 2, 3)), (4,)), np.zeros((0, 1, 4)), flat,
                         smooth=False)  # fmt: skip
        else:
            yield Sample((np.zeros((0, 1, 4)),), np.zeros((0, 2, 3)), flat,
                         smooth=False)  # fmt: skip

    return make


unfold.samples(_columns(False))
fold.samples(_columns(True))
