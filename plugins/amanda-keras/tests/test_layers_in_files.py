"""Layers saved by Keras in both forms of file, run by Amanda and by onnxruntime.

Each case is a model of one or few layers, with random weights.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import amanda

keras = pytest.importorskip("keras")
L, K = keras.layers, keras.ops
pytestmark = pytest.mark.filterwarnings("ignore")

Case = tuple[list[tuple[Any, ...]], Callable[..., Any]]

IMAGE, IDS, STEPS = (7, 9, 3), (6, "int32"), (6, 3)
SEVEN = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
TABLE = [[float(i + 3 * j + 1) for i in range(3)] for j in range(7)]


def embedding() -> Any:
    return L.Embedding(4, 3, mask_zero=True)


def some_steps(x: Any, seen: Any) -> Any:
    """Values whose mask is the second input."""
    return L.Masking()(x * K.cast(K.expand_dims(seen, -1), "float32"))


def attention(cls: Any, *sizes: int, with_scores: bool = False, **config: Any) -> Any:
    """Causal attention of a value to itself."""
    return lambda x: cls(*sizes, **config)(
        x, x, use_causal_mask=True, return_attention_scores=with_scores
    )


CASES: dict[str, Case] = {
    "UpSampling2D(bilinear)": (
        [IMAGE], lambda x: L.UpSampling2D((2, 3), interpolation="bilinear")(x)),
    "UpSampling2D(bilinear, channels_first)": (
        [(3, 4, 5)], lambda x: L.UpSampling2D(
            2, interpolation="bilinear", data_format="channels_first")(x)),
    "Normalization with numbers": (
        [(3,)], lambda x: L.Normalization(mean=SEVEN[:3], variance=SEVEN[:3])(x)),
    "Normalization with numbers, axis=1": (
        [IMAGE], lambda x: L.Normalization(axis=1, mean=SEVEN, variance=SEVEN)(x)),
    "Normalization with numbers, axis=[1, 3]": (
        [IMAGE], lambda x: L.Normalization(axis=[1, 3], mean=TABLE, variance=TABLE)(x)),
    "Normalization with numbers for the last of two axes": (
        [IMAGE], lambda x: L.Normalization(
            axis=[3, 1], mean=SEVEN[:3], variance=SEVEN[:3], invert=True)(x)),
    "Normalization with one number": (
        [IMAGE], lambda x: L.Normalization(axis=[1, 3], mean=2.0, variance=3.0)(x)),
    "Normalization, adapted, axis=[1, 3]": (
        [IMAGE], lambda x: L.Normalization(axis=[1, 3])(x)),
    "Embedding(mask_zero), BatchNormalization": (
        [IDS], lambda i: L.BatchNormalization()(embedding()(i))),
    "Masking, BatchNormalization, LSTM": (
        [STEPS, (6, "bool")],
        lambda x, m: L.LSTM(2)(L.BatchNormalization()(some_steps(x, m)))),
    "BatchNormalization with a mask, LSTM": (
        [STEPS, (6, "bool")],
        lambda x, m: L.LSTM(2)(L.BatchNormalization()(x, mask=m))),
    "a mask through a model with BatchNormalization": (
        [IDS], lambda i: L.GRU(2)(keras.Sequential(
            [L.Dense(3), L.BatchNormalization()])(embedding()(i)))),
    "a mask that SpectralNormalization(Conv1D) does not pass": (
        [IDS], lambda i: L.LSTM(2)(
            L.SpectralNormalization(L.Conv1D(3, 2))(embedding()(i)))),
    "a mask in TimeDistributed(LSTM)": (
        [(3, 4, 2), (3, 4, "bool")],
        lambda x, m: L.TimeDistributed(L.LSTM(2))(some_steps(x, m))),
    "a given mask in TimeDistributed(GlobalAveragePooling1D)": (
        [(3, 4, 2), (3, 4, "int32")],
        lambda x, m: L.TimeDistributed(L.GlobalAveragePooling1D())(x, mask=m < 3)),
    "a mask in TimeDistributed of a model": (
        [(3, 4, 2), (3, 4, "bool")],
        lambda x, m: L.TimeDistributed(keras.Sequential(
            [L.Dense(3), L.BatchNormalization(), L.LSTM(2)]))(some_steps(x, m))),
    "MultiHeadAttention, causal, with scores": (
        [(5, 6)], attention(L.MultiHeadAttention, 3, 2, with_scores=True)),
    "MultiHeadAttention, causal, with dropout": (
        [(5, 6)], attention(L.MultiHeadAttention, 3, 2, dropout=0.1)),
    "GroupQueryAttention, causal, with scores": (
        [(5, 6)], attention(L.GroupQueryAttention, 2, 4, 2, with_scores=True)),
    "MultiHeadAttention over an axis that is a number": (
        [(4, 3)], lambda x: L.MultiHeadAttention(2, 3, attention_axes=1)(x, x)),
    "MultiHeadAttention with a constant mask": (
        [(4, 3)], lambda x: L.MultiHeadAttention(2, 3)(
            x, x, attention_mask=np.tri(4, dtype=bool)[None])),
    "Softmax with a constant mask": (
        [(4,)], lambda x: L.Softmax()(x, mask=np.array([[True, False, True, True]]))),
    "LSTM with a constant mask": (
        [(4, 3)], lambda x: L.LSTM(2)(
            x, mask=np.array([[True, False, True, True]] * 2))),
    "operations that have a dtype": (
        [(3, 4)], lambda x: [
            K.cumsum(x, axis=1), K.prod(x, axis=1), K.cast(x, "int32"),
            K.one_hot(K.argmax(x, axis=-1), 4), K.zeros_like(x) + K.ones_like(x)]),
    "SpatialDropout1D, whose config has no `trainable`": (
        [STEPS], lambda x: L.SpatialDropout1D(0.3)(x)),
}  # fmt: skip
for _mode in ("bilinear", "bicubic", "nearest"):
    for _sizes in ((4, 5), (11, 5)):
        CASES[f"Resizing{_sizes}, {_mode}, antialias"] = (
            [IMAGE], lambda x, m=_mode, s=_sizes: L.Resizing(
                *s, interpolation=m, antialias=True)(x))  # fmt: skip


def expect_equal(found: Any, expected: Any) -> None:
    for a, b in zip(found, expected, strict=True):
        assert (a.shape, np.dtype(a.dtype).kind) == (b.shape, np.dtype(b.dtype).kind)
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)


def run_onnx(graph: Any, feeds: list[Any], path: Path) -> list[Any]:
    """What onnxruntime computes from the file that Amanda writes."""
    onnx, runtime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    pytest.importorskip("amanda_onnx")
    amanda.save(amanda.convert(graph, "onnx@21"), path)
    onnx.checker.check_model(str(path), full_check=True)
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    return list(session.run(None, dict(zip(names, feeds, strict=True))))


@pytest.mark.parametrize("name", CASES)
def test_a_saved_layer_computes_what_keras_does(
    name: str, models: Any, tmp_path: Path
) -> None:
    model = models.model_of(*CASES[name])
    feeds = models.feeds_of(model)
    expected = models.expected_outputs(model, feeds)
    for suffix in (".keras", ".h5"):
        path = tmp_path / f"model{suffix}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.save(path)
        graph = amanda.load(path)
        expect_equal(amanda.run(graph, feeds, backend="numpy").values(), expected)
    expect_equal(run_onnx(graph, feeds, tmp_path / "model.onnx"), expected)


def test_a_mask_passes_through_spectral_normalization(models: Any) -> None:
    """As with TensorFlow, JAX and PyTorch; the NumPy of the oracle loses the mask."""
    model = models.model_of(
        [IDS],
        lambda i: L.LSTM(2)(L.SpectralNormalization(L.Dense(3))(embedding()(i))),
    )
    (ids,) = feeds = models.feeds_of(model)
    _, table, dense, lstm = model.layers
    expected = lstm(dense(table(ids)), mask=ids != 0)
    found = amanda.run(amanda.load(model), feeds, backend="numpy")
    expect_equal(found.values(), [np.asarray(expected)])


def test_numbers_that_fit_no_axis_are_declined(models: Any) -> None:
    model = models.model_of(
        [IMAGE], lambda x: L.Normalization(axis=1, mean=SEVEN, variance=SEVEN)(x)
    )
    graph = amanda.load(model)
    (op,) = (each for each in graph if not each.is_constant)
    op.attrs["mean"] = SEVEN[:5]
    with pytest.raises(
        amanda.AmandaError, match=r"shape \(5,\) for axes of sizes \[7\]"
    ):
        amanda.convert(graph, "std")
