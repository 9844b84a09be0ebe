"""The backend over oneDNN: layouts, ops that are computed together."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onednn_variants import needs_onednn

import amanda
from amanda.graph import Graph
from amanda_std import ops, trace

pytestmark = needs_onednn


def random_array(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def assert_equals_numpy(graph: Graph, feeds: Sequence[Any]) -> None:
    """Two runs on oneDNN, of which the second has its plan, as on numpy."""
    expected = amanda.run(graph, feeds, backend="numpy")
    compiled = amanda.compile(graph, backend="onednn")
    for _ in range(2):
        found = compiled(feeds)
        assert found.keys() == expected.keys()
        for key, wanted in expected.items():
            scale = np.nanmax(np.abs(wanted), initial=1e-30)
            np.testing.assert_allclose(found[key], wanted, rtol=0, atol=1e-5 * scale)


def traced(function: Any, *shapes: Sequence[int]) -> tuple[Graph, list[Any]]:
    """The graph of a function, and an input of each shape."""
    types = [amanda.parse_type(f"float32{list(shape)}") for shape in shapes]
    feeds = [random_array(*shape, seed=i + 1) for i, shape in enumerate(shapes)]
    return trace(function, types), feeds


@pytest.mark.parametrize("kernel", [(32, 4, 3, 3), (16, 16, 3, 3)])
def test_a_plan_of_one_thread_in_another(kernel: Sequence[int]) -> None:
    """The scratchpads of oneDNN itself belong to the thread that made a primitive."""
    weight = random_array(*kernel)
    groups = 16 // kernel[1]
    graph, feeds = traced(lambda x: ops.conv(x, weight, groups=groups), (1, 16, 40, 40))
    wanted = amanda.run(graph, feeds, backend="numpy")
    compiled = amanda.compile(graph, backend="onednn")
    results: list[Any] = []

    def run() -> None:
        results.append(compiled(feeds))

    for _ in range(3):
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    run()
    for found in results:
        for key, array in wanted.items():
            np.testing.assert_allclose(found[key], array, rtol=0, atol=1e-4)
    assert len(results) == 4


@pytest.mark.parametrize(
    ("shape", "kernel", "attrs"),
    [
        ((2, 3, 17, 19), (8, 3, 3, 3), {}),
        ((1, 16, 20, 20), (32, 4, 3, 3), {"groups": 4, "padding": [[1, 0], [2, 1]]}),
        ((1, 24, 12, 12), (24, 1, 3, 3), {"groups": 24, "strides": [2, 1]}),
        ((1, 8, 30), (16, 8, 5), {"dilations": [3], "padding": "same_upper"}),
        ((1, 4, 9, 10, 11), (8, 4, 2, 3, 3), {"padding": "same_lower"}),
        ((1, 18, 18, 8), (16, 8, 3, 3), {"layout": "N*C"}),
        ((1, 18, 18, 8), (3, 3, 8, 16), {"layout": "N*C", "kernel_layout": "*IO"}),
        ((1, 8, 18, 18), (8, 16, 3, 3), {"kernel_layout": "IO*"}),
        ((1, 8, 18, 18), (16, 3, 3, 8), {"kernel_layout": "O*I"}),
    ],
)
def test_convolutions(
    shape: Sequence[int], kernel: Sequence[int], attrs: Mapping[str, Any]
) -> None:
    weight = random_array(*kernel)
    graph, feeds = traced(lambda x: ops.relu(ops.conv(x, weight, **attrs)), shape)
    assert_equals_numpy(graph, feeds)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_before_relu(value: float) -> None:
    kernel, matrix = random_array(16, 8, 3, 3), random_array(64, 96)
    functions: list[tuple[Any, Sequence[int]]] = [
        (ops.relu, (64, 64)),
        (lambda x: ops.relu(ops.conv(x, kernel)), (1, 8, 20, 20)),
        (
            lambda x: ops.relu(ops.conv(x, kernel) + x[:, :1, 1:-1, 1:-1]),
            (1, 8, 20, 20),
        ),
        (lambda x: ops.relu(ops.matmul(x, matrix)), (48, 64)),
        (lambda x: ops.relu(ops.matmul(x, matrix) * 0.5 + x[:, :1]), (48, 64)),
    ]
    for function, shape in functions:
        graph, [x] = traced(function, shape)
        x.flat[x.size // 2] = value
        (wanted,) = amanda.run(graph, [x], backend="numpy").values()
        (found,) = amanda.run(graph, [x], backend="onednn").values()
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


FUNCTIONS: dict[str, Any] = {
    "gelu": ops.gelu,
    "gelu by tanh": lambda x: ops.gelu(x, approximate=True),
    **{op.name: op for op in (ops.relu, ops.sigmoid, ops.silu, ops.tanh)},
    **{op.name: op for op in (ops.abs, ops.exp, ops.sqrt, ops.square)},
}
BEFORE: dict[str, tuple[Sequence[int], Any]] = {  # shape, and what the function is of
    "nothing": ((2, 8, 20, 20), lambda x: x),
    "transpose": ((2, 8, 20, 20), lambda x: ops.transpose(x, perm=(3, 1, 0, 2))),
    "product": ((2, 8, 20, 20), lambda x: ops.matmul(x, random_array(20, 48))),
    "products": ((2, 8, 20, 20), lambda x: ops.matmul(x, x)),
}
for name, shape, kernel, attrs in [
    ("conv", (1, 8, 20, 20), (16, 8, 3, 3), {}),
    ("conv 1 * 1", (1, 64, 20, 20), (64, 64, 1, 1), {}),
    ("conv of one channel", (2, 1, 7, 1), (2, 1, 1, 3), {"padding": [[0, 1], [1, 2]]}),
    ("conv along one axis", (1, 4, 50), (16, 1, 2), {"groups": 4}),
    ("conv of few channels", (1, 8, 20, 20), (4, 2, 3, 2), {"groups": 4}),
    ("conv of groups", (1, 16, 20, 20), (32, 4, 3, 3), {"groups": 4}),
    ("conv by depth", (1, 24, 12, 12), (24, 1, 3, 3), {"groups": 24}),
]:
    weight = random_array(*kernel)
    BEFORE[name] = shape, lambda x, w=weight, a=attrs: ops.conv(x, w, **a)


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_values_that_are_not_finite(before: str, name: str) -> None:
    shape, operand = BEFORE[before]
    graph, [x] = traced(lambda x: FUNCTIONS[name](operand(x)), shape)
    infinity = infinity_for(name)
    x[0, 0].flat[1], x[0, 0].flat[2], x[-1, -1].flat[4] = np.nan, infinity, -infinity
    assert_equals_closely(graph, x)


def infinity_for(name: str) -> float:
    """oneDNN's code for AVX-512 makes NaN of infinity in `gelu` by erf."""
    flags = Path("/proc/cpuinfo").read_text(encoding="utf-8").split()
    return 1e20 if name == "gelu" and "avx512f" in flags else np.inf


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("channels", [5, 16])
def test_functions_of_values_in_blocks(channels: int, name: str) -> None:
    """The blocks of five channels end with padding, which stays 0."""
    weight, ones = random_array(channels, 4, 3, 3), np.ones((8, channels, 1, 1), "f4")

    def function(x: Any) -> Any:
        y = ops.conv(x, weight)
        z = FUNCTIONS[name](y)
        return z, ops.conv(z + y, ones)

    graph, [x] = traced(function, (1, 4, 30, 30))
    infinity = infinity_for(name)
    x[0, 0, 3, 3], x[0, 1, 10], x[0, 2, 11] = np.nan, infinity, -infinity
    assert_equals_closely(graph, x)


def assert_equals_closely(graph: Graph, x: Any) -> None:
    with np.errstate(all="ignore"):
        wanted = amanda.run(graph, [x], backend="numpy")
    found = amanda.run(graph, [x], backend="onednn")
    for key, array in wanted.items():
        np.testing.assert_allclose(found[key], array, rtol=1e-4, atol=1e-4)


def residual(x: Any) -> Any:
    """Convolutions whose sums have their own, other, or no later users."""
    weights = [random_array(8, 8, 3, 3, seed=i) for i in range(4)]

    def conv(x: Any, i: int) -> Any:
        return ops.conv(x, weights[i], padding=[[1, 1], [1, 1]])

    y = ops.relu(conv(x, 0))
    z = ops.relu(ops.add(conv(y, 1), y))
    u = ops.add(conv(z, 2), z)
    return (
        ops.add(conv(u, 3), u),
        z,
        ops.mean(u, (2, 3)),
        ops.transpose(u, perm=(0, 2, 3, 1)),
    )


def test_sums_of_convolutions() -> None:
    assert_equals_numpy(*traced(residual, (2, 8, 14, 14)))


def joined(x: Any) -> Any:
    a = ops.conv(x, random_array(16, 3, 3, 3))
    b = ops.conv(x, random_array(20, 3, 3, 3, seed=5))
    y = ops.concat(a, b, axis=1)
    y = ops.max_pool(y, window=(3, 3), strides=(2, 2), padding=[[1, 1], [1, 1]])
    return ops.avg_pool(ops.multiply(y, y), window=(2, 2), strides=(2, 2)), ops.reshape(
        y, (1, -1)
    )


def test_branches_in_blocked_layouts() -> None:
    assert_equals_numpy(*traced(joined, (1, 3, 21, 21)))


def attention(x: Any, mask: Any) -> Any:
    def heads(x: Any, seed: int) -> Any:
        y = ops.matmul(x, random_array(32, 32, seed=seed)) + random_array(32, seed=9)
        return ops.transpose(ops.reshape(y, (2, 10, 4, 8)), perm=(0, 2, 1, 3))

    q, k, v = (heads(x, seed) for seed in range(3))
    scale = np.float32(0.6)
    scores = ops.matmul(q * scale, ops.transpose(k, perm=(0, 1, 3, 2)) * scale) + mask
    y = ops.transpose(ops.matmul(ops.softmax(scores), v), perm=(0, 2, 1, 3))
    z = ops.matmul(ops.reshape(y, (2, 10, 32)), random_array(32, 32, seed=4)) + x
    z = ops.layer_norm(z, random_array(32), random_array(32, seed=6))
    return ops.gelu(
        ops.matmul(z, random_array(32, 64, seed=7)) + random_array(64)
    ), scores


def test_attention() -> None:
    assert_equals_numpy(*traced(attention, (2, 10, 32), (2, 1, 1, 10)))


def test_a_number_for_those_that_are_none() -> None:
    def clean(x: Any) -> Any:
        return ops.where(ops.isnan(x), np.float32(7), x), ops.pow(x, np.float32(3))

    graph, (x,) = traced(clean, (40, 50))
    x[3, 4] = np.nan
    assert_equals_numpy(graph, [x])


@pytest.mark.parametrize("shapes", [
    [(64, 40), (40,)], [(3, 1, 40, 8), (5, 40, 1)], [(40, 1), (1, 40)],
    [(9, 40, 8), (1,)],
])  # fmt: skip
def test_operands_of_other_shapes(shapes: Sequence[Sequence[int]]) -> None:
    def function(a: Any, b: Any) -> Any:
        return a + b, a - b, b * a, b / a

    assert_equals_numpy(*traced(function, *shapes))


@pytest.mark.parametrize("shape", [(6, 7), (1, 7), (6, 1), (1,), (5, 1, 1)])
def test_scales_of_other_shapes(shape: Sequence[int]) -> None:
    def function(x: Any) -> Any:
        scale, bias = random_array(*shape), random_array(*shape, seed=3)
        return ops.layer_norm(x, scale, bias), ops.layer_norm(x, None, bias, axis=-2)

    assert_equals_numpy(*traced(function, (5, 6, 7)))


def test_shape_arguments_that_depend_on_values() -> None:
    graph = Graph("amanda/std/1")
    x = graph.parameter(amanda.parse_type("float32[a, b]"), "x")
    n = graph.parameter(amanda.parse_type("int64[2]"), "n")
    twice = graph.add("add", [n, n]).output
    part = graph.add("slice", [x, n, twice]).output
    graph.result(graph.add("relu", [part]).output, "y")
    compiled = amanda.compile(graph, backend="onednn")
    fed = random_array(40, 60)
    for low in ((1, 2), (10, 20), (3, 5)):
        found = compiled([fed, np.array(low)])["y"]
        rows, columns = (slice(n, 2 * n) for n in low)
        np.testing.assert_array_equal(found, np.maximum(fed[rows, columns], 0))


def test_inputs_and_constants_as_results() -> None:
    graph = Graph("amanda/std/1")
    x = graph.parameter(amanda.parse_type("float32[n]"), "x")
    graph.result(x, "same")
    y = graph.add("exp", [x]).output
    for name in ("first", "second"):
        graph.result(y, name)
    graph.result(graph.add("reshape", [y], {"shape": [-1, 1]}).output, "column")
    assert_equals_numpy(graph, [random_array(2000)])


def test_a_fault_names_the_op() -> None:
    graph = Graph("amanda/std/1")
    x = graph.parameter(amanda.parse_type("float32[n, 2]"), "x")
    i = graph.parameter(amanda.parse_type("int64[1]"), "i")
    graph.result(graph.add("gather", [x, i], name="rows").output, "y")
    compiled = amanda.compile(graph, backend="onednn")
    with pytest.raises(amanda.errors.BackendError, match="out of range") as caught:
        compiled([random_array(3, 2), np.array([5])])
    assert "rows" in str(caught.value.where)
