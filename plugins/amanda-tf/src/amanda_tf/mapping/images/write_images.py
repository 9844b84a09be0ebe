"""To TensorFlow: non-maximum suppression."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.mapping import Decline
from amanda.tensors import Tensor
from amanda.types import DType
from amanda_std.mappings import scalar_like
from amanda_tf.mapping.operands import dims_of, int_tensor

__all__ = ["WRITE"]


def write_nms(
    o: Any, boxes: Any, scores: Any, limit: Any = None, overlap: Any = None,
    least: Any = None, *, centered: bool = False,
) -> Any:  # fmt: skip
    """One op for each batch element and class; rows are (batch, class, box)."""
    batch, classes, count = dims_of(scores)
    if centered or not isinstance(batch, int) or not isinstance(classes, int):
        raise Decline("boxes given by their centers, or numbers that are not static")
    most = count if limit is None else limit
    if limit is None:
        most = int_tensor(count)
    else:
        most = o.Cast(o.Reshape(limit, int_tensor([])), DstT=DType("int32"))
    numbers = [
        scalar_like(start, scores)
        if given is None
        else o.Reshape(given, int_tensor([]))
        for given, start in ((overlap, 0.0), (least, -np.inf))
    ]
    rows = []
    for b in range(batch):
        own = o.GatherV2(boxes, int_tensor(b), int_tensor(0))
        for c in range(classes):
            score = o.GatherNd(scores, int_tensor([b, c]))
            found = o.NonMaxSuppressionV3(own, score, most, *numbers)
            found = o.ExpandDims(o.Cast(found, DstT=DType("int64")), int_tensor(1))
            lead = Tensor.of(np.array([b, c], "int64"))
            size = o.Size(found, out_type=DType("int32"))
            both = o.BroadcastTo(lead, o.Pack(size, int_tensor(2)))
            rows.append(o.ConcatV2(both, found, int_tensor(1), N=2))
    if len(rows) == 1:
        return rows[0]
    return o.ConcatV2(*rows, int_tensor(0), N=len(rows))


WRITE: dict[str, Any] = {"nms": write_nms}
