"""Windows of cosines, where they are made, and padding that also takes away."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.signal import get_window

import amanda
from amanda.errors import BackendError
from amanda.types import DType
from amanda_jax.kernels import JAX, array_ops
from amanda_std.backends import current_kernels, use_kernels

SHARES = {
    "hann": (0.5, 0.5),
    "hamming": (0.54, 0.46),
    "blackman": (0.42, 0.5, 0.08),
    "boxcar": (1.0,),
}


class TestWindows:
    @pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
    @pytest.mark.parametrize("periodic", [True, False])
    @pytest.mark.parametrize("size", [1, 2, 5, 8, 2 * array_ops.LARGE])
    @pytest.mark.parametrize("name", SHARES)
    def test_as_scipy_on_the_device_whatever_their_size(
        self, name, size, periodic, dtype
    ):
        with jax.enable_x64(True), use_kernels(JAX):
            got = array_ops.cosine_window(
                size, shares=SHARES[name], periodic=periodic, dtype=DType(dtype)
            )
            kernels = current_kernels()
        assert isinstance(got, jax.Array)
        assert kernels is JAX
        assert got.dtype == dtype
        wanted = get_window(name, size, fftbins=periodic)
        loose = {"float16": 1e-3, "float32": 1e-6, "float64": 1e-12}[dtype]
        np.testing.assert_allclose(got, wanted, rtol=0, atol=loose)

    def test_without_a_table_numpy_makes_it(self):
        with use_kernels(None):
            got = array_ops.cosine_window(
                5, shares=SHARES["hann"], periodic=True, dtype=DType("float64")
            )
        assert isinstance(got, np.ndarray)
        np.testing.assert_allclose(got, get_window("hann", 5), atol=1e-15)


class TestPad:
    @pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
    @pytest.mark.parametrize(
        ("pads", "axes"),
        [
            ([(1, 2), (0, 1)], None),
            ([(2, 0)], (1,)),
            ([(1, 2)], (-2,)),
            ([(-1, 2), (1, -2)], None),
            ([(-1, -1)], (1,)),
            ([(1, 1), (2, 0)], (1, 0)),
        ],
    )
    def test_as_numpy_of_what_is_left(self, pads, axes, mode):
        """What is taken away is gone before the rest is mirrored or met again."""
        x = np.arange(20.0).reshape(4, 5)
        rows = [(0, 0)] * 2
        for pair, axis in zip(pads, (0, 1) if axes is None else axes, strict=True):
            rows[axis] = pair
        cut = tuple(
            slice(-min(a, 0), n + min(b, 0))
            for (a, b), n in zip(rows, x.shape, strict=True)
        )
        grown = [(max(a, 0), max(b, 0)) for a, b in rows]
        wanted = np.pad(x[cut], grown, mode=mode)
        with jax.enable_x64(True):
            got = array_ops.pad(jnp.asarray(x), pads, None, axes, mode=mode)
        np.testing.assert_array_equal(got, wanted)


class TestShares:
    @pytest.mark.parametrize("axes", [(-1,), (0,), (0, 2), (1, -1), (0, 1, 2)])
    @pytest.mark.parametrize("of", [1.0, 1e3, 1e30])
    def test_along_several_axes(self, axes, of):
        x = np.random.default_rng(0).standard_normal((2, 3, 4)) * of
        top = np.exp(x - x.max(axes, keepdims=True))
        wanted = top / top.sum(axes, keepdims=True)
        with jax.enable_x64(True):
            got = array_ops.softmax(jnp.asarray(x), axes=axes)
            logs = array_ops.log_softmax(jnp.asarray(x), axes=axes)
        np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-300)
        np.testing.assert_allclose(np.exp(logs), wanted, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("dtype", ["int2", "uint2"])
@pytest.mark.parametrize("op", ["concat", "sort", "argsort"])
def test_integers_of_two_bits(op, dtype):
    """XLA ended the process; without JAX, numpy has the same numbers."""
    graph = amanda.Graph("amanda/std/1")
    x = graph.parameter(f"{dtype}[n]", "x")
    inputs = [x, x] if op == "concat" else [x]
    graph.result(graph.add(op, inputs, {"axis": 0}).output, "y")
    values = np.array([1, 0, 1, -2 if dtype == "int2" else 3], "int8")
    found = amanda.run(graph, [values.astype(DType(dtype).numpy)], backend="jax")["y"]
    expected = {
        "concat": np.concatenate([values, values]),
        "sort": np.sort(values),
        "argsort": np.argsort(values, kind="stable"),
    }
    assert np.asarray(found).astype("int64").tolist() == expected[op].tolist()
    if op != "argsort":
        assert DType.of(found) is DType(dtype)


@pytest.mark.parametrize("dtype", ["int1", "uint1", "complex32", "bcomplex32"])
def test_element_types_that_xla_does_not_have_are_refused(dtype):
    graph = amanda.Graph("amanda/std/1")
    graph.result(graph.add("identity", [graph.parameter(f"{dtype}[2]")]).output)
    (refusal,) = amanda.plan(graph, "jax", prefer_backend=True).refusals
    assert refusal.why == f"XLA has no element type {dtype}"


def test_constants_of_strings_are_refused_as_results():
    graph = amanda.Graph("amanda/std/1")
    graph.result(graph.add("tanh", [graph.parameter("float32[2]")]).output)
    graph.result(graph.constant(amanda.Tensor.of(["a"], "string")).output)
    with pytest.raises(BackendError, match=r"not support results .*string"):
        amanda.compile(graph, "jax")
