"""To TensorFlow: beam search of connectionist temporal classification (CTC)."""

from __future__ import annotations

from typing import Any

from amanda_tf.mapping.operands import INT64, dims_of, int_tensor

__all__ = ["WRITE"]


def write_ctc_beam_search(
    o: Any, x: Any, steps: Any = None, *, width: int, paths: int = 1, blank: int = 0,
    merge_repeated: bool = False, outputs: int = 3,
) -> Any:  # fmt: skip
    """The blank of TensorFlow is the last class; results become dense."""
    del outputs
    time, batch, classes = dims_of(x)
    if isinstance(classes, int) and blank % classes != classes - 1:
        order = [i for i in range(classes) if i != blank % classes] + [blank % classes]
        x = o.GatherV2(x, int_tensor(order), int_tensor(2))
    whole = o.Shape(x, out_type=INT64)
    time, batch = (
        o.Reshape(o.Slice(whole, int_tensor([i]), int_tensor([1])), int_tensor([]))
        for i in (0, 1)
    )
    rows = o.Reshape(batch, int_tensor([1]))
    steps = o.Fill(rows, time) if steps is None else steps
    *found, scores = o.op(
        "CTCBeamSearchDecoder", x, o.Cast(steps, DstT=int_tensor(0).dtype),
        beam_width=width, top_paths=paths, merge_repeated=merge_repeated,
        outputs=3 * paths + 1,
    )  # fmt: skip
    size = o.Pack(batch, time, N=2)
    labels, counts = [], []
    for at, values in zip(found[:paths], found[paths : 2 * paths], strict=True):
        later = o.GreaterEqual(values, int_tensor(blank, "int64"))
        values = o.AddV2(values, o.Cast(later, DstT=INT64))
        none = int_tensor(-1, "int64")
        labels.append(o.SparseToDense(at, size, values, none))
        row, _ = o.Unpack(at, num=2, axis=1, outputs=2)
        counts.append(o.UnsortedSegmentSum(o.OnesLike(row), row, batch))
    return (
        o.Pack(*labels, N=paths), o.Pack(*counts, N=paths),
        o.Transpose(scores, int_tensor([1, 0])),
    )  # fmt: skip


WRITE: dict[str, Any] = {"ctc_beam_search": write_ctc_beam_search}
