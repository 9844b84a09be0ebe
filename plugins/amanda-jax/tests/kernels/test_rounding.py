"""Division is rounded once, and denormal numbers are not zero: as IEEE 754 has it.

XLA multiplies by the reciprocal of a broadcast divisor, and flushes denormal numbers on
the CPU. The oracle is NumPy.
"""

from __future__ import annotations

import numpy as np
import pytest

import amanda
from amanda.types import parse_type
from amanda_std import ops, trace

DENORMAL = np.array([1e-45, 0.0, 1.0, -0.0, -1e-39, np.nan, np.inf], "float32")


def run(function, *arrays, backend: str = "jax"):
    types = [
        parse_type(f"{x.dtype}[{', '.join(map(str, x.shape))}]") if x.shape
        else parse_type(f"{x.dtype}[]")
        for x in arrays
    ]  # fmt: skip
    return amanda.run(trace(function, types), list(arrays), backend=backend)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(), (1,), (24,), (500, 1), (500, 24)])
def test_division_is_correctly_rounded(shape, dtype):
    rng = np.random.default_rng(0)
    a = rng.standard_normal((500, 24)).astype(dtype)
    b = (rng.random(shape) + 0.01).astype(dtype)
    for function, args in (
        (lambda a, b: ops.divide(a, b), (a, b)),
        (lambda a: ops.divide(a, b), (a,)),
        (lambda a, b: ops.divide(a, ops.broadcast_to(b, (500, 24))), (a, b)),
    ):
        [got] = run(function, *args).values()
        np.testing.assert_array_equal(got, a / b)


@pytest.mark.most_cases(1)
@pytest.mark.parametrize("zero", [None, 0, 7])
def test_quantization_of_near_ties(zero):
    """Half a quantum, and the floats beside it, for scales that are no power of two."""
    scale = np.random.default_rng(1).uniform(1e-3, 3.0, 64).astype("float32")
    ties = (np.arange(-20, 20, dtype="float32")[:, None] + np.float32(0.5)) * scale
    x = np.stack([np.nextafter(ties, -np.inf), ties, np.nextafter(ties, np.inf)])
    for i, step in enumerate(scale):
        data, point = x[..., i], None if zero is None else np.array(zero, "int8")
        wanted = np.rint(data / step) + (zero or 0)
        [got] = run(
            lambda x, step=step, point=point: ops.quantize(
                x, np.asarray(step), point, dtype="int8"
            ),
            data,
        ).values()
        np.testing.assert_array_equal(got, np.clip(wanted, -128, 127))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_denormal_numbers_are_not_zero(dtype):
    import ml_dtypes

    info = ml_dtypes.finfo(dtype)
    x = DENORMAL.astype(dtype)
    x[[0, 4]] = info.smallest_subnormal, -info.smallest_subnormal
    wanted = np.array([True, False, True, False, True, True, True])
    [truth] = run(lambda x: ops.astype(x, dtype="bool"), x).values()
    np.testing.assert_array_equal(truth, wanted)
    [indices] = run(lambda x: ops.nonzero(x), x).values()
    np.testing.assert_array_equal(indices, np.flatnonzero(wanted)[None])
