"""Non-maximum suppression (NMS): of bounding boxes, hard and soft."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from amanda.types import Shape, Sym
from amanda_std.engine.annotations import (
    Index,
    RealFloating,
    ShapeArg,
)
from amanda_std.engine.operation import primitive
from amanda_std.engine.samples import Sample, Samples, array
from amanda_std.engine.traits import Trait
from amanda_std.inference.shape_arguments import UnknownShapeArg, may_be_negative

_INDICES = "its results are indices"


def _corners(boxes: Any, centered: bool) -> Any:
    """Boxes as [..., (low, high) of each axis]."""
    a, b = boxes[..., :2], boxes[..., 2:]
    if centered:  # x, y, width, height
        return np.concatenate([a - b / 2, a + b / 2], -1)
    return np.concatenate([np.minimum(a, b), np.maximum(a, b)], -1)


def _intersection_over_union(box: Any, others: Any) -> Any:
    """Intersection over union (IoU) of a box with others."""
    low = np.maximum(box[:2], others[:, :2])
    high = np.minimum(box[2:], others[:, 2:])
    shared = np.prod(np.maximum(high - low, 0), -1)
    areas = np.prod(others[:, 2:] - others[:, :2], -1)
    own = np.prod(box[2:] - box[:2])
    total = areas + own - shared
    good = (shared > 0) & (areas > 0) & (own > 0) & (total > 0)
    return np.where(good, shared / np.where(good, total, 1), 0)


def _select_boxes(
    boxes: Any, scores: Any, limit: int, overlap: float, least: float
) -> Any:
    """Greedy selection: the best boxes, best first, that no better one suppresses."""
    order = np.argsort(-scores, kind="stable")
    order = order[scores[order] > least]
    result: list[int] = []
    while len(order) and len(result) < limit:
        result.append(order[0])
        weights = _intersection_over_union(boxes[order[0]], boxes[order[1:]])
        order = order[1:][~(weights > overlap)]  # all if it is NaN
    return result


@primitive(shape=lambda: Shape([Sym.unknown(), 3]), numpy_only=True)
def nms(
    boxes: RealFloating, scores: RealFloating, limit: Index = None,
    overlap: RealFloating | None = None, least: RealFloating | None = None, *,
    centered: bool = False,
) -> Index:  # fmt: skip
    """Non-maximum suppression (NMS): rows (batch, class, box) of the selected boxes

    `boxes` [batch, n, 4] are two corners each, or `centered`: x, y, width, height.
    `scores` [batch, classes, n] must exceed `least`; at most `limit` boxes per class
    are selected, no two with an intersection over union (IoU) above `overlap`."""
    most = boxes.shape[1] if limit is None else int(np.reshape(limit, ()))
    weight = 0.0 if overlap is None else float(np.reshape(overlap, ()))
    low = -math.inf if least is None else float(np.reshape(least, ()))
    wide = _corners(boxes.astype("float64"), centered)
    rows = [
        (b, c, i)
        for b, c in np.ndindex(scores.shape[:2])
        for i in _select_boxes(
            wide[b], scores[b, c].astype("float64"), most, weight, low
        )
    ]
    return np.array(rows, "int64").reshape(-1, 3)


nms.trait(Trait.DATA_DEPENDENT_SIZE)
nms.not_differentiable(_INDICES)


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
    expected = array([[0, 0, 2], [0, 0, 1], [0, 1, 0], [0, 1, 2]], "int64")
    yield Sample((wide, two, None, array(0.5)), expected, {"centered": True})
    best = array([[0, 0, 2], [0, 0, 1], [0, 1, 0]], "int64")
    yield Sample((wide, two, None, array(0.5), array(0.15)), best, {"centered": True})
    yield from _slim_box_samples()
    empty = np.zeros((1, 0, 4)), np.zeros((1, 2, 0))
    yield Sample((*empty, None, array(0.5)), np.zeros((0, 3), "int64"))


def _slim_box_samples() -> Samples:
    """The second has an IoU of 1/4 with the first; all others 0."""
    middles = [[0.0, 0, 2, 0.2], [1.2, 0, 2, 0.2]]
    middles += [[9.0 + i, 9 + i, 0.5, 0.5] for i in range(5)]
    corners = [[x - w / 2, y - h / 2, x + w / 2, y + h / 2] for x, y, w, h in middles]
    scores = array([[[0.9 - 0.1 * i for i in range(7)]]])
    for rows, attrs in ((middles, {"centered": True}), (corners, {})):
        for weight, out in ((0.24, [1]), (0.26, []), (None, [1])):
            kept = array([[0, 0, i] for i in range(7) if i not in out], "int64")
            given = () if weight is None else (None, array(weight))
            yield Sample((array([rows]), scores, *given), kept, attrs)


def _soft_nms_shapes(limit: Any) -> list[Shape]:
    size = (
        Sym.unknown()
        if isinstance(limit, UnknownShapeArg) or may_be_negative(limit)
        else limit
    )
    return [Shape([size]), Shape([size]), Shape([])]


@primitive(shape=_soft_nms_shapes, numpy_only=True)
def soft_nms(
    boxes: RealFloating, scores: RealFloating, limit: ShapeArg, *, overlap: float = 1.0,
    least: float = -math.inf, sigma: float = 0.0,
) -> tuple[Index, RealFloating, Index]:  # fmt: skip
    """Soft-NMS of boxes [n, 4]: scores decay with the overlap with selected boxes

    After each selection, scores become score * exp(-overlap**2 / (2 * sigma)); without
    sigma, boxes that overlap more than `overlap` are removed. Returns `limit` indices
    and scores, padded with 0, and the number of valid ones, with scores above `least`.
    """
    wide = _corners(boxes.astype("float64"), False)
    left = scores.astype("float64")
    result = np.zeros(limit, "int64")
    values = np.zeros(limit, scores.dtype)
    count = 0
    while count < limit and left.size:
        best = int(np.argmax(left))
        if not left[best] > least:
            break
        result[count], values[count] = best, left[best]
        weights = _intersection_over_union(wide[best], wide)
        if sigma:
            left = left * np.exp(-0.5 / sigma * weights**2)
        else:
            left = np.where(weights <= overlap, left, -math.inf)
        left[best] = -math.inf
        count += 1
    return result, values, np.asarray(count, "int64")


soft_nms.trait(Trait.DATA_DEPENDENT_SIZE)
soft_nms.not_differentiable("the selection of boxes is discrete")


@soft_nms.samples
def _() -> Samples:
    rows = [[0.0, 0, 1, 1], [0, 0.5, 1, 1.5], [0, 10, 1, 11]]
    third = 0.5 / 1.5  # IoU of the first two
    for dtype in ("float64", "float32"):
        boxes, scores = array(rows, dtype), array([0.9, 0.8, 0.5], dtype)
        some = [array([0, 2, 0], "int64"), array([0.9, 0.5, 0], dtype)]
        expected = [*some, array(2, "int64")]
        yield Sample((boxes, scores, 3), expected, {"overlap": 0.2})
        low = 0.8 * math.exp(-0.5 / 0.1 * third**2)
        soft = [array([0, 2, 1], "int64"), array([0.9, 0.5, low], dtype)]
        expected = [*soft, array(3, "int64")]
        yield Sample((boxes, scores, 3), expected, {"overlap": 0.5, "sigma": 0.1})
        cut = [array([0, 2], "int64"), array([0.9, 0.5], dtype), array(2, "int64")]
        attrs = {"overlap": 0.5, "sigma": 0.1, "least": 0.47}
        yield Sample((boxes, scores, 2), cut, attrs)
        yield Sample((boxes, scores, 3), expected, {"overlap": 0.1, "sigma": 0.1})
    empty = np.zeros((0, 4)), np.zeros(0)
    yield Sample((*empty, 1), [array([0], "int64"), array([0.0]), array(0, "int64")])
