"""What data decides: boxes that stay, elements that differ, counts and segments."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from amanda.errors import InvalidTypeError
from amanda.types import Shape, Sym, TensorType
from amanda_std.engine.annotations import (
    Array,
    Host,
    Index,
    Logical,
    Other,
    Real,
    RealFloating,
)
from amanda_std.engine.arrays import xp
from amanda_std.engine.operation import composite, primitive
from amanda_std.engine.samples import Sample, Samples, array, counting, ramp
from amanda_std.inference.shape_arguments import Open, index_of, is_data
from amanda_std.ops._late import late
from amanda_std.ops.math.reduction import bound
from amanda_std.ops.tensor.creation import number
from amanda_std.ops.tensor.interpolation import is_between, own_dtype, parts_of, whole

_PLACES = "its results are places"

# -- boxes -----------------------------------------------------------------------


def _corners(boxes: Any, centered: bool) -> Any:
    """[..., (low, high) of each axis] of boxes."""
    a, b = boxes[..., :2], boxes[..., 2:]
    if centered:  # x, y, width, height
        return np.concatenate([a - b / 2, a + b / 2], -1)
    return np.concatenate([np.minimum(a, b), np.maximum(a, b)], -1)


def _overlaps(box: Any, others: Any) -> Any:
    """The part that a box and others share, of what they cover together."""
    low = np.maximum(box[:2], others[:, :2])
    high = np.minimum(box[2:], others[:, 2:])
    shared = np.prod(np.maximum(high - low, 0), -1)
    areas = np.prod(others[:, 2:] - others[:, :2], -1)
    own = np.prod(box[2:] - box[:2])
    total = areas + own - shared
    good = (shared > 0) & (areas > 0) & (own > 0) & (total > 0)
    return np.where(good, shared / np.where(good, total, 1), 0)


def _kept(boxes: Any, scores: Any, limit: int, overlap: float, least: float) -> Any:
    """The best boxes, best first, that no better one covers."""
    order = np.argsort(-scores, kind="stable")
    order = order[scores[order] > least]
    found: list[int] = []
    while len(order) and len(found) < limit:
        found.append(order[0])
        shares = _overlaps(boxes[order[0]], boxes[order[1:]])
        order = order[1:][shares <= overlap]
    return found


@primitive(shape=lambda: Shape([Sym.unknown(), 3]), numpy_only=True)
def nms(
    boxes: RealFloating, scores: RealFloating, limit: Index = None,
    overlap: RealFloating | None = None, least: RealFloating | None = None, *,
    centered: bool = False,
) -> Index:  # fmt: skip
    """Boxes that no better one covers, for each class: (batch, class, box) in rows

    `boxes` [batch, n, 4] are two corners each, or `centered`: x, y, width, height.
    `scores` [batch, classes, n] are over `least`; at most `limit` boxes of a class are
    kept, none of which shares more than `overlap` of its area with another."""
    most = boxes.shape[1] if limit is None else int(np.reshape(limit, ()))
    share = 0.0 if overlap is None else float(np.reshape(overlap, ()))
    low = -math.inf if least is None else float(np.reshape(least, ()))
    wide = _corners(boxes.astype("float64"), centered)
    rows = [
        (b, c, i)
        for b, c in np.ndindex(scores.shape[:2])
        for i in _kept(wide[b], scores[b, c].astype("float64"), most, share, low)
    ]
    return np.array(rows, "int64").reshape(-1, 3)


nms.not_differentiable(_PLACES)


@nms.samples
def _() -> Samples:
    rows = [[0.0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11],
            [0, 10.1, 1, 11.1], [1, 101, 0, 100]]  # fmt: skip
    scores = [[[0.9, 0.75, 0.6, 0.95, 0.5, 0.3]]]
    half, all_ = array(0.5, "float32"), [[0, 0, 3], [0, 0, 0], [0, 0, 5]]
    for dtype in ("float64", "float32"):
        boxes, points = array([rows], dtype), array(scores, dtype)
        half, low = array(0.5, dtype), array([0.4], dtype)
        yield Sample((boxes, points, None, half), array(all_, "int64"))
        yield Sample((boxes, points, array(2, "int64"), half), array(all_[:2], "int64"))
        limit = array([9], "int64")
        yield Sample((boxes, points, limit, half, low), array(all_[:2], "int64"))
    wide = array([[[0.5, 0.5, 1, 1], [0.6, 0.5, 1, 1], [5, 5, 0, 1]]])
    two = array([[[0.1, 0.2, 0.3], [0.9, 0.8, 0.1]]])
    want = array([[0, 0, 2], [0, 0, 1], [0, 1, 0], [0, 1, 2]], "int64")
    yield Sample((wide, two, None, array(0.5)), want, {"centered": True})
    best = array([[0, 0, 2], [0, 0, 1], [0, 1, 0]], "int64")
    yield Sample((wide, two, None, array(0.5), array(0.15)), best, {"centered": True})
    yield from _of_slim_boxes()
    none = np.zeros((1, 0, 4)), np.zeros((1, 2, 0))
    yield Sample((*none, None, array(0.5)), np.zeros((0, 3), "int64"))


def _of_slim_boxes() -> Samples:
    """The second shares a quarter of what it covers with the first; others, nothing."""
    middles = [[0.0, 0, 2, 0.2], [1.2, 0, 2, 0.2]]
    middles += [[9.0 + i, 9 + i, 0.5, 0.5] for i in range(5)]
    corners = [[x - w / 2, y - h / 2, x + w / 2, y + h / 2] for x, y, w, h in middles]
    scores = array([[[0.9 - 0.1 * i for i in range(7)]]])
    for rows, attrs in ((middles, {"centered": True}), (corners, {})):
        for share, out in ((0.24, [1]), (0.26, []), (None, [1])):
            kept = array([[0, 0, i] for i in range(7) if i not in out], "int64")
            told = () if share is None else (None, array(share))
            yield Sample((array([rows]), scores, *told), kept, attrs)


def _limited(limit: Any) -> list[Shape]:
    size = Sym.unknown() if isinstance(limit, Open) or is_data(limit) else limit
    return [Shape([size]), Shape([size]), Shape([])]


@primitive(shape=_limited, numpy_only=True)
def soft_nms(
    boxes: RealFloating, scores: RealFloating, limit: Host, *, overlap: float = 1.0,
    least: float = -math.inf, sigma: float = 0.0,
) -> tuple[Index, RealFloating, Index]:  # fmt: skip
    """The best boxes [n, 4] one by one, the scores of others lowered by what they share

    After each, scores become score * exp(-overlap**2 / (2 * sigma)); without a sigma,
    what shares more than `overlap` is out. Gives `limit` places and scores, 0 from the
    number on that is the last result: those with scores over `least`."""
    wide = _corners(boxes.astype("float64"), False)
    left = scores.astype("float64")
    found = np.zeros(limit, "int64")
    values = np.zeros(limit, scores.dtype)
    count = 0
    while count < limit and left.size:
        best = int(np.argmax(left))
        if not left[best] > least:
            break
        found[count], values[count] = best, left[best]
        shares = _overlaps(wide[best], wide)
        if sigma:
            left = left * np.exp(-0.5 / sigma * shares**2)
        else:
            left = np.where(shares <= overlap, left, -math.inf)
        left[best] = -math.inf
        count += 1
    return found, values, np.asarray(count, "int64")


soft_nms.not_differentiable("which boxes are kept has no slope")


@soft_nms.samples
def _() -> Samples:
    rows = [[0.0, 0, 1, 1], [0, 0.5, 1, 1.5], [0, 10, 1, 11]]
    third = 0.5 / 1.5  # what the first two share
    for dtype in ("float64", "float32"):
        boxes, scores = array(rows, dtype), array([0.9, 0.8, 0.5], dtype)
        some = [array([0, 2, 0], "int64"), array([0.9, 0.5, 0], dtype)]
        want = [*some, array(2, "int64")]
        yield Sample((boxes, scores, 3), want, {"overlap": 0.2})
        low = 0.8 * math.exp(-0.5 / 0.1 * third**2)
        soft = [array([0, 2, 1], "int64"), array([0.9, 0.5, low], dtype)]
        want = [*soft, array(3, "int64")]
        yield Sample((boxes, scores, 3), want, {"overlap": 0.5, "sigma": 0.1})
        cut = [array([0, 2], "int64"), array([0.9, 0.5], dtype), array(2, "int64")]
        attrs = {"overlap": 0.5, "sigma": 0.1, "least": 0.47}
        yield Sample((boxes, scores, 2), cut, attrs)
        yield Sample((boxes, scores, 3), want, {"overlap": 0.1, "sigma": 0.1})
    none = np.zeros((0, 4)), np.zeros(0)
    yield Sample((*none, 1), [array([0], "int64"), array([0.0]), array(0, "int64")])


# -- elements that differ ----------------------------------------------------------


def _differing(x: TensorType, *, axis: int | None = None) -> list[Shape]:
    count = Sym.unknown()
    if axis is None:
        return [Shape([count]), Shape([count]), Shape([x.shape.size]), Shape([count])]
    at = index_of(axis, x.shape.rank)
    whole_: list[Any] = list(x.shape.dims)
    one = x.shape.dims[at]
    whole_[at] = count
    return [Shape(whole_), Shape([count]), Shape([one]), Shape([count])]


@primitive(shape=_differing, numpy_only=True)
def unique(
    x: Array, *, axis: int | None = None, sorted: bool = True
) -> tuple[Array, Index, Index, Index]:
    """The elements (or parts along an axis) that differ, each once

    And where each is first, which one each element of x is, how often it is there.
    In sorted order, or in that of x."""
    found, first, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    inverse = inverse.reshape(-1)
    if not sorted:
        order = np.argsort(first)
        back = np.argsort(order)
        found = np.take(found, order, axis=axis or 0)
        first, counts, inverse = first[order], counts[order], back[inverse]
    first, inverse, counts = (p.astype("int64") for p in (first, inverse, counts))
    return found, first, inverse, counts


unique.not_differentiable("which elements differ has no slope")


def _slow_unique(x: list[Any], in_order: bool) -> list[Any]:
    values = list(dict.fromkeys(x))
    values = sorted_(values) if in_order else values
    return [values, [x.index(v) for v in values], [values.index(v) for v in x],
            [x.count(v) for v in values]]  # fmt: skip


sorted_ = sorted


@unique.samples
def _() -> Samples:
    for dtype in ("float64", "int32", "bfloat16"):
        x = array([3, 1, 3, 2, 1, 1], dtype)
        for in_order in (True, False):
            values, *places = _slow_unique(x.tolist(), in_order)
            want = [array(values, dtype), *(array(p, "int64") for p in places)]
            yield Sample((x,), want, {"sorted": in_order}, smooth=False)
            yield Sample((x.reshape(2, 3),), want, {"sorted": in_order}, smooth=False)
    x = array([[2, 0, 2], [1, 1, 1]], "int64")
    for in_order in (True, False):
        columns, *places = _slow_unique([tuple(c) for c in x.T.tolist()], in_order)
        want = [array(columns, "int64").T, *(array(p, "int64") for p in places)]
        yield Sample((x,), want, {"axis": 1, "sorted": in_order})
    none = np.zeros(0, "int64")
    yield Sample((np.zeros(0),), [np.zeros(0), none, none, none], smooth=False)


@composite
def compress(x: Array, condition: Logical, *, axis: int | None = None) -> Array:
    """The parts of an axis (or elements) for which a condition holds

    The condition may be shorter than the axis: what is beyond it is left out."""
    if axis is None:
        x, axis = late.reshape(x, [-1]), 0
    at = late.reshape(late.nonzero(late.reshape(condition, [-1])), [-1])
    return late.gather(x, at, axis)


@compress.samples
def _() -> Samples:
    flags = array([True, False, True], "bool")
    for dtype in ("float64", "int32"):
        x = counting(3, 4, dtype=dtype)
        yield Sample((x, flags), x[[0, 2]], {"axis": 0}, smooth=False)
        yield Sample((x, flags), x[:, [0, 2]], {"axis": -1}, smooth=False)
        yield Sample((x, flags), array([0, 2], dtype), smooth=False)
    yield Sample((ramp(4), ~array([True] * 4, "bool")), np.zeros(0), smooth=False)
    yield Sample((ramp(4), flags), ramp(4)[[0, 2]])


# -- counts ------------------------------------------------------------------------


@composite
def bincount(x: Index, size: Host, weights: Real | None = None) -> Other:
    """How often each of 0, 1, ... size - 1 is there, or the sum of its weights"""
    shares = weights
    if shares is None:
        shares = late.full(late.shape_of(x), np.asarray(1, "int64"))
    flat = late.reshape(shares, [-1])
    return segment_reduce(flat, late.reshape(x, [-1]), size)


@bincount.samples
def _() -> Samples:
    for dtype in ("int32", "int64"):
        x = array([[1, 4, 1], [0, 9, 1]], dtype)
        yield Sample((x, 5), array([1, 3, 0, 0, 1], "int64"))
        for kind in ("float64", "float32"):
            w = array([[0.5, 1, 2], [4, 8, 16]], kind)
            yield Sample((x, 5, w), array([4, 18.5, 0, 0, 1], kind))
    yield Sample((np.zeros(0, "int64"), 2), array([0, 0], "int64"))


@composite
def histogram(
    x: Real, low: Real, high: Real, bins: Host, *, clamp: bool = True
) -> Index:
    """How many elements each of equal parts from low to high has

    `clamp`: what is outside counts in the first and last part, or not at all."""
    shares = late.divide(
        *(late.astype(late.subtract(v, low), dtype="float64") for v in (x, high))
    )
    count = parts_of(bins, 1)[0] if isinstance(bins, tuple | list) else bins
    last = late.subtract(whole(count), 1)
    many = late.astype(count, dtype="float64")
    at = whole(late.floor(late.multiply(shares, many)))
    if clamp:
        at = late.minimum(late.maximum(at, np.asarray(0)), last)
    else:
        at = late.where(late.equal(x, high), last, at)
    return bincount(late.reshape(at, [-1]), count)


histogram.not_differentiable("its results are counts")


@histogram.samples
def _() -> Samples:
    for dtype in ("float64", "float32", "int32"):
        x = array([-1, 0, 2, 5, 7, 10, 14], dtype)
        ends = array(0, dtype), array(10, dtype)
        yield Sample((x, *ends, 5), array([2, 1, 1, 1, 2], "int64"))
        want = array([1, 1, 1, 1, 1], "int64")
        yield Sample((x, *ends, 5), want, {"clamp": False})
    yield Sample((np.zeros(0), array(0.0), array(1.0), 2), array([0, 0], "int64"))


@primitive(shape=lambda values: values.shape)
def searchsorted(x: Real, values: Real, *, right: bool = False) -> Index:
    """Where values go in rows that are sorted: before equal elements, or after them

    `x` is one row, or has a row for each row of values."""
    side = "right" if right else "left"
    np_ = xp(x, values)
    if x.ndim == 1:
        return np_.searchsorted(x, values, side=side).astype("int64")
    rows = np_.reshape(x, (math.prod(x.shape[:-1]), x.shape[-1]))
    wanted = np_.reshape(values, (rows.shape[0], values.shape[-1]))
    found = [
        np_.searchsorted(rows[i], wanted[i], side=side) for i in range(rows.shape[0])
    ]
    made = np_.stack(found) if found else np_.zeros(wanted.shape)
    return np_.reshape(made, values.shape).astype("int64")


searchsorted.not_differentiable(_PLACES)


@searchsorted.samples
def _() -> Samples:
    for dtype in ("float64", "float32", "int32"):
        row = array([1, 3, 3, 7], dtype)
        wanted = array([[0, 3], [4, 9]], dtype)
        for right, want in ((False, [[0, 1], [3, 4]]), (True, [[0, 3], [3, 4]])):
            yield Sample((row, wanted), array(want, "int64"), {"right": right})
        rows = array([[1, 3, 3, 7], [0, 1, 2, 3]], dtype)
        want = array([[0, 1], [4, 4]], "int64")
        yield Sample((rows, wanted), want)
    deep = array([[[1, 2], [3, 4]], [[5, 6], [7, 8]]], "int32")
    wanted = array([[[2], [5]], [[4], [8]]], "int32")
    yield Sample((deep, wanted), array([[[1], [2]], [[0], [1]]], "int64"))
    yield Sample((deep[:0], wanted[:0]), np.zeros((0, 2, 1), "int64"))
    yield Sample((row, np.zeros(0, "int32")), np.zeros(0, "int64"))


@composite
def unravel_index(indices: Index, shape: Host) -> Index:
    """Places counted through a shape, row by row, as a row of places for each axis"""
    many = len(shape) if isinstance(shape, tuple | list) else shape.shape[0]
    flat = whole(indices)
    found: list[Any] = []
    for d in reversed(parts_of(shape, int(many.__index__()))):
        size = whole(d)
        found.insert(0, late.remainder(flat, size))
        flat = late.floor_divide(flat, size)
    return late.stack(*found, axis=0)


@composite
def ravel_index(places: Index, shape: Host) -> Index:
    """A row of places for each axis, as places counted through a shape, row by row"""
    many = len(shape) if isinstance(shape, tuple | list) else shape.shape[0]
    total: Any = None
    for i, d in enumerate(parts_of(shape, int(many.__index__()))):
        at = whole(late.gather(places, np.asarray(i), 0))
        total = at if total is None else late.add(late.multiply(total, whole(d)), at)
    return total


def _places(back: bool) -> Any:
    def make() -> Samples:
        for dtype in ("int64", "int32"):
            flat = array([[0, 7], [23, 12]], dtype)
            at = [list(p) for p in itertools.product(range(2), range(3), range(4))]
            rows = array([[[at[n][i] for n in row] for row in flat] for i in range(3)],
                         "int64")  # fmt: skip
            args = (rows.astype(dtype), flat) if back else (flat, rows)
            yield Sample((args[0], (2, 3, 4)), args[1].astype("int64"))
        none = np.zeros(0, "int64"), np.zeros((2, 0), "int64")
        args = none[::-1] if back else none
        yield Sample((args[0], (2, 3)), args[1])

    return make


unravel_index.not_differentiable(_PLACES)
ravel_index.not_differentiable(_PLACES)
unravel_index.samples(_places(False))
ravel_index.samples(_places(True))


@composite
def in_top_k(scores: RealFloating, targets: Index, k: Index) -> Logical:
    """Whether less than k of a row are over the one that a target names"""
    at = late.expand_dims(whole(targets), (1,))
    own = late.gather_elements(scores, at, axis=1)
    over = late.sum(whole(late.greater(scores, own)), (1,))
    sound = late.all(late.isfinite(own), (1,))
    return late.logical_and(late.less(over, whole(k)), sound)


in_top_k.not_differentiable("its results are true or false")


@in_top_k.samples
def _() -> Samples:
    for dtype in ("float64", "float32"):
        scores = array([[0.1, 0.7, 0.7, 0.2], [0.4, 0.3, 0.2, math.inf]], dtype)
        targets, rows = array([2, 1], "int64"), ((1, [True, False]), (3, [True, True]))
        for k, want in rows:
            yield Sample((scores, targets, array(k, "int64")), array(want, "bool"))
        last = array([3, 3], "int32")
        want = array([False, False], "bool")
        yield Sample((scores, last, array(2, "int32")), want)
    none = np.zeros((0, 4)), np.zeros(0, "int64"), array(1, "int64")
    yield Sample(none, np.zeros(0, "bool"))


# -- segments ----------------------------------------------------------------------

_JOINED = {"sum": "add", "mean": "add", "prod": "mul", "max": "max", "min": "min"}


def _nothing(reduction: str, dtype: Any) -> Any:
    if reduction in ("max", "min"):
        return bound(dtype, reduction == "max")
    return 1 if reduction == "prod" else 0


@composite
def segment_reduce(
    x: Real, segments: Index, count: Host, *, reduction: str = "sum"
) -> Real:
    """The sums (mean, prod, max, min) of the parts of the first axis by their segments

    Parts of no segment from 0 to count - 1 are left out. The largest of no part is
    the least number that there is."""
    if reduction not in _JOINED:
        known = ", ".join(_JOINED)
        raise InvalidTypeError("no such reduction", expected=known, got=reduction)
    many = parts_of(count, 1)[0] if isinstance(count, tuple | list) else count
    at = _segments(segments, many)
    empty = number(_nothing(reduction, own_dtype(x).numpy), x)
    rest = list(x.shape[1:])
    room = late.full([late.add(whole(many), 1), *rest], empty)
    rows = late.expand_dims(at, (1,))
    found = late.scatter_nd(room, rows, x, reduction=_JOINED[reduction])
    found = late.slice(found, [0], [many], [0])
    if reduction != "mean":
        return found
    ones = late.full(late.shape_of(at), np.asarray(1, "int64"))
    each = late.astype(segment_reduce(ones, segments, count), dtype=own_dtype(x))
    after = tuple(range(1, x.ndim))
    each = late.maximum(each, number(1, x))
    return late.divide(found, late.expand_dims(each, after) if after else each)


def _segments(segments: Any, count: Any) -> Any:
    """Segments that there are not as one more, behind them."""
    at, last = whole(segments), late.subtract(whole(count), 1)
    return late.where(is_between(at, np.asarray(0), last), at, whole(count))


@segment_reduce.gradient
def _(g: Any, y: Any, x: Any, segments: Any, count: Any, *, reduction: str) -> Any:
    many = count[0] if isinstance(count, tuple | list) else count
    at = _segments(segments, many)
    last = late.maximum(late.subtract(whole(many), 1), np.asarray(0))
    safe = late.minimum(at, last)
    after = tuple(range(1, x.ndim))
    inside = late.less(at, whole(many))
    inside = late.expand_dims(inside, after) if after else inside
    slope = late.where(inside, late.gather(g, safe), number(0, x))
    if reduction == "mean":
        share = segment_reduce(late.ones_like(x), segments, count)
        slope = late.divide(slope, late.maximum(late.gather(share, safe), number(1, x)))
    if reduction == "prod":
        slope = late.divide(late.multiply(slope, late.gather(y, safe)), x)
    if reduction in ("max", "min"):
        best = late.equal(x, late.gather(y, safe))
        ties = segment_reduce(late.astype(best, dtype=x.dtype), segments, count)
        slope = late.where(best, late.divide(slope, late.gather(ties, safe)),
                           number(0, x))  # fmt: skip
    return [slope, None, None]


@segment_reduce.samples
def _() -> Samples:
    folds: dict[str, Any] = {
        "sum": math.fsum,
        "prod": math.prod,
        "max": max,
        "min": min,
        "mean": lambda n: math.fsum(n) / len(n),
    }
    for dtype in ("float64", "float32", "int32"):
        x = ramp(5, 2, dtype=dtype)
        at = array([2, 0, 2, -1, 7], "int64")
        for reduction, fold in folds.items():
            if reduction == "mean" and dtype == "int32":
                continue
            empty = _nothing(reduction, x.dtype)
            y = np.full((3, 2), empty, x.dtype)
            for s, i in itertools.product(range(3), range(2)):
                seen = [x[j, i].item() for j in range(5) if at[j] == s]
                if seen:
                    y[s, i] = fold(seen)
            attrs = {"reduction": reduction}
            finite = reduction not in ("max", "min")
            yield Sample((x, at, 3), y, attrs, smooth=finite)
            full = array([1, 0, 1, 0, 2], "int32")
            z = np.stack([x[[1, 3]], x[[0, 2]]])
            z = np.array([[fold(c) for c in part.T.tolist()] for part in z], x.dtype)
            z = np.concatenate([z, x[4:]])
            yield Sample((x, full, 3), z, attrs)
    none = np.zeros((0, 2)), np.zeros(0, "int64")
    yield Sample((*none, 2), np.zeros((2, 2)), smooth=False)
