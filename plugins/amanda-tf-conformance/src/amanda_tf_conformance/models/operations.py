"""Ops by themselves: einsum, ragged and string tensors, images, linear algebra ..."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from amanda_tf_conformance.models.table import (
    Model,
    floats,
    integers,
    of_function,
    positive,
)

__all__ = ["models"]

Row = tuple[Any, ...]

X, Y, IMAGE = floats(3, 4), floats(4, 5), floats(2, 6, 6, 3)
PAIR = floats(2, 3, 4), floats(2, 4, 5)
TEXT = np.array(["one two", "Three", "", "four  five"], object)
SQUARE = floats(2, 3, 3) @ floats(2, 3, 3).swapaxes(1, 2) + np.eye(3, dtype="f")

EINSUMS: dict[str, tuple[Any, ...]] = {
    "ij,jk->ik": (X, Y),
    "bij,bjk->bik": PAIR,
    "ij->ji": (X,),
    "ij->": (X,),
    "ii->i": (floats(4, 4),),
    "ij,ij->i": (X, X),
    "i,j->ij": (X[:, 0], Y[0]),
    "bhqd,bhkd->bhqk": (floats(2, 2, 3, 4), floats(2, 2, 5, 4)),
    "...ij,...jk->...ik": PAIR,
    "abc,cd,d->ab": (PAIR[0], Y, Y[0]),
}

SHAPES: list[Row] = [
    ("split_by_sizes", lambda x: tf.split(x, [1, 3], 1), X),
    ("unstack", lambda x: tf.unstack(x, axis=1), X),
    ("tile", lambda x: tf.tile(x, [2, 1]), X),
    ("pad_reflect", lambda x: tf.pad(x, [[1, 1], [0, 2]], "REFLECT"), X),
    ("pad_symmetric", lambda x: tf.pad(x, [[1, 1], [0, 2]], "SYMMETRIC"), X),
    ("roll", lambda x: tf.roll(x, [1, -2], [0, 1]), X),
    ("reverse", lambda x: tf.reverse(x, [1]), X),
    (
        "reverse_sequence",
        lambda x: tf.reverse_sequence(x, [2, 4, 1], seq_axis=1, batch_axis=0),
        X,
    ),
    ("gather_nd", lambda x: tf.gather_nd(x, [[0, 1], [2, 3]]), X),
    (
        "gather_batched",
        lambda x, i: tf.gather(x, i, batch_dims=1),
        X,
        integers(3, 2, below=4),
    ),
    ("scatter_nd", lambda x: tf.scatter_nd([[2], [0], [2]], x, [4, 4]), X),
    (
        "scatter_update",
        lambda x: tf.tensor_scatter_nd_update(x, [[0], [2]], [[1.0] * 4] * 2),
        X,
    ),
    (
        "scatter_add",
        lambda x: tf.tensor_scatter_nd_add(x, [[0, 1], [0, 1]], [1.0, 2.0]),
        X,
    ),
    ("slice_with_masks", lambda x: x[::2, tf.newaxis, ..., -1], IMAGE),
    ("slice_of_tensor", lambda x, n: x[:n, n:], X, np.array(2, "int32")),
    ("space_to_depth", lambda x: tf.nn.space_to_depth(x, 2), IMAGE),
    (
        "depth_to_space",
        lambda x: tf.nn.depth_to_space(tf.concat([x] * 4, -1), 2),
        IMAGE,
    ),
    ("space_to_batch", lambda x: tf.space_to_batch(x, [2, 2], [[0, 0], [0, 0]]), IMAGE),
    ("broadcast_to", lambda x: tf.broadcast_to(x[:, None], [3, 2, 4]), X),
    ("meshgrid", lambda x: tf.meshgrid(x[0], x[:, 0]), X),
    ("one_hot", lambda i: tf.one_hot(i, 5, on_value=2.0, axis=0), integers(4)),
    ("sequence_mask", lambda i: tf.sequence_mask(i, 6), integers(4, below=6)),
    ("boolean_mask", lambda x: tf.boolean_mask(x, x > 0), X),
    ("where_indices", lambda x: tf.where(x > 0), X),
    ("unique", lambda i: tf.unique_with_counts(i), integers(12, below=5)),
    ("top_k", lambda x: tf.math.top_k(x, 2), X),
    ("sort", lambda x: tf.sort(x, direction="DESCENDING"), X),
    ("argsort", lambda x: tf.argsort(x), X),
    ("searchsorted", lambda x: tf.searchsorted(tf.sort(x), x + 0.1), X),
    (
        "extract_patches",
        lambda x: tf.image.extract_patches(
            x, [1, 2, 2, 1], [1, 1, 1, 1], [1, 2, 2, 1], "VALID"
        ),
        IMAGE,
    ),
    ("bincount", lambda i: tf.math.bincount(i, minlength=12), integers(12)),
    ("histogram", lambda x: tf.histogram_fixed_width(x, [-2.0, 2.0], 5), X),
    ("eye_and_diag", lambda x: tf.linalg.diag(x) + tf.eye(4), X),
]

MATH: list[Row] = [
    ("cumsum", lambda x: tf.cumsum(x, 1, exclusive=True, reverse=True), X),
    ("cumprod", lambda x: tf.math.cumprod(x, 0), X),
    ("cumulative_logsumexp", lambda x: tf.math.cumulative_logsumexp(x, 1), X),
    ("logsumexp", lambda x: tf.reduce_logsumexp(x, 1), X),
    ("moments", lambda x: tf.nn.moments(x, [1, 2]), IMAGE),
    ("norms", lambda x: (tf.norm(x), tf.norm(x, 1, axis=1), tf.norm(x, np.inf)), X),
    ("l2_normalize", lambda x: tf.nn.l2_normalize(x, 1), X),
    ("segment_sum", lambda x: tf.math.segment_sum(x, [0, 0, 2]), X),
    (
        "unsorted_segment_mean",
        lambda x: tf.math.unsorted_segment_mean(x, [1, 0, 1], 3),
        X,
    ),
    (
        "special_functions",
        lambda x: (
            tf.math.lgamma(x),
            tf.math.digamma(x),
            tf.math.erf(x),
            tf.math.erfc(x),
            tf.math.bessel_i0e(x),
            tf.math.bessel_i1e(x),
        ),
        positive(3, 4),
    ),
    (
        "igamma",
        lambda x: (tf.math.igamma(x, x + 1), tf.math.igammac(x, x)),
        positive(3, 4),
    ),
    ("betainc", lambda x: tf.math.betainc(x, x + 1, x / 3), positive(3, 4)),
    ("zeta", lambda x: tf.math.zeta(x + 1.5, x), positive(3, 4)),
    (
        "integer_division",
        lambda i, j: (i // j, i % j, tf.truncatediv(i, j), tf.truncatemod(i, j)),
        integers(6) - 5,
        integers(6, below=4) + 1 - 6 * (integers(6) % 2),
    ),
    (
        "bitwise",
        lambda i: (
            tf.bitwise.bitwise_xor(i, 5),
            tf.bitwise.left_shift(i, 2),
            tf.bitwise.invert(i),
        ),
        integers(6),
    ),
    (
        "softmax_cross_entropy",
        lambda x: tf.nn.softmax_cross_entropy_with_logits(tf.nn.softmax(x * 2), x),
        X,
    ),
    (
        "sparse_cross_entropy",
        lambda x: tf.nn.sparse_softmax_cross_entropy_with_logits([0, 3, 1], x),
        X,
    ),
    (
        "sigmoid_cross_entropy",
        lambda x: tf.nn.sigmoid_cross_entropy_with_logits(tf.nn.sigmoid(x * 2), x),
        X,
    ),
    ("local_response_normalization", lambda x: tf.nn.lrn(x, 1), IMAGE),
    ("in_top_k", lambda x: tf.math.in_top_k([1, 0, 3], x, 2), X),
    ("cast_saturated", lambda x: tf.saturate_cast(x * 1000, tf.int8), X),
    ("clip_by_norm", lambda x: tf.clip_by_norm(x, 1.0, axes=[1]), X),
    ("clip_by_global_norm", lambda x: tf.clip_by_global_norm([x, x * 2], 1.0), X),
    ("complex", lambda x: tf.abs(tf.complex(x, x + 1) * tf.exp(tf.complex(0.0, x))), X),
]

TRANSFORMS: list[Row] = [
    ("fft", lambda x: tf.math.real(tf.signal.fft(tf.cast(x, tf.complex64))), X),
    ("rfft", lambda x: tf.abs(tf.signal.rfft(x)), floats(2, 8)),
    ("irfft", lambda x: tf.signal.irfft(tf.signal.rfft(x)), floats(2, 8)),
    ("fft2d", lambda x: tf.abs(tf.signal.fft2d(tf.cast(x, tf.complex64))), X),
    ("stft", lambda x: tf.abs(tf.signal.stft(x, 8, 4)), floats(2, 32)),
    ("dct", lambda x: tf.signal.dct(x, norm="ortho"), floats(2, 8)),
    ("frame", lambda x: tf.signal.frame(x, 4, 2), floats(2, 16)),
    ("overlap_and_add", lambda x: tf.signal.overlap_and_add(x, 2), X),
]

LINEAR_ALGEBRA: list[Row] = [
    ("cholesky", tf.linalg.cholesky, SQUARE),
    ("inverse", tf.linalg.inv, SQUARE),
    ("determinant", lambda x: (tf.linalg.det(x), tf.linalg.slogdet(x)), SQUARE),
    ("solve", lambda a, b: tf.linalg.solve(a, b), SQUARE, floats(2, 3, 2)),
    (
        "triangular_solve",
        lambda a, b: tf.linalg.triangular_solve(a, b, lower=True),
        SQUARE,
        floats(2, 3, 2),
    ),
    (
        "cholesky_solve",
        lambda a, b: tf.linalg.cholesky_solve(tf.linalg.cholesky(a), b),
        SQUARE,
        floats(2, 3, 2),
    ),
    ("singular_values", lambda x: tf.linalg.svd(x, compute_uv=False), X),
    ("eigenvalues", lambda x: tf.linalg.eigvalsh(x), SQUARE),
    (
        "least_squares",
        lambda a, b: tf.linalg.lstsq(a, b, fast=True),
        floats(5, 3),
        floats(5, 2),
    ),
    ("band_part", lambda x: tf.linalg.band_part(x, 1, 0), SQUARE),
    ("set_diag", lambda x: tf.linalg.set_diag(x, x[..., 0]), SQUARE),
    ("diag_part", lambda x: tf.linalg.diag_part(x, k=(-1, 1)), SQUARE),
    ("expm", tf.linalg.expm, SQUARE * 0.1),
    (
        "matvec_adjoint",
        lambda a, b: tf.linalg.matvec(a, b, transpose_a=True),
        SQUARE,
        floats(2, 3),
    ),
    (
        "trace_and_cross",
        lambda x: (tf.linalg.trace(x), tf.linalg.cross(x[0], x[1])),
        SQUARE,
    ),
    ("tensordot", lambda a, b: tf.tensordot(a, b, [[2], [1]]), PAIR[0], PAIR[1]),
    (
        "matmul_adjoint",
        lambda a, b: tf.matmul(a, b, adjoint_a=True, transpose_b=True),
        X,
        floats(5, 3),
    ),
]

IMAGES: list[Row] = [
    (
        f"resize_{method}_{'antialias' if smooth else 'plain'}",
        lambda x, m=method, a=smooth: tf.image.resize(x, [4, 9], m, antialias=a),
        IMAGE,
    )
    for method in ("bilinear", "nearest", "bicubic", "area", "lanczos3")
    for smooth in (False, True)
    if not (smooth and method in ("nearest", "area"))
] + [
    (
        "crop_and_resize",
        lambda x: tf.image.crop_and_resize(
            x, [[0.0, 0.1, 0.9, 1.0], [0.2, 0.2, 0.7, 0.6]], [0, 1], [3, 4]
        ),
        IMAGE,
    ),
    (
        "non_max_suppression",
        lambda b, s: tf.image.non_max_suppression(b, s, 4, 0.5),
        np.sort(positive(6, 4), 1)[:, [0, 1, 3, 2]],
        positive(6),
    ),
    ("adjust_contrast", lambda x: tf.image.adjust_contrast(x, 1.5), IMAGE),
    ("rgb_to_hsv", lambda x: tf.image.rgb_to_hsv(tf.nn.sigmoid(x)), IMAGE),
    ("rgb_to_grayscale", tf.image.rgb_to_grayscale, IMAGE),
    ("flip_and_rotate", lambda x: tf.image.rot90(tf.image.flip_left_right(x)), IMAGE),
    ("standardization", tf.image.per_image_standardization, IMAGE),
    ("total_variation", tf.image.total_variation, IMAGE),
    (
        "structural_similarity",
        lambda x, y: tf.image.ssim(x, y, 2.0, filter_size=5),
        IMAGE,
        IMAGE * 0.9,
    ),
    ("sobel_edges", tf.image.sobel_edges, IMAGE),
    (
        "pad_to_bounding_box",
        lambda x: tf.image.pad_to_bounding_box(x, 1, 2, 9, 10),
        IMAGE,
    ),
]


class _Lookup(tf.Module):
    """A table of two strings."""

    def __init__(self) -> None:
        super().__init__()
        values = tf.constant([1, 3], tf.int64)
        rows = tf.lookup.KeyValueTensorInitializer(["one two", "Three"], values)
        self.table = tf.lookup.StaticHashTable(rows, -1)

    def __call__(self, x: Any) -> Any:
        return self.table.lookup(x)


TEXTS: list[Row] = [
    ("lower", tf.strings.lower, TEXT),
    ("join", lambda x: tf.strings.join([x, "-", x]), TEXT),
    ("length", tf.strings.length, TEXT),
    ("substr", lambda x: tf.strings.substr(x, 0, 3), TEXT[:2]),
    ("split", lambda x: tf.strings.split(x).to_tensor(""), TEXT),
    ("regex_replace", lambda x: tf.strings.regex_replace(x, "[aeiou]+", "_"), TEXT),
    ("regex_match", lambda x: tf.strings.regex_full_match(x, ".*e.*"), TEXT),
    ("to_number", lambda x: tf.strings.to_number(x), np.array(["1.5", "-2"], object)),
    ("of_number", lambda i: tf.strings.as_string(i), integers(4)),
    ("reduce_join", lambda x: tf.strings.reduce_join(x, separator=","), TEXT),
    ("equal", lambda x: tf.equal(x, "Three"), TEXT),
]

RAGGED: list[Row] = [
    (
        "to_tensor",
        lambda x: tf.RaggedTensor.from_row_splits(
            tf.reshape(x, [-1]), [0, 3, 3, 12]
        ).to_tensor(-1.0),
        X,
    ),
    (
        "row_sums",
        lambda x: tf.reduce_sum(
            tf.RaggedTensor.from_row_lengths(tf.reshape(x, [-1]), [5, 0, 7]), axis=1
        ),
        X,
    ),
    (
        "from_tensor",
        lambda x, n: tf.RaggedTensor.from_tensor(x, n).flat_values,
        X,
        integers(3, below=4),
    ),
    (
        "sparse_to_dense",
        lambda x: tf.sparse.to_dense(
            tf.SparseTensor([[0, 1], [2, 3]], x[0, :2], [4, 5])
        ),
        X,
    ),
    (
        "sparse_matmul",
        lambda x: tf.sparse.sparse_dense_matmul(
            tf.SparseTensor([[0, 1], [2, 3]], x[0, :2], [4, 4]), Y
        ),
        X,
    ),
]

RANDOM: list[Row] = [
    (
        "uniform",
        lambda s: tf.random.stateless_uniform([3, 4], s),
        np.array([1, 2], "int32"),
    ),
    (
        "normal",
        lambda s: tf.random.stateless_normal([3, 4], s),
        np.array([1, 2], "int32"),
    ),
    (
        "truncated_normal",
        lambda s: tf.random.stateless_truncated_normal([5], s),
        np.array([3, 4], "int32"),
    ),
    (
        "integers",
        lambda s: tf.random.stateless_uniform([6], s, 0, 100, tf.int32),
        np.array([5, 6], "int32"),
    ),
    (
        "shuffle",
        lambda x, s: tf.random.experimental.stateless_shuffle(x, s),
        X,
        np.array([1, 2], "int32"),
    ),
    (
        "dropout",
        lambda x, s: tf.nn.experimental.stateless_dropout(x, 0.4, s),
        X,
        np.array([1, 2], "int32"),
    ),
]

QUANTIZED: list[Row] = [
    ("fake_quant", lambda x: tf.quantization.fake_quant_with_min_max_args(x, -1, 1), X),
    (
        "fake_quant_vars",
        lambda x: tf.quantization.fake_quant_with_min_max_vars(
            x, -1.0, tf.reduce_max(x)
        ),
        X,
    ),
    (
        "fake_quant_channels",
        lambda x: tf.quantization.fake_quant_with_min_max_vars_per_channel(
            x, [-1.0] * 4, [1.0, 2.0, 0.5, 1.5]
        ),
        X,
    ),
    (
        "quantize_and_dequantize",
        lambda x: tf.quantization.quantize_and_dequantize_v2(x, -1.0, 1.0),
        X,
    ),
    (
        "dequantize",
        lambda x: tf.quantization.dequantize(
            tf.cast(tf.clip_by_value(x * 50 + 100, 0, 255), tf.quint8), -1.0, 1.0
        ),
        X,
    ),
]

THEMES: dict[str, list[Row]] = {
    "shape": SHAPES,
    "math": MATH,
    "signal": TRANSFORMS,
    "linalg": LINEAR_ALGEBRA,
    "image": IMAGES,
    "string": TEXTS,
    "ragged": RAGGED,
    "random": RANDOM,
    "quantized": QUANTIZED,
}


def models() -> Iterator[Model]:
    """All models of this theme."""
    for i, (equation, operands) in enumerate(EINSUMS.items()):
        yield of_function(f"einsum_{i}", _einsum(equation), *operands)
    for theme, rows in THEMES.items():
        for name, function, *arrays in rows:
            yield of_function(f"{theme}_{name}", function, *arrays)
    yield Model("string_lookup_table", _Lookup, (TEXT,), freezes=False)


def _einsum(equation: str) -> Callable[..., Any]:
    return lambda *x: tf.einsum(equation, *x)
