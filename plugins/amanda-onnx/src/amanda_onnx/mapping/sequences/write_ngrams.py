"""To ONNX: TfIdfVectorizer, which counts n-grams of strings or integers."""

from __future__ import annotations

from typing import Any

from amanda.mapping import Decline, constant_of
from amanda_onnx.mapping.operands import opset_of
from amanda_std.mappings import tensor_type_of

__all__ = ["WRITE"]

_COUNTABLE = ("int32", "int64", "string")


def write_ngram_counts(o: Any, x: Any, grams: Any, *, length: int, step: int = 1,
                       dtype: Any = None) -> Any:  # fmt: skip
    """All n-grams have one length, and no elements are skipped between their items."""
    pool = constant_of(grams)
    if opset_of(o) < 9 or pool is None or (step != 1 and length > 1):
        raise Decline("TfIdfVectorizer counts constant n-grams, from opset 9 on")
    if (
        str(dtype or "float32") != "float32"
        or str(tensor_type_of(x).dtype) not in _COUNTABLE
    ):
        raise Decline("TfIdfVectorizer counts integers or strings, in float32")
    if tensor_type_of(x).shape.rank not in (1, 2):
        raise Decline("TfIdfVectorizer needs data of rank 1 or 2")
    rows = pool.numpy().reshape(-1, length).tolist()
    if not rows or len({tuple(row) for row in rows}) != len(rows):
        raise Decline("TfIdfVectorizer needs distinct n-grams, at least one")
    is_string = str(pool.dtype) == "string"
    items = [v.decode() if is_string else int(v) for row in rows for v in row]
    return o.TfIdfVectorizer(
        x, mode="TF", min_gram_length=length, max_gram_length=length,
        max_skip_count=0, ngram_counts=[0] * length,
        ngram_indexes=list(range(len(rows))),
        **{"pool_strings" if is_string else "pool_int64s": items},
    )  # fmt: skip


WRITE: dict[str, Any] = {"ngram_counts": write_ngram_counts}
