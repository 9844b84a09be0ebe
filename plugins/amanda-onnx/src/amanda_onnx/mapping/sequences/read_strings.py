"""From ONNX: n-grams of texts or numbers, and files of images."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.tensors import Tensor
from amanda_onnx.mapping.static_values import expect, rank_of
from amanda_std import ops

__all__ = ["READ"]

_COLOURS = {"RGB": "RGB", "BGR": "BGR", "Grayscale": "grey"}


def tfidf(
    x: Any, *, mode: str, ngram_counts: Any, ngram_indexes: Any, min_gram_length: int,
    max_gram_length: int, max_skip_count: int, pool_int64s: Any = None,
    pool_strings: Any = None, weights: Any = None,
) -> Any:  # fmt: skip
    expect(mode in ("TF", "IDF", "TFIDF"), f"no weights called {mode}")
    pool = list(pool_int64s or pool_strings or ())
    _checked(pool, ngram_counts, ngram_indexes, weights)
    x = ops.reshape(x, [1]) if rank_of(x) == 0 else x
    width = max(ngram_indexes) + 1
    starts = [*ngram_counts, len(pool)]
    total, first = None, 0
    for size in range(1, len(starts)):
        count = (starts[size] - starts[size - 1]) // size
        places = ngram_indexes[first : first + count]
        first += count
        if not count or not min_gram_length <= size <= max_gram_length:
            continue
        grams = _grams(pool[starts[size - 1] : starts[size]], size, x)
        found = _counted(x, grams, size, max_skip_count)
        spread = np.zeros((count, width), "float32")
        spread[range(count), places] = 1
        part = ops.matmul(found, spread)
        total = part if total is None else total + part
    expect(total is not None, "n-grams of a length that is counted")
    if mode != "TF":
        scale = np.asarray(weights, "float32") if weights else None
        if mode == "IDF":
            total = ops.astype(ops.greater(total, 0.0), dtype="float32")
        total = total if scale is None else total * scale
    return total


def _checked(pool: Any, counts: Any, indexes: Any, weights: Any) -> None:
    """Where the n-grams of each length begin, and a place for each of them."""
    starts = [*counts, len(pool)]
    expect(
        starts[0] == 0 and starts == sorted(starts),
        f"ngram_counts={list(counts)}: places in a pool of {len(pool)} expected, "
        "from 0 on, in order",
    )
    sizes = [starts[i + 1] - starts[i] for i in range(len(counts))]
    uneven = [i + 1 for i, size in enumerate(sizes) if size % (i + 1)]
    expect(not uneven, f"the pool has parts of n-grams of {uneven} items")
    count = sum(size // (i + 1) for i, size in enumerate(sizes))
    expect(
        len(indexes) == count and min(indexes, default=0) >= 0,
        f"ngram_indexes={list(indexes)}: {count} places expected, one for each n-gram",
    )
    expect(
        not weights or len(weights) == count,
        f"weights={weights}: {count} numbers expected, one for each n-gram",
    )


def _grams(items: list[Any], size: int, x: Any) -> Any:
    rows = len(items) // size
    if isinstance(items[0], str | bytes):
        raw = [item if isinstance(item, bytes) else item.encode() for item in items]
        return Tensor.strings(raw, (rows, size))
    return np.asarray(items, "int64").reshape(rows, size).astype(x.dtype.numpy)


def _counted(x: Any, grams: Any, size: int, skips: int) -> Any:
    """With every number of elements between the parts, up to the most."""
    total = None
    for skip in range(1 if size == 1 else skips + 1):
        found = ops.ngram_counts(x, grams, length=size, step=skip + 1)
        total = found if total is None else total + found
    return total


def image_decoder(x: Any, *, pixel_format: str = "RGB") -> Any:
    expect(pixel_format in _COLOURS, f"no order of colours called {pixel_format}")
    return ops.decode_image(x, colours=_COLOURS[pixel_format])


READ: dict[str, Any] = {"TfIdfVectorizer": tfidf, "ImageDecoder": image_decoder}
