"""From ONNX: TfIdfVectorizer, which counts n-grams of strings or integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.tensors import Tensor
from amanda_std import ops
from amanda_std.mappings import expect, rank_of

__all__ = ["READ"]


_MOST_WEIGHTS = 1 << 26
"""Elements of the matrix from n-grams to columns."""
_MOST_SKIPS = 1 << 10


def read_tfidf(
    x: Any, *, mode: str, ngram_counts: Any, ngram_indexes: Any, min_gram_length: int,
    max_gram_length: int, max_skip_count: int, pool_int64s: Any = None,
    pool_strings: Any = None, weights: Any = None,
) -> Any:  # fmt: skip
    expect(mode in ("TF", "IDF", "TFIDF"), f"unknown mode {mode}")
    pool = list(pool_int64s or pool_strings or ())
    _check_pool(pool, ngram_counts, ngram_indexes, weights)
    x = ops.reshape(x, [1]) if rank_of(x) == 0 else x
    width = max(ngram_indexes, default=0) + 1
    expect(
        width * len(ngram_indexes) <= _MOST_WEIGHTS,
        f"{len(ngram_indexes)} n-grams in {width} columns",
    )
    expect(max_skip_count <= _MOST_SKIPS, f"max_skip_count={max_skip_count}")
    starts = [*ngram_counts, len(pool)]
    total, first = None, 0
    for size in range(1, len(starts)):
        count = (starts[size] - starts[size - 1]) // size
        columns = ngram_indexes[first : first + count]
        first += count
        if not count or not min_gram_length <= size <= max_gram_length:
            continue
        grams = _ngram_table(pool[starts[size - 1] : starts[size]], size, x)
        counts = _count_ngrams(x, grams, size, max_skip_count)
        scatter = np.zeros((count, width), "float32")
        scatter[range(count), columns] = 1
        part = ops.matmul(counts, scatter)
        total = part if total is None else total + part
    expect(total is not None, "no n-gram of a length between the given ones")
    if mode != "TF":
        scale = np.asarray(weights, "float32") if weights else None
        if mode == "IDF":
            total = ops.astype(ops.greater(total, 0.0), dtype="float32")
        total = total if scale is None else total * scale
    return total


def _check_pool(pool: Any, counts: Any, indexes: Any, weights: Any) -> None:
    """Check where the n-grams of each length begin, and the index of each n-gram."""
    starts = [*counts, len(pool)]
    expect(
        starts[0] == 0 and starts == sorted(starts),
        f"ngram_counts={list(counts)}: ascending positions in a pool of {len(pool)} "
        "expected, from 0 on",
    )
    sizes = [starts[i + 1] - starts[i] for i in range(len(counts))]
    uneven = [i + 1 for i, size in enumerate(sizes) if size % (i + 1)]
    expect(not uneven, f"the pool has incomplete n-grams of {uneven} items")
    count = sum(size // (i + 1) for i, size in enumerate(sizes))
    expect(
        len(indexes) == count and min(indexes, default=0) >= 0,
        f"ngram_indexes={list(indexes)}: {count} indices expected, one for each n-gram",
    )
    expect(
        not weights or len(weights) == count,
        f"weights={weights}: {count} numbers expected, one for each n-gram",
    )


def _ngram_table(items: list[Any], size: int, x: Any) -> Any:
    rows = len(items) // size
    if isinstance(items[0], str | bytes):
        raw = [item if isinstance(item, bytes) else item.encode() for item in items]
        return Tensor.strings(raw, (rows, size))
    return np.asarray(items, "int64").reshape(rows, size).astype(x.dtype.numpy)


def _count_ngrams(x: Any, grams: Any, size: int, max_skips: int) -> Any:
    """Counts with 0 to `max_skips` elements skipped between the items."""
    total = None
    for skip in range(1 if size == 1 else max_skips + 1):
        counts = ops.ngram_counts(x, grams, length=size, step=skip + 1)
        total = counts if total is None else total + counts
    return total


READ: dict[str, Any] = {"TfIdfVectorizer": read_tfidf}
