"""To ONNX: matrices of spectra, and n-grams that are counted."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.mapping import Decline, constant_of
from amanda.tensors import Tensor
from amanda_onnx.format.element_types import CODES
from amanda_onnx.mapping.shapes.write_shapes import content, opset

__all__ = ["WRITE"]


def mel_weights(
    o: Any, bins: Any, length: Any, *, rate: int, low: float, high: float,
    dtype: Any = None,
) -> Any:  # fmt: skip
    counts = [content(v) for v in (bins, length)]
    if opset(o) < 17 or any(count is None for count in counts):
        raise Decline("MelWeightMatrix begins with opset 17, and is told its sizes")
    numbers = [Tensor.of(np.asarray(n, "int64")) for n in (*counts, rate)]
    ends = [Tensor.of(np.asarray(f, "float32")) for f in (low, high)]
    if [float(e.item()) for e in ends] != [float(f) for f in (low, high)]:
        raise Decline("frequencies with more digits than float32 has")
    code = 1 if dtype is None else CODES[dtype]
    return o.MelWeightMatrix(*numbers, *ends, output_datatype=code)


_COUNTED = ("int32", "int64", "string")


def ngram_counts(o: Any, x: Any, grams: Any, *, length: int, step: int = 1,
                 dtype: Any = None) -> Any:  # fmt: skip
    """One place for each n-gram, all of one length, without gaps between parts."""
    pool = constant_of(grams)
    if opset(o) < 9 or pool is None or (step != 1 and length > 1):
        raise Decline("TfIdfVectorizer counts constant n-grams, from opset 9 on")
    if str(dtype or "float32") != "float32" or str(x.type.dtype) not in _COUNTED:
        raise Decline("TfIdfVectorizer counts integers or texts, in float32")
    if x.type.shape.rank not in (1, 2):
        raise Decline("TfIdfVectorizer takes a text, or a row of them")
    rows = pool.numpy().reshape(-1, length).tolist()
    if not rows or len({tuple(row) for row in rows}) != len(rows):
        raise Decline("an n-gram that stands twice, or none")
    is_text = str(pool.dtype) == "string"
    items = [v.decode() if is_text else int(v) for row in rows for v in row]
    return o.TfIdfVectorizer(
        x, mode="TF", min_gram_length=length, max_gram_length=length,
        max_skip_count=0, ngram_counts=[0] * length,
        ngram_indexes=list(range(len(rows))),
        **{"pool_strings" if is_text else "pool_int64s": items},
    )  # fmt: skip


WRITE: dict[str, Any] = {"mel_weights": mel_weights, "ngram_counts": ngram_counts}
