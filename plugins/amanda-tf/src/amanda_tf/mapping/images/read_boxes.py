"""From TensorFlow: boxes that are selected over all classes, and that are drawn."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda_std import ops
from amanda_std.mappings import expect, rank_of, required_integer

__all__ = ["READ"]

_COLOURS = np.array([
    [1, 1, 0, 1], [0, 0, 1, 1], [1, 0, 0, 1], [0, 1, 0, 1], [0.5, 0, 0.5, 1],
    [0.5, 0.5, 0, 1], [0.5, 0, 0, 1], [0, 0, 0.5, 1], [0, 1, 1, 1], [1, 0, 1, 1],
], "float32")  # fmt: skip
"""The colours of boxes where none are given, one after the other."""


def read_combined_nms(
    boxes: Any, scores: Any, per_class: Any, total: Any, overlap: Any, least: Any, *,
    pad_per_class: bool = False, clip_boxes: bool = True,
) -> Any:  # fmt: skip
    """The best boxes of all classes of each image: CombinedNonMaxSuppression."""
    most = required_integer(per_class, "max_output_size_per_class")
    size = required_integer(total, "max_total_size")
    count, classes = scores.shape[1:]
    expect(
        isinstance(count, int) and isinstance(classes, int),
        "the number of boxes or classes is not static",
    )
    size = min(size, most * classes) if pad_per_class else size
    wide = ops.transpose(boxes, perm=(0, 2, 1, 3))
    if boxes.shape[2] == 1 < classes:
        wide = ops.concat(*[wide] * classes, axis=1)
    flat = ops.reshape(ops.transpose(scores, perm=(0, 2, 1)), [-1, count])
    found = ops.nms(
        ops.reshape(wide, [-1, count, 4]), ops.expand_dims(flat, [1]),
        np.int64(most), overlap, least,
    )  # fmt: skip
    places = ops.gather(found, np.array([0, 2]), axis=1)
    none = ops.number_like(flat, value=-np.inf)
    left = ops.full(ops.shape_of(flat), none)
    left = ops.scatter_nd(left, places, ops.gather_nd(flat, places))
    best, at = ops.topk(
        ops.reshape(left, [-1, classes * count]), min(size, classes * count)
    )
    valid = ops.greater(best, none)
    rows = ops.gather_nd(
        ops.reshape(wide, [-1, classes * count, 4]), ops.expand_dims(at, [2]),
        batch_dims=1,
    )  # fmt: skip
    rows = ops.clip(rows, 0, 1) if clip_boxes else rows
    kinds = ops.astype(ops.floor_divide(at, np.int64(count)), dtype=scores.dtype)
    results = [
        _pad_to_size(ops.where(mask, value, ops.number_like(value, value=0)), size)
        for mask, value in ((ops.expand_dims(valid, [2]), rows), (valid, best),
                            (valid, kinds))
    ]  # fmt: skip
    return *results, ops.sum(ops.astype(valid, dtype="int32"), [1])


def _pad_to_size(x: Any, size: int) -> Any:
    """With zeros behind the elements of the second axis, up to a size."""
    missing = size - int(x.shape[1])
    return ops.pad(x, [[0, missing]], None, [1]) if missing else x


def read_nms_with_overlaps(
    overlaps: Any, scores: Any, limit: Any, overlap: Any, least: Any
) -> Any:
    """Non-maximum suppression by a matrix of overlaps, to the indices selected."""
    order = ops.argsort(scores, descending=True)
    ranked = ops.gather(ops.gather(overlaps, order, axis=0), order, axis=1)
    shared = ops.greater(ranked, ops.astype(overlap, dtype=overlaps.dtype))
    good = ops.greater(ops.gather(scores, order), ops.astype(least, dtype=scores.dtype))
    numbers = ops.arange(0, ops.size(scores))
    most = ops.reshape(ops.astype(limit, dtype="int64"), [])

    def step(kept: Any, count: Any, row: Any, is_good: Any, number: Any) -> Any:
        free = ops.logical_not(ops.any(ops.logical_and(kept, row)))
        takes = ops.logical_and(ops.logical_and(is_good, free), ops.less(count, most))
        here = ops.logical_and(takes, ops.equal(numbers, number))
        more = count + ops.astype(takes, dtype="int64")
        return ops.logical_or(kept, here), more, takes

    none = ops.less(numbers, np.int64(0))
    *_, taken = ops.scan(
        step, None, none, np.int64(0), shared, good, numbers, carried=2
    )
    return ops.astype(ops.compress(order, taken), dtype="int32")


def read_draw_boxes(images: Any, boxes: Any, colours: Any = None) -> Any:
    """Lines of one pixel around boxes, in the order of these."""
    expect(rank_of(images) == 4 and rank_of(boxes) == 3, "no batch of images and boxes")
    height, width, depth = images.shape[1:]
    count = boxes.shape[1]
    sizes = (height, width, depth, count)
    expect(all(isinstance(n, int) for n in sizes), "a size is not static")
    table = _COLOURS if colours is None else colours
    row, column = (
        np.arange(height).reshape(1, -1, 1),
        np.arange(width).reshape(1, 1, -1),
    )
    ends = boxes * np.array([height - 1, width - 1] * 2, "float32")
    ends = ops.astype(ends, dtype="int64")
    for i in range(count):
        one = ops.gather(ends, np.int64(i), axis=1)
        top, left, bottom, right = (
            ops.reshape(ops.gather(one, np.int64(k), axis=1), [-1, 1, 1])
            for k in range(4)
        )
        beside = _and(ops.less_equal(left, column), ops.less_equal(column, right))
        between = _and(ops.less_equal(top, row), ops.less_equal(row, bottom))
        flat = ops.logical_or(ops.equal(row, top), ops.equal(row, bottom))
        steep = ops.logical_or(ops.equal(column, left), ops.equal(column, right))
        line = ops.logical_or(_and(flat, beside), _and(steep, between))
        ordered = _and(ops.less_equal(top, bottom), ops.less_equal(left, right))
        colour = ops.gather(table, np.int64(i % int(table.shape[0])), axis=0)
        colour = np.ones(1) if depth == 1 else ops.slice_(colour, [0], [depth])
        colour = ops.astype(colour, dtype=images.dtype)
        mask = ops.expand_dims(_and(line, ordered), [3])
        images = ops.where(mask, colour, images)
    return images


def _and(a: Any, b: Any) -> Any:
    return ops.logical_and(a, b)


READ: dict[str, Any] = {
    "CombinedNonMaxSuppression": read_combined_nms,
    "NonMaxSuppressionWithOverlaps": read_nms_with_overlaps,
    "DrawBoundingBoxes": read_draw_boxes,
    "DrawBoundingBoxesV2": read_draw_boxes,
}
