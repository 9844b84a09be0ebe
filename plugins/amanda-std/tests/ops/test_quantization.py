"""Straight-through gradients against those of other frameworks."""

from __future__ import annotations

import numpy as np
import pytest

from amanda.types import TensorType
from amanda_std import grad, ops, trace


def gradients(function, run, *arrays):
    types = [TensorType("float32", a.shape) for a in arrays]
    graph = trace(lambda *xs: ops.sum(function(*xs)), types)
    for value in grad(graph, graph.results[0], graph.parameters):
        graph.result(value)
    return run(graph, *arrays)[1:]


X = np.array([-9, -1.2, -0.43, 0.31, 0.61, 1.9, 99], "float32")


def test_fake_quantize_matches_torch(run):
    torch = pytest.importorskip("torch", reason="the oracle is torch")
    x = torch.tensor(X, requires_grad=True)
    scale, zero = torch.tensor(0.25), torch.tensor(3, dtype=torch.int32)
    y = torch.fake_quantize_per_tensor_affine(x, scale, zero, 0, 7)
    y.sum().backward()
    (got,) = gradients(
        lambda v: ops.fake_quantize(v, np.float32(0.25), np.int32(3), low=0, high=7),
        run,
        X,
    )
    np.testing.assert_array_equal(got, x.grad.numpy())
    made = ops.fake_quantize(X, np.float32(0.25), np.int32(3), low=0, high=7)
    np.testing.assert_allclose(made, y.detach().numpy(), rtol=1e-6)


@pytest.mark.parametrize(("bits", "narrow"), [(8, False), (4, True)])
def test_fake_quantize_range_matches_tensorflow(run, bits, narrow):
    tf = pytest.importorskip("tensorflow", reason="the oracle is TensorFlow")
    low, high = np.float32(-1.1), np.float32(2.3)
    values = [tf.constant(v) for v in (X, low, high)]
    with tf.GradientTape() as tape:
        tape.watch(values)
        y = tf.quantization.fake_quant_with_min_max_vars(
            *values, num_bits=bits, narrow_range=narrow
        )
    want = tape.gradient(y, values)
    attrs = {"bits": bits, "narrow": narrow}
    got = gradients(
        lambda *v: ops.fake_quantize_range(*v, **attrs),
        run,
        X,
        np.asarray(low),
        np.asarray(high),
    )
    for ours, theirs in zip(got, want, strict=True):
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-6)
    made = ops.fake_quantize_range(X, np.asarray(low), np.asarray(high), **attrs)
    np.testing.assert_allclose(made, y.numpy(), rtol=1e-5, atol=1e-6)
