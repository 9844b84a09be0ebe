"""Primitives of JAX at their edges, on several backends, against what JAX computes."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.ad_checkpoint import checkpoint_name

import amanda

FLOATS = np.float32([-2.5, -0.3, -0.0, 0.0, 0.5, 1.5, 7.25, 1e30])
TIES = np.float32([0.49999997, -0.49999997, 8388609, -8388609, 16777215, 0.5, -0.5, 1.5,
                   2.5, -2.5, np.inf, -np.inf, np.nan, -0.3, 1e30])  # fmt: skip
DIVIDENDS = np.int32([7, -7, 0, 5, -(2**31), 9, 2**31 - 1])
DIVISORS = np.int32([2, 0, 0, -3, 3, 0, 7])


def divided(a, b):
    guarded = jnp.where(b == 0, 0, a // b), jnp.where(b == 0, 0, a % b)
    return (lax.div(a, b), lax.rem(a, b), *guarded, a // 3, a % 3)


FORMATS = (8, 23), (11, 52), (5, 10), (8, 7), (4, 3), (5, 2), (8, 0), (3, 23)
NUMBERS = np.float32([
    np.inf, -np.inf, 0, -0.0, 65504, 65519, 65520, -7e4, 6.1e-5, 6.0e-5, 5.9e-8, 1e-40,
    3.4e38, 1.00048828125, 1.0014, 248, 250, -0.0078125, 1.0625, 1.1875,
])  # fmt: skip
TWO = np.float32([1.5, -2]), np.float32([3, 0.5])


def bits_of(x):
    return lax.bitcast_convert_type(x, jnp.int32)


ELEMENTS: dict[str, tuple[Any, ...]] = {
    "rounded away": (lambda x: (lax.round(x), lax.sign(lax.round(x))), TIES),
    "rounded away, float16": (lax.round, TIES[5:12].astype("float16")),
    "divided": (divided, DIVIDENDS, DIVISORS),
    "divided, int8": (divided, DIVIDENDS.astype("int8"), DIVISORS.astype("int8")),
    "divided, uint8": (divided, DIVIDENDS.astype("uint8"), DIVISORS.astype("uint8")),
    "divided, uint32": (divided, DIVIDENDS.view("uint32"), DIVISORS.view("uint32")),
    "integer exponents": (
        lambda x, n: (lax.pow(x, n), lax.pow(x.astype("float16"), n)),
        np.float32([-2.5, -0.5, -0.0, 0.0, 0.5, 1.5, 7.25]),
        np.int32([2, -1, 3, 0, 1, -2, 5]),
    ),
    "unsigned integers": (
        lambda n: (-n, lax.sign(n), lax.shift_right_arithmetic(n, n & 7)),
        DIVIDENDS.view("uint32"),
    ),
    "shifted integers": (
        lambda n: (
            lax.shift_right_arithmetic(n, n & 7),
            lax.shift_right_logical(n, n & 7),
        ),
        DIVIDENDS,
    ),
    "complex numbers": (
        lambda z: (lax.rsqrt(z), lax.square(z), lax.logistic(z), lax.conj(z), -z),
        np.complex64([1 + 2j, -0.5 + 0.25j, 3 - 1j]),
    ),
    "signs of complex numbers": (lax.sign, np.complex64([0, 3 - 4j, -2, 1j])),
    "a conjugate of real numbers": (
        lambda x: (lax.conj(x), lax.sign(lax.imag(lax.conj(x)))),
        FLOATS,
    ),
    "names": (lambda x: checkpoint_name(jnp.sin(x), "sine") * 2, FLOATS),
    "a composite": (lax.composite(lambda x, k: (x * k, x), name="my.scale"), *TWO),
    "lower precision": (
        lambda x: [bits_of(lax.reduce_precision(x, *format)) for format in FORMATS],
        NUMBERS,
    ),
}


# -- windows ---------------------------------------------------------------------------

TABLE = np.sin(np.arange(30, dtype="float32")).reshape(5, 6)
IMAGES = np.sin(np.arange(288, dtype="float32")).reshape(2, 3, 8, 6)
EXTREMES = np.int32([[5, -(2**31), 3, 3], [2**31 - 1, 7, 7, -1], [0, 1, -9, 4]])


def of_windows(window, *settings):
    """The largest, smallest and sum of each window."""

    def reduce(x):
        ends = jnp.finfo(x.dtype) if x.dtype.kind == "f" else jnp.iinfo(x.dtype)
        low, high = (-np.inf, np.inf) if x.dtype.kind == "f" else (ends.min, ends.max)
        rows = (low, lax.max), (high, lax.min), (0, lax.add)
        return [
            lax.reduce_window(x, np.asarray(start, x.dtype), by, window, *settings)
            for start, by in rows
        ]

    return reduce


def of_conditions(x):
    settings = (2, 2), (2, 1), ((1, 1), (0, 0))
    return (
        lax.reduce_window(x > 0, np.False_, lax.max, *settings),
        lax.reduce_window(x > 0, np.True_, lax.min, *settings),
    )


def products(x):
    settings = (3, 2), (2, 1), PADDED, (1, 2), (1, 2)
    return lax.reduce_window(x, np.float32(1), lax.mul, *settings)


def first_maxima(x):
    """The largest element of each window and its first place."""

    def larger(a, b):
        is_a = (a[0] > b[0]) | ((a[0] == b[0]) & (a[1] < b[1]))
        return tuple(jnp.where(is_a, *pair) for pair in zip(a, b, strict=True))

    places = lax.iota(jnp.int32, x.size).reshape(x.shape)
    start = np.float32(-np.inf), np.int32(-1)
    return lax.reduce_window((x, places), start, larger, (2, 3), (1, 2), "VALID")


def updated_by_functions(x):
    places = jnp.array([3, 0, 9])
    return (
        x.at[1].apply(jnp.sin),
        x.at[:, 2].apply(lambda v: v * 2),
        x.at[places].apply(jnp.square, unique_indices=True),
        x.at[places].apply(jnp.square, unique_indices=True, mode="clip"),
    )


def squared_extremes(x):
    settings = (3, 2), (2, 2), ((1, 1), (0, 0))
    largest = lax.reduce_window(x, -np.inf, lax.max, *settings)
    smallest = lax.reduce_window(x, np.inf, lax.min, *settings)
    return (largest**2 + smallest**3).sum()


PADDED = ((1, 1), (0, 1))
WINDOWS: dict[str, tuple[Any, ...]] = {
    "windows of a vector": (of_windows((3,), (2,), ((1, 1),)), TABLE[0]),
    "windows of a table": (of_windows((3, 2), (2, 1), PADDED), TABLE),
    "windows of rows": (of_windows((1, 2), (1, 1), ((0, 0), (0, 1))), TABLE),
    "windows of dilated data": (of_windows((3, 2), (2, 1), PADDED, (2, 3)), TABLE),
    "windows of a batch": (of_windows((2, 1, 2, 1), (1,) * 4, "VALID"), IMAGES),
    "windows, channels behind": (of_windows((1, 2, 2, 1), (1,) * 4, "SAME"), IMAGES),
    "windows of integers": (of_windows((2, 2), (1, 1), PADDED), EXTREMES),
    "windows of uint8": (of_windows((2, 2), (1, 1), PADDED), EXTREMES.astype("uint8")),
    "windows of dilated integers": (
        of_windows((2, 2), (2, 1), PADDED, (2, 1), (1, 2)), EXTREMES
    ),
    "windows reduced by products": (products, TABLE),
    "windows reduced by a function": (first_maxima, TABLE),
    "elements updated by a function": (updated_by_functions, TABLE),
    "windows of conditions": (of_conditions, TABLE),
    "gradients of windows": (jax.grad(squared_extremes), TABLE),
    "tangents of windows": (
        lambda x: jax.jvp(squared_extremes, (x,), (x * x,))[1], TABLE
    ),
}  # fmt: skip


# -- products and convolutions ---------------------------------------------------------

FEATURES = np.sin(np.arange(840, dtype="float32")).reshape(4, 6, 7, 5)
KERNELS = np.cos(np.arange(648, dtype="float32")).reshape(12, 6, 3, 3)
ROWS = np.sin(np.arange(12, dtype="float32")).reshape(3, 4)
COLUMNS = np.arange(8, dtype="int32").reshape(4, 2)


def of_convolution(groups, preferred=None):
    def run(x, w):
        return lax.conv_general_dilated(
            x, w, (2, 1), ((1, 1), (0, 1)), feature_group_count=groups,
            preferred_element_type=preferred and jnp.dtype(preferred),
        )  # fmt: skip

    return run


def gradients_of_convolution(groups):
    run = of_convolution(groups)
    return jax.grad(lambda x, w: (run(x, w) ** 2).sum(), argnums=(0, 1))


def with_groups_of_batch(layout, kernels):
    def run(x, w):
        order = ["NCHW".index(c) for c in layout]
        places = ["OIHW".index(c) for c in kernels]
        return lax.conv_general_dilated(
            x.transpose(order), w.transpose(places), (1, 1), "SAME",
            batch_group_count=2, dimension_numbers=(layout, kernels, layout),
        )  # fmt: skip

    return run


def as_integers(x, dtype):
    return (x * 1e9).astype("int64").astype(dtype)


def of_product(preferred=None, left=None, right=None):
    def run(a, b):
        a, b = a.astype(left or a.dtype), b.astype(right or b.dtype)
        numbers = ((1,), (0,)), ((), ())
        return lax.dot_general(a, b, numbers, preferred_element_type=preferred)

    return run


PRODUCTS: dict[str, tuple[Any, ...]] = {
    "gradients of a depthwise convolution": (
        gradients_of_convolution(6), FEATURES, KERNELS[:6, :1]
    ),
    "gradients of a grouped convolution": (
        gradients_of_convolution(2), FEATURES, KERNELS[:, :3]
    ),
    "a convolution of groups of a batch": (
        with_groups_of_batch("NCHW", "OIHW"), FEATURES, KERNELS
    ),
    "groups of a batch, channels behind": (
        with_groups_of_batch("NHWC", "HWIO"), FEATURES, KERNELS
    ),
    "a convolution in float32": (
        of_convolution(6, "float32"), FEATURES.astype("float16"),
        KERNELS[:6, :1].astype("float16"),
    ),
    "a convolution of int8 in int32": (
        of_convolution(6, "int32"), as_integers(FEATURES, "int8"),
        as_integers(KERNELS[:6, :1], "int8"),
    ),
    "a convolution of int8": (
        of_convolution(2), as_integers(FEATURES, "int8"),
        as_integers(KERNELS[:, :3], "int8"),
    ),
    "a convolution of int16": (
        of_convolution(2), as_integers(FEATURES, "int16"),
        as_integers(KERNELS[:, :3], "int16"),
    ),
    "a convolution of int32": (
        of_convolution(2), as_integers(FEATURES, "int32"),
        as_integers(KERNELS[:, :3], "int32"),
    ),
    "a convolution of uint32": (
        of_convolution(2), as_integers(FEATURES, "uint32"),
        as_integers(KERNELS[:, :3], "uint32"),
    ),
    "a product of float32 and int32": (of_product(), ROWS, COLUMNS),
    "a product of bfloat16 and float32": (
        of_product(None, "bfloat16", "float32"), ROWS, COLUMNS
    ),
    "a product of int8 in int32": (
        of_product("int32", "int8", "int8"), ROWS * 99, COLUMNS * 9
    ),
    "a product of uint8 and int8": (
        of_product("int32", "uint8", "int8"), ROWS**2 * 99, COLUMNS * -9
    ),
    "a product of float8": (
        of_product("float32", "float8_e4m3fn", "float8_e5m2"), ROWS, COLUMNS
    ),
    "a product of int8 and uint8": (of_product(None, "int8", "uint8"), ROWS, COLUMNS),
    "a product of conditions": (lambda a, b: (a > 0) @ (b > 6), ROWS, COLUMNS),
    "products of conditions": (
        lambda a: jnp.einsum("bij,bkj->bik", a > 0, a < 0.5), ROWS.reshape(2, 3, 2)
    ),
}  # fmt: skip


# -- matrices --------------------------------------------------------------------------

SQUARES = np.sin(np.arange(96, dtype="float32") ** 1.3).reshape(2, 3, 4, 4) + np.eye(
    4, dtype="float32"
)


def solved_with_conjugate(a):
    z = a + 0.5j * a[::-1]
    return lax.linalg.triangular_solve(
        z, z, left_side=True, lower=True, transpose_a=True, conjugate_a=True
    )


MATRICES: dict[str, tuple[Any, ...]] = {
    "factors of a batch": (
        lambda a: (*lax.linalg.lu(a), *lax.linalg.lu(a[..., :2]),
                   *lax.linalg.lu(a[0, :, :3])),
        SQUARES,
    ),
    "solutions of a batch": (
        lambda a: (jnp.linalg.solve(a, a[::-1]), jnp.linalg.inv(a), jnp.linalg.det(a),
                   *jnp.linalg.slogdet(a)),
        SQUARES,
    ),
    "exchanges of a batch": (
        lambda pivots: lax.linalg.lu_pivots_to_permutation(pivots, 5),
        np.int32([[2, 2, 3], [0, 4, 2]]),
    ),
    "a solution with the conjugate": (solved_with_conjugate, SQUARES),
}  # fmt: skip


# -- reductions, and branches ----------------------------------------------------------


def place_of_largest(x):
    """The largest element with its place, by a reduction of pairs."""

    def larger(a, b):
        is_first = a[0] > b[0]
        return jnp.where(is_first, a[0], b[0]), jnp.where(is_first, a[1], b[1])

    places = lax.iota(jnp.int32, x.size).reshape(x.shape)
    start = np.float32(-9), np.int32(0)
    return lax.reduce((x, places), start, larger, (0, 1))


def branch(x):
    cases = [
        lambda x: (jnp.sin(x) * x).sum(),
        lambda x: x[0, 0] * 2.0,
        lambda x: (jnp.exp(x) * x).sum(),
    ]
    return lax.switch(jnp.int32(x[0, 1] > 0) + 1, cases, x)


REDUCTIONS: dict[str, tuple[Any, ...]] = {
    "bits": (
        lambda n: (jnp.bitwise_or.reduce(n, axis=0), jnp.bitwise_and.reduce(n, axis=1),
                   jnp.bitwise_xor.reduce(n, axis=None), lax.reduce_or(n, axes=()),
                   lax.reduce_xor(n > 0, axes=(0,)), lax.reduce_and(n > 0, axes=(0,))),
        EXTREMES,
    ),
    "by a function": (
        lambda x: (lax.reduce(x, np.float32(2), lax.add, (0,)),
                   lax.reduce(x, np.float32(2), lambda a, b: a + b + a * b, (1,)),
                   *place_of_largest(x)),
        TABLE,
    ),
    "gradients of branches": (jax.grad(branch), TABLE),
    "an empty array": (lambda x: (lax.empty((5, 6), jnp.bfloat16) * 0 + 1) * x, TABLE),
}  # fmt: skip


# -- operands that are permuted or cast ------------------------------------------------

ADAPTED: dict[str, tuple[Any, ...]] = {
    "places of conditions": (
        lambda x: (jnp.argmax(x > 0, 0), jnp.argmin(x > 0, 1), jnp.argmax(x > 2),
                   jnp.select([x > 0, x < -0.5], [x, -x], 3.0)),
        TABLE,
    ),
    "sorted conditions": (
        lambda x: (jnp.sort(x > 0, 1), jnp.argsort(x > 0, 0),
                   jnp.sort(x > 0, 0, descending=True)),
        TABLE,
    ),
    "sorted complex numbers": (
        lambda x: jnp.argsort(jnp.round(x * 2) + 1j * jnp.cos(x * 9), 0), TABLE
    ),
    "a permuted reshape": (lambda x: lax.reshape(x, (2, 15), (1, 0)), TABLE),
}  # fmt: skip


# -- comparisons with JAX --------------------------------------------------------------

CASES = {**ELEMENTS, **WINDOWS, **PRODUCTS, **MATRICES, **REDUCTIONS, **ADAPTED}
CASES_OF_ONNXRUNTIME = [
    *ELEMENTS, *ADAPTED, *REDUCTIONS, "solutions of a batch", "windows of a table",
    "windows of uint8", "products of conditions",
    "gradients of a depthwise convolution", "a convolution of int8 in int32",
    "a product of float32 and int32", "a product of conditions",
]  # fmt: skip


@pytest.mark.parametrize("backend", ["numpy", "jax"])
@pytest.mark.parametrize("case", CASES)
def test_a_primitive_computes_what_it_does_in_jax(case, backend):
    expect_results_of_jax(*CASES[case], backend=backend)


@pytest.mark.parametrize("case", CASES_OF_ONNXRUNTIME)
def test_a_primitive_computes_it_in_onnxruntime(case):
    require_onnxruntime()
    expect_results_of_jax(*CASES[case], backend="onnxruntime")


def test_a_constant_divisor_is_not_compared_with_zero():
    graph = amanda.load(lambda a: (a // 3, lax.rem(a, 5)), "jax", args=(DIVIDENDS,))
    hub = amanda.convert(graph, "amanda/std/1")
    assert "equal" not in {op.type for op in hub}


def test_groups_of_a_batch_may_have_a_symbolic_size():
    kernels = KERNELS[:6, :1]
    function = gradients_of_convolution(6)
    types = "float32[batch, 6, 7, 5]", str(amanda.Tensor.of(kernels).type)
    hub = amanda.convert(amanda.load(function, "jax", args=types), "amanda/std/1")
    wanted = function(FEATURES, kernels)
    got = amanda.run(hub, [FEATURES, kernels], backend="numpy")
    for value, right in zip(got.values(), wanted, strict=True):
        np.testing.assert_allclose(value, right, rtol=2e-5, atol=1e-5)


def test_what_is_shown_while_it_runs_is_lost_and_reported(capsys):
    def shown(x):
        jax.debug.print("start")
        jax.debug.print("x is {}, {y}", x, y=x.sum(), ordered=True)
        jax.debug.callback(lambda x: None, x)
        return lax.scan(lambda c, row: (c + row, jax.debug.print("{}", c)), x[0], x)[0]

    graph = amanda.load(shown, "jax", args=(TABLE,))
    reports: list[Any] = []
    hub = amanda.convert(graph, "amanda/std/1", reports=reports)
    losses = [loss.split(": ")[1] for report in reports for loss in report.losses]
    assert sorted(set(losses)) == ["the calls of a function", "what it prints"]
    [got] = amanda.run(hub, [TABLE], backend="numpy").values()
    np.testing.assert_allclose(got, TABLE.sum(0) + TABLE[0], rtol=1e-5)
    assert capsys.readouterr().out == ""


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
