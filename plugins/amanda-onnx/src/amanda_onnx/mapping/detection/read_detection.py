"""From ONNX: functions for regions, windows and detection."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda_onnx.mapping.nn.read_nn import padding_of
from amanda_onnx.mapping.static_values import flat, ints, rank_of
from amanda_std import ops

__all__ = ["READ"]


# -- regions -----------------------------------------------------------------------


def roi_align(x: Any, rois: Any, batch: Any, *, mode: str = "avg",
              output_height: int = 1, output_width: int = 1, sampling_ratio: int = 0,
              spatial_scale: float = 1.0,
              coordinate_transformation_mode: str = "half_pixel") -> Any:  # fmt: skip
    return ops.roi_align(
        x, rois, batch, mode=mode, size=(output_height, output_width),
        ratio=sampling_ratio, scale=spatial_scale,
        half_pixel=coordinate_transformation_mode == "half_pixel",
    )  # fmt: skip


def old_roi_align(x: Any, rois: Any, batch: Any, **attrs: Any) -> Any:
    """Regions begin at their first element in opset 15 and before."""
    attrs["coordinate_transformation_mode"] = "output_half_pixel"
    return roi_align(x, rois, batch, **attrs)


def max_roi_pool(x: Any, rois: Any, *, pooled_shape: Any,
                 spatial_scale: float = 1.0) -> Any:  # fmt: skip
    batch = ops.astype(ops.gather(rois, np.asarray(0), 1), dtype="int64")
    boxes = ops.slice_(rois, [1], [5], [1])
    return ops.roi_pool(x, boxes, batch, size=tuple(pooled_shape), scale=spatial_scale)


# -- windows -----------------------------------------------------------------------


def col2im(x: Any, image: Any, block: Any, *, dilations: Any = None, pads: Any = None,
           strides: Any = None) -> Any:  # fmt: skip
    return ops.fold(x, ints(image), ints(block), strides=strides, dilations=dilations,
                    padding=padding_of("NOTSET", pads))  # fmt: skip


def max_unpool(x: Any, at: Any, size: Any = None, *, kernel_shape: Any,
               pads: Any = None, strides: Any = None) -> Any:  # fmt: skip
    """Places are those of the data that was pooled, by its windows."""
    n = len(kernel_shape)
    steps, around = strides or [1] * n, pads or [0] * (2 * n)
    own = list(x.shape)
    inner = [
        (own[i + 2] - 1) * steps[i] - around[i] - around[n + i] + kernel_shape[i]
        for i in range(n)
    ]
    y = ops.max_unpool(x, at, [*own[:2], *inner], whole_tensor=True)
    if size is None:
        return y
    wanted = ints(size)
    if isinstance(wanted, list):
        pairs: Any = [(0, wanted[i] - d) for i, d in enumerate([*own[:2], *inner])]
        return ops.pad(y, pairs)
    more = ops.expand_dims(wanted - ops.shape_of(y), (1,))
    return ops.pad(y, ops.pad(more, [[0, 0], [1, 0]]))


# -- detection ---------------------------------------------------------------------


def nms(boxes: Any, scores: Any, limit: Any = None, overlap: Any = None,
        least: Any = None, *, center_point_box: int = 0) -> Any:  # fmt: skip
    """Without a limit, nothing is kept."""
    most = np.asarray(0, "int64") if limit is None else flat(limit)
    own = boxes.dtype.numpy
    share = np.asarray(0, own) if overlap is None else flat(overlap)
    low = None if least is None else flat(least)
    return ops.nms(boxes, scores, most, share, low, centered=bool(center_point_box))


def unique(x: Any, *, axis: int | None = None, sorted: int = 1, outputs: int) -> Any:
    return tuple(ops.unique(x, axis=axis, sorted=bool(sorted)))[:outputs]


def old_hardmax(x: Any, *, axis: int = 1) -> Any:
    """Over all axes from one on, in opset 12 and before."""
    rows = ops.flatten(x, axis=axis % (rank_of(x) + 1))
    return ops.reshape(ops.hardmax(rows), ops.shape_of(x))


READ: dict[str, Any] = {
    "RoiAlign[16:]": roi_align,
    "RoiAlign[:15]": old_roi_align,
    "MaxRoiPool": max_roi_pool,
    "Col2Im": col2im,
    "MaxUnpool": max_unpool,
    "NonMaxSuppression": nms,
    "Unique": unique,
    "Hardmax[:12]": old_hardmax,
}
