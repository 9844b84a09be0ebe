"""Linear algebra where samples do not get: halves, batches of two kinds, nothing."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import solve_triangular

import amanda
from amanda.types import DType, parse_type
from amanda_jax.kernels import JAX, linear_algebra
from amanda_std import ops, trace

pytestmark = pytest.mark.usefixtures("without_onednn")

CLOSE = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-5, "float64": 1e-12}


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def as_type(array: np.ndarray, dtype: str) -> np.ndarray:
    return array.astype(DType(dtype).numpy)


def expect(got, wanted, dtype) -> None:
    assert got.dtype == DType(dtype).numpy
    assert got.shape == wanted.shape
    loose = CLOSE[dtype]
    np.testing.assert_allclose(
        np.asarray(got).astype("float64"), wanted, rtol=loose, atol=loose
    )


class TestTriangularSolve:
    @pytest.mark.parametrize("unit", [False, True])
    @pytest.mark.parametrize("transpose", [False, True])
    @pytest.mark.parametrize("lower", [False, True])
    @pytest.mark.parametrize("dtype", CLOSE)
    def test_as_scipy_in_double_precision(self, dtype, lower, transpose, unit):
        """What is beside the triangle is there, and is not read."""
        a = as_type(random(4, 4) / 3 + 2 * np.eye(4), dtype)
        b = as_type(random(4, 3, seed=1), dtype)
        told = {"lower": lower, "trans": transpose, "unit_diagonal": unit}
        wanted = solve_triangular(a.astype("float64"), b.astype("float64"), **told)
        with jax.enable_x64(True):
            got = linear_algebra.triangular_solve(
                jnp.asarray(a), jnp.asarray(b), lower=lower, transpose=transpose,
                unit=unit,
            )  # fmt: skip
        expect(got, wanted, dtype)

    @pytest.mark.parametrize(
        ("of_a", "of_b"),
        [((), (2,)), ((2,), ()), ((3, 1), (2,)), ((2,), (3, 1)), ((1,), (3, 2))],
    )
    def test_batches_that_broadcast(self, of_a, of_b):
        a, b = random(*of_a, 3, 3) + 4 * np.eye(3), random(*of_b, 3, 2, seed=1)
        batch = np.broadcast_shapes(of_a, of_b)
        many, right = np.broadcast_to(a, (*batch, 3, 3)), [*batch, 3, 2]
        right = np.broadcast_to(b, right)
        wanted = np.stack(
            [solve_triangular(many[i], right[i], lower=True) for i in np.ndindex(batch)]
        )
        with jax.enable_x64(True):
            got = linear_algebra.triangular_solve(
                jnp.asarray(a), b, lower=True, transpose=False, unit=False
            )
        expect(got, wanted.reshape(right.shape), "float64")

    @pytest.mark.parametrize("dtype", ["float16", "float64"])
    @pytest.mark.parametrize(
        ("a", "b", "wanted"),
        [
            ((3, 3), (3, 0), (3, 0)),
            ((0, 0), (0, 2), (0, 2)),
            ((0, 3, 3), (3, 2), (0, 3, 2)),
            ((2, 3, 3), (1, 3, 0), (2, 3, 0)),
        ],
    )
    def test_nothing_to_solve(self, a, b, wanted, dtype):
        with jax.enable_x64(True):
            got = linear_algebra.triangular_solve(
                jnp.ones(a, dtype), jnp.ones(b, dtype), lower=True, transpose=False,
                unit=False,
            )  # fmt: skip
        assert (got.shape, got.dtype) == (wanted, dtype)


class TestLu:
    @pytest.mark.parametrize("dtype", CLOSE)
    @pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 3, 4, 4), (1, 1)])
    def test_the_parts_make_the_rows_in_their_order(self, shape, dtype):
        """Lower times upper is the whole, and nothing below is larger than 1."""
        x = as_type(random(*shape), dtype)
        with jax.enable_x64(True):
            packed, order = linear_algebra.lu(jnp.asarray(x))
        assert (packed.dtype, order.dtype) == (x.dtype, "int64")
        rows, columns = shape[-2:]
        packed = np.asarray(packed).astype("float64")
        lower = (
            np.tril(packed, -1)[..., : min(rows, columns)]
            + np.eye(rows, columns)[:, : min(rows, columns)]
        )
        upper = np.triu(packed)[..., : min(rows, columns), :]
        assert np.abs(lower).max() <= 1
        assert (np.sort(order, -1) == np.arange(rows)).all()
        wanted = np.take_along_axis(x.astype("float64"), order[..., None], -2)
        loose = 4 * CLOSE[dtype]
        np.testing.assert_allclose(lower @ upper, wanted, rtol=loose, atol=loose)

    def test_the_largest_of_a_column_comes_first(self):
        with jax.enable_x64(True):
            _, order = linear_algebra.lu(jnp.asarray([[1.0, 2], [-8, 1], [4, 4]]))
        assert order.tolist()[0] == 1

    @pytest.mark.parametrize("dtype", ["float16", "float64"])
    @pytest.mark.parametrize("shape", [(0, 3), (3, 0), (2, 0, 3), (0, 3, 3)])
    def test_nothing_keeps_its_order(self, shape, dtype):
        with jax.enable_x64(True):
            packed, order = linear_algebra.lu(jnp.ones(shape, dtype))
        assert (packed.shape, packed.dtype) == (shape, dtype)
        assert order.dtype == "int64"
        wanted = np.broadcast_to(np.arange(shape[-2]), shape[:-1])
        np.testing.assert_array_equal(order, wanted)


class TestComplex:
    @pytest.mark.parametrize(("part", "whole"), [("float32", 8), ("float64", 16)])
    def test_parts_that_broadcast(self, part, whole):
        real, imag = as_type(random(3, 1), part), as_type(random(4, seed=1), part)
        with jax.enable_x64(True):
            got = linear_algebra.complex_(jnp.asarray(real), imag)
        assert got.dtype == f"c{whole}"
        np.testing.assert_array_equal(got, real + 1j * imag)

    @pytest.mark.parametrize("part", ["float16", "bfloat16"])
    def test_halves_are_parts_of_single_precision(self, part):
        """There is no complex number of halves: its parts are exact."""
        real, imag = as_type(random(3), part), as_type(random(3, seed=1), part)
        with jax.enable_x64(True):
            got = linear_algebra.complex_(jnp.asarray(real), jnp.asarray(imag))
        assert got.dtype == "complex64"
        wanted = real.astype("float32") + 1j * imag.astype("float32")
        np.testing.assert_array_equal(got, wanted)

    def test_what_is_no_number_stays_in_its_part(self):
        real, imag = np.array([np.inf, np.nan, -0.0]), np.array([np.nan, 1, -0.0])
        with jax.enable_x64(True):
            got = np.asarray(JAX["complex"](jnp.asarray(real), jnp.asarray(imag)))
        np.testing.assert_array_equal(got.real, real)
        np.testing.assert_array_equal(got.imag, imag)
        assert np.signbit([got.real[2], got.imag[2]]).all()


class TestStoredWeights:
    """Large weights of products are stored as XLA's library reads them fastest."""

    @pytest.mark.parametrize(
        ("rows", "inner", "out", "order"),
        [
            (128, 768, 1024, "[1] x [1]"),
            (197, 1024, 768, "[1] x [1]"),
            (128, 256, 256, "[1] x [0]"),  # small
            (2000, 768, 1024, "[1] x [0]"),  # many rows
        ],
    )
    def test_by_rows_and_size(self, rows, inner, out, order, monkeypatch):
        monkeypatch.setattr("amanda_jax.cpu_tuning.cores.core_count", lambda: 2)
        weight, x = random(inner, out), random(rows, inner, seed=1)
        weight, x = weight.astype("float32") / inner, x.astype("float32")
        graph = trace(
            lambda x: ops.matmul(x, weight), [parse_type(f"float32[{rows}, {inner}]")]
        )
        compiled = amanda.compile(graph, "jax")
        [got] = compiled([x]).values()
        np.testing.assert_allclose(got, x @ weight, rtol=1e-4, atol=1e-5)
        function, arguments = compiled.executable._code.last_call()
        assert f"contracting_dims = {order}" in function.lower(*arguments).as_text()
