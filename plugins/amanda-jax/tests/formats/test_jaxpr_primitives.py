"""Primitives of JAX at their edges, on several backends, against what JAX computes."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import amanda

FLOATS = np.float32([-2.5, -0.3, -0.0, 0.0, 0.5, 1.5, 7.25, 1e30])
TIES = np.float32([0.49999997, -0.49999997, 8388609, -8388609, 16777215, 0.5, -0.5, 1.5,
                   2.5, -2.5, np.inf, -np.inf, np.nan, -0.3, 1e30])  # fmt: skip
DIVIDENDS = np.int32([7, -7, 0, 5, -(2**31), 9, 2**31 - 1])
DIVISORS = np.int32([2, 0, 0, -3, 3, 0, 7])


def divided(a, b):
    guarded = jnp.where(b == 0, 0, a // b), jnp.where(b == 0, 0, a % b)
    return (lax.div(a, b), lax.rem(a, b), *guarded, a // 3, a % 3)


ELEMENTS: dict[str, tuple[Any, ...]] = {
    "rounded away": (lambda x: (lax.round(x), lax.sign(lax.round(x))), TIES),
    "rounded away, float16": (lax.round, TIES[5:12].astype("float16")),
    "divided": (divided, DIVIDENDS, DIVISORS),
    "divided, int8": (divided, DIVIDENDS.astype("int8"), DIVISORS.astype("int8")),
    "divided, uint8": (divided, DIVIDENDS.astype("uint8"), DIVISORS.astype("uint8")),
    "divided, uint32": (divided, DIVIDENDS.view("uint32"), DIVISORS.view("uint32")),
}
CASES = ELEMENTS


@pytest.mark.parametrize("backend", ["numpy", "jax"])
@pytest.mark.parametrize("case", CASES)
def test_a_primitive_computes_what_it_does_in_jax(case, backend):
    expect_results_of_jax(*CASES[case], backend=backend)


@pytest.mark.parametrize("case", ELEMENTS)
def test_a_primitive_computes_it_in_onnxruntime(case):
    require_onnxruntime()
    expect_results_of_jax(*ELEMENTS[case], backend="onnxruntime")


def test_no_backend_divides_by_zero():
    graph = amanda.load(divided, "jax", args=(DIVIDENDS, DIVISORS))
    hub = amanda.convert(graph, "amanda/std/1")
    with np.errstate(divide="raise"):
        amanda.run(hub, [DIVIDENDS, DIVISORS], backend="numpy")


def test_a_constant_divisor_is_not_compared_with_zero():
    graph = amanda.load(lambda a: lax.div(a, jnp.int32(3)), "jax", args=(DIVIDENDS,))
    hub = amanda.convert(graph, "amanda/std/1")
    assert not {"where", "equal"} & {op.type for op in hub}


def expect_results_of_jax(function, *inputs, backend):
    graph = amanda.load(function, "jax", args=inputs)
    hub = amanda.convert(graph, "amanda/std/1")
    wanted = jax.tree.leaves(jax.jit(function)(*inputs))
    got = amanda.run(hub, list(inputs), backend=backend)
    for value, right in zip(got.values(), wanted, strict=True):
        assert value.dtype == right.dtype
        np.testing.assert_allclose(value, right, rtol=2e-5, atol=1e-5)


def require_onnxruntime():
    pytest.importorskip("onnxruntime")
    if "onnx" not in amanda.default_host().names("formats"):
        pytest.skip("amanda-onnx is not installed")
