"""Windows, STFT and mel filter banks against scipy, torch and ONNX."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import signal

from amanda.types import DType
from amanda_std import ops

FLOAT64 = {"dtype": DType("float64")}


@pytest.mark.parametrize("size", [1, 2, 7, 8])
@pytest.mark.parametrize("periodic", [True, False])
def test_windows_match_scipy(size, periodic):
    for name in ("hann", "hamming", "blackman"):
        window = ops.find(f"{name}_window")
        got = window(size, periodic=periodic, **FLOAT64)
        want = signal.get_window(name, size, fftbins=periodic)
        np.testing.assert_allclose(got, want, atol=1e-12)


def test_mel_weights_match_onnx():
    onnx = pytest.importorskip("onnx", reason="the oracle is onnx")
    from onnx.reference import ReferenceEvaluator

    names = ["bins", "length", "rate", "low", "high"]
    make, kinds = (
        onnx.helper,
        [onnx.TensorProto.INT64] * 3 + [onnx.TensorProto.FLOAT] * 2,
    )
    graph = make.make_graph(
        [make.make_node("MelWeightMatrix", names, ["y"])],
        "mel",
        [
            make.make_tensor_value_info(n, k, [])
            for n, k in zip(names, kinds, strict=True)
        ],
        [make.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
    )
    reference = ReferenceEvaluator(make.make_model(graph))
    for row in ((8, 16, 8192, 0, 4096), (20, 256, 16000, 80, 7600)):
        feeds = dict(zip(names, [np.int64(v) for v in row[:3]], strict=False))
        feeds |= {"low": np.float32(row[3]), "high": np.float32(row[4])}
        (want,) = reference.run(None, feeds)
        bins, length, rate, low, high = row
        got = ops.mel_weights(bins, length, rate=rate, low=float(low), high=float(high))
        np.testing.assert_allclose(got, want, atol=1e-6)


def test_stft_matches_torch():
    torch = pytest.importorskip("torch", reason="the oracle is torch")
    x = np.random.default_rng(3).normal(size=(2, 50))
    window = ops.hann_window(12, **FLOAT64)
    want = torch.stft(
        torch.tensor(x), 12, 5, window=torch.tensor(window), center=False,
        return_complex=True,
    )  # fmt: skip
    got = ops.stft(x, 12, 5, window)
    np.testing.assert_allclose(got, want.numpy().swapaxes(1, 2), atol=1e-12)


def test_istft_inverts_stft():
    x = np.random.default_rng(4).normal(size=(3, 44))
    window = ops.hann_window(8, **FLOAT64)
    back = ops.istft(ops.stft(x, 8, 4, window), 8, 4, window)
    np.testing.assert_allclose(
        back[:, 1:], x[:, 1:], atol=1e-12
    )  # the window begins at 0
