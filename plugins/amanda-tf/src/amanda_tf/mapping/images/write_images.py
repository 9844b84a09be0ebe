"""To TensorFlow: non-maximum suppression."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.mapping import Decline
from amanda.tensors import Tensor
from amanda.types import DType
from amanda_tf.mapping.operands import dims_of, dtype_of, int_tensor, required_static

__all__ = ["WRITE"]


def _as_float32(o: Any, x: Any) -> Any:
    """Numbers of an element type that the kernels have."""
    return x if str(dtype_of(x)) == "float32" else o.Cast(x, DstT=DType("float32"))


def write_nms(
    o: Any, boxes: Any, scores: Any, limit: Any = None, overlap: Any = None,
    least: Any = None, *, centered: bool = False,
) -> Any:  # fmt: skip
    """One op for each batch element and class; rows are (batch, class, box)."""
    batch, classes, count = dims_of(scores)
    boxes, scores = (_as_float32(o, v) for v in (boxes, scores))
    if not isinstance(batch, int) or not isinstance(classes, int):
        raise Decline("numbers of images or of classes that are not static")
    if centered:
        center, size = o.Split(int_tensor(2), boxes, num_split=2, outputs=2)
        half = o.Mul(size, Tensor.of(np.float32(0.5)))
        boxes = o.ConcatV2(
            o.Sub(center, half), o.AddV2(center, half), int_tensor(2), N=2
        )
    most = count if limit is None else limit
    if limit is None:
        most = int_tensor(count)
    else:
        most = o.Cast(o.Reshape(limit, int_tensor([])), DstT=DType("int32"))
    numbers = [
        Tensor.of(np.float32(start))
        if given is None
        else o.Reshape(_as_float32(o, given), int_tensor([]))
        for given, start in ((overlap, 0.0), (least, -np.inf))
    ]
    rows = []
    for b in range(batch):
        own = o.GatherV2(boxes, int_tensor(b), int_tensor(0))
        rows_of = o.GatherV2(scores, int_tensor(b), int_tensor(0))
        for c in range(classes):
            score = o.GatherV2(rows_of, int_tensor(c), int_tensor(0))
            found = o.NonMaxSuppressionV3(own, score, most, *numbers)
            found = o.ExpandDims(o.Cast(found, DstT=DType("int64")), int_tensor(1))
            lead = Tensor.of(np.array([b, c], "int64"))
            size = o.Size(found, out_type=DType("int32"))
            both = o.BroadcastTo(lead, o.Pack(size, int_tensor(2)))
            rows.append(o.ConcatV2(both, found, int_tensor(1), N=2))
    if len(rows) == 1:
        return rows[0]
    return o.ConcatV2(*rows, int_tensor(0), N=len(rows))


def write_soft_nms(
    o: Any, boxes: Any, scores: Any, limit: Any, *, overlap: float = 1.0,
    least: float = -np.inf, sigma: float = 0.0,
) -> Any:  # fmt: skip
    """Indices and scores, padded with 0, and the number of valid ones."""
    most = int_tensor(required_static(limit, "the limit"))
    found, left, count = o.NonMaxSuppressionV5(
        *(_as_float32(o, v) for v in (boxes, scores)), most,
        *(Tensor.of(np.float32(v)) for v in (overlap, least, sigma)),
        pad_to_max_output_size=True,
    )  # fmt: skip
    wide = DType("int64")
    left = o.Cast(left, DstT=dtype_of(scores))
    return o.Cast(found, DstT=wide), left, o.Cast(count, DstT=wide)


WRITE: dict[str, Any] = {
    "nms": write_nms,
    "soft_nms": write_soft_nms,
}
