"""Convolutions and products of oneDNN in programs of XLA: the step `onednn`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onednn_variants import IS_INSTALLED

import amanda
from amanda.errors import AmandaError
from amanda_std import Value, ops

if not IS_INSTALLED:
    pytest.skip("amanda-onednn is not installed", allow_module_level=True)

from amanda_onednn.xla import XlaKernels

KERNELS = XlaKernels()

BY_CONVOLUTION = "convolutions by oneDNN"
BY_PRODUCT = "products by oneDNN"
RANDOM = np.random.default_rng(20)


def random_array(*shape: int) -> Any:
    return RANDOM.normal(size=shape).astype("float32")


def convolve_exactly(x: Any, w: Any, **options: Any) -> Any:
    """XLA's own convolution of N*C and OI*, in double precision."""
    import jax

    axes = "DHW"[3 - (x.ndim - 2) :]
    names = (f"N{axes}C", f"OI{axes}", f"N{axes}C")
    with jax.enable_x64(True):
        y = jax.lax.conv_general_dilated(
            np.float64(x), np.float64(w), dimension_numbers=names, **options
        )
        return np.asarray(y)


def graph_of(function: Callable[..., Any], type_: str, *weights: Any) -> amanda.Graph:
    """A graph with an input and constants."""
    graph = amanda.Graph("amanda/std/1")
    x = Value(graph.parameter(amanda.parse_type(type_), "x"))
    constants = [Value(graph.constant(amanda.Tensor.of(w)).output) for w in weights]
    results = function(x, *constants)
    for i, y in enumerate(results if isinstance(results, tuple) else (results,)):
        graph.result(y.port, f"y{i}")
    return graph


def run(graph: amanda.Graph, x: Any, **options: Any) -> tuple[list[Any], str]:
    """The results, and the report."""
    compiled = amanda.compile(graph, "jax", **options)
    return [*compiled({"x": x}).values()], str(compiled.executable.report())


def close(found: Any, wanted: Any) -> None:
    scale = max(1.0, float(np.abs(wanted).max()))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-6 * scale)


CONVOLUTIONS = {  # shape of data (N*C), shape of kernel (OI*), options
    "3 * 3": ((1, 28, 28, 32), (48, 32, 3, 3), {"padding": [(1, 1)] * 2}),
    "1 * 1": ((2, 20, 20, 64), (256, 64, 1, 1), {}),
    "few rows": ((1, 7, 7, 64), (512, 64, 3, 3), {"padding": [(1, 1)] * 2}),
    "few channels": ((1, 60, 60, 3), (16, 3, 7, 7), {"strides": (2, 2)}),
    "stride": ((1, 29, 27, 32), (64, 32, 3, 3), {"strides": (2, 3)}),
    "dilation": ((1, 30, 30, 16), (64, 16, 3, 3), {"dilations": (2, 3)}),
    "uneven padding": ((1, 25, 25, 32), (64, 32, 4, 5), {"padding": [(2, 1), (0, 4)]}),
    "depthwise": ((1, 56, 56, 64), (64, 1, 3, 3), {"groups": 64}),
    "groups": ((1, 28, 28, 64), (64, 16, 3, 3), {"groups": 4}),
    "one axis": ((2, 300, 32), (40, 32, 5), {"padding": [(4, 0)]}),
    "three axes": ((1, 9, 10, 11, 16), (24, 16, 3, 3, 3), {"padding": [(1, 1)] * 3}),
    "odd channels": ((1, 33, 31, 13), (37, 13, 3, 3), {"padding": [(1, 1)] * 2}),
}


@pytest.mark.parametrize("case", CONVOLUTIONS)
@pytest.mark.parametrize("has_unknown_batch", [False, True])
def test_convolutions(case: str, has_unknown_batch: bool) -> None:
    shape, kernel, options = CONVOLUTIONS[case]
    x, w, b = random_array(*shape), random_array(*kernel), random_array(kernel[0])
    rank = len(shape) - 2
    strides = options.get("strides", (1,) * rank)
    dilations = options.get("dilations", (1,) * rank)
    padding = options.get("padding", [(0, 0)] * rank)
    groups = options.get("groups", 1)
    batch = "batch" if has_unknown_batch else str(shape[0])
    graph = graph_of(
        lambda x, w, b: ops.conv(
            x, w, b, layout="N*C", kernel_layout="OI*", strides=strides,
            padding=tuple(padding), dilations=dilations, groups=groups,
        ),
        f"float32[{batch}, {', '.join(map(str, shape[1:]))}]", w, b,
    )  # fmt: skip
    (found,), report = run(graph, x)
    wanted = convolve_exactly(
        x, w, window_strides=strides, padding=padding, rhs_dilation=dilations,
        feature_group_count=groups,
    )  # fmt: skip
    close(found, wanted + b)
    assert BY_CONVOLUTION in report
    if has_unknown_batch:
        x = np.concatenate([x, 2 * x, x])
        results, _ = run(graph, x)
        close(results[0][-shape[0] :], wanted + b)


def convolution(x: Value, w: Value, b: Value | None = None) -> Value:
    return ops.conv(
        x, w, b, layout="N*C", kernel_layout="OI*", padding=((1, 1), (1, 1))
    )


FUSED: dict[str, Callable[[Value, Value, Value], Any]] = {
    "relu": lambda x, w, b: ops.relu(convolution(x, w, b)),
    "sum": lambda x, w, b: convolution(x, w, b) + x,
    "sum and relu": lambda x, w, b: ops.relu(convolution(x, w, b) + x),
    "addend first": lambda x, w, b: ops.relu(x + convolution(x, w, b)),
    "sum of two": lambda x, w, b: ops.relu(convolution(x, w) + convolution(x, w, b)),
    "sum with itself": lambda x, w, b: (lambda y: ops.relu(y + y))(
        convolution(x, w, b)
    ),
    "a bias": lambda x, w, b: ops.relu(convolution(x, w) + b),
    "broadcast sum": lambda x, w, b: ops.relu(convolution(x, w, b) + x[:, :1, :1]),
    "read twice": lambda x, w, b: (lambda y: ops.relu(y) + y)(convolution(x, w, b)),
    "a result": lambda x, w, b: (lambda y: (y, ops.relu(y)))(convolution(x, w, b)),
    "residual blocks": lambda x, w, b: (
        lambda y: ops.relu(convolution(ops.relu(convolution(y, w, b)), w) + y)
    )(ops.relu(convolution(x, w))),
}


@pytest.mark.parametrize("case", FUSED)
def test_what_follows_a_convolution(case: str) -> None:
    """The same as without oneDNN, whose kernels are run one after the other."""
    x, w, b = random_array(1, 24, 24, 32), random_array(32, 32, 3, 3), random_array(32)
    w /= 10
    graph = graph_of(FUSED[case], "float32[1, 24, 24, 32]", w, b)
    found, report = run(graph, x)
    wanted, plain_report = run(graph, x, without="onednn")
    assert BY_CONVOLUTION in report
    assert BY_CONVOLUTION not in plain_report
    for ours, theirs in zip(found, wanted, strict=True):
        close(ours, theirs)


def custom_calls(compiled: Any) -> list[str]:
    function, arguments = compiled.executable._code.last_call()
    text = str(function.lower(*arguments).as_text())
    return [line for line in text.splitlines() if "@amanda_onednn_layer" in line]


@pytest.mark.parametrize(
    ("case", "fused"),
    [("relu", (0, 1)), ("sum", (1, 0)), ("sum and relu", (1, 1)),
     ("addend first", (1, 1)), ("a bias", (0, 1)),
     ("broadcast sum", (0, 0)), ("read twice", (0, 0))],
)  # fmt: skip
def test_custom_calls_contain_what_follows(case: str, fused: tuple[int, int]) -> None:
    w, b = random_array(32, 32, 3, 3), random_array(32)
    graph = graph_of(FUSED[case], "float32[1, 24, 24, 32]", w, b)
    compiled = amanda.compile(graph, "jax")
    compiled({"x": random_array(1, 24, 24, 32)})
    (call,) = custom_calls(compiled)
    assert ("has_addend = true" in call, "has_relu = true" in call) == fused


def test_values_that_are_not_finite() -> None:
    """NaN passes ReLU, and reaches the windows that it is in alone."""
    x, w = random_array(1, 16, 16, 32), random_array(32, 32, 3, 3)
    graph = graph_of(FUSED["sum and relu"], "float32[1, 16, 16, 32]", w, w[:, 0, 0, 0])
    (clean,), _ = run(graph, x)
    for value in (np.nan, np.inf, -1e9):
        x[0, 8, 8, 3] = value
        (found,), _ = run(graph, x)
        other = np.ones((16, 16), bool)
        other[7:10, 7:10] = False
        np.testing.assert_array_equal(found[0][other], clean[0][other])
        if np.isnan(value):
            assert np.isnan(found[0][7:10, 7:10]).all()


@pytest.mark.parametrize("rows", [4, 7, 64, 130, 1000])
@pytest.mark.parametrize("sizes", [(96, 200), (300, 768)])
@pytest.mark.parametrize("op", ["matmul", "linear", "stored transposed", "shared"])
def test_products(rows: int, sizes: tuple[int, int], op: str) -> None:
    inputs, outputs = sizes
    x, w, b = random_array(rows, inputs), random_array(*sizes), random_array(outputs)
    transposed = np.ascontiguousarray(w.T)
    functions: dict[str, Callable[[Value, Value, Value], Any]] = {
        "matmul": lambda x, w, b: x @ w + b,
        "linear": ops.linear,
        "stored transposed": lambda x, w, b: x @ ops.transpose(w) + b,
        "shared": lambda x, w, b: (x @ ops.transpose(w) + b, ops.sum(w)),
    }
    weight = transposed if op in ("stored transposed", "shared") else w
    graph = graph_of(functions[op], f"float32[{rows}, {inputs}]", weight, b)
    found, report = run(graph, x)
    close(found[0], np.float64(x) @ w + b)
    if rows * inputs * outputs >= 1 << 17 and op != "shared":
        assert BY_PRODUCT in report


def test_products_of_few_and_many_rows_share_a_weight() -> None:
    """Alone, that of few rows would have smaller panels, one for each core."""
    x, w = random_array(4096, 64), random_array(64, 200)
    graph = graph_of(lambda x, w: (x @ w, x[:40] @ w), "float32[4096, 64]", w)
    (whole, first), report = run(graph, x)
    close(whole, np.float64(x) @ w)
    close(first, whole[:40])
    assert BY_PRODUCT in report


def test_layers_with_very_many_parts_are_divided_at_once() -> None:
    for layer in ((8, 1, 16, 2**31, 1), (2**31, 1, 64, 128, 0)):
        division = KERNELS.divide(layer)
        assert division is not None
        assert division.size == layer[2] * layer[3]


def test_a_product_of_several_axes() -> None:
    x, w = random_array(2, 3, 40, 64), random_array(64, 96)
    graph = graph_of(lambda x, w: x @ w, "float32[2, 3, 40, 64]", w)
    (found,), report = run(graph, x)
    close(found, np.float64(x) @ w)
    assert BY_PRODUCT in report


@pytest.mark.parametrize(
    ("type_", "dtype", "rows"),
    [
        ("float32[rows, 64]", "float32", 40),  # rows are not known before a call
        ("float32[2, 64]", "float32", 2),
        ("float64[64, 64]", "float64", 64),
    ],
)
def test_other_products_are_of_xla(type_: str, dtype: str, rows: int) -> None:
    x, w = RANDOM.normal(size=(rows, 64)).astype(dtype), RANDOM.normal(size=(64, 96))
    graph = graph_of(lambda x, w: x @ w, type_, w.astype(dtype))
    (found,), report = run(graph, x)
    close(found, np.float64(x) @ w)
    assert "oneDNN" not in report


def test_a_library_that_is_missing(tmp_path: Path) -> None:
    from amanda_onednn.xla import load_library

    with pytest.raises(AmandaError, match="cannot be loaded") as caught:
        load_library(tmp_path / "libonednn_xla.so")
    assert "pip install --force-reinstall amanda-onednn" in str(caught.value.hint)


def test_xla_alone_where_the_library_cannot_be_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from amanda_jax.cpu_tuning import kernel_library

    host = amanda.Host()

    def load(entry: Any) -> Any:
        raise AmandaError(f"{entry.name} cannot be loaded")

    monkeypatch.setattr(host, "load", load)
    monkeypatch.setattr(kernel_library, "default_host", lambda: host)
    assert [each.name for each in host.entries("kernels")] == ["onednn"]
    assert kernel_library.xla_kernels.__wrapped__() is None


def two_layers() -> amanda.Graph:
    """A convolution, and a product whose weight something else reads."""

    def function(x: Value, w: Value, v: Value) -> tuple[Value, Value]:
        y = ops.reshape(ops.relu(convolution(x, w)), (64, 288))
        return y @ ops.transpose(v), ops.relu(v)

    return graph_of(
        function, "float32[1, 24, 24, 32]", random_array(32, 32, 3, 3),
        random_array(2048, 288),
    )  # fmt: skip


def test_saved_programs_run_without_the_library(tmp_path: Path) -> None:
    import amanda_jax

    x = random_array(1, 24, 24, 32)
    compiled = amanda.compile(two_layers(), "jax")
    wanted = compiled({"x": x})
    assert len(custom_calls(compiled)) == 2
    path = tmp_path / "program.zip"
    compiled.executable.save(path)
    saved = amanda_jax.load_saved_program(path)
    for ours, theirs in zip(saved({"x": x}).values(), wanted.values(), strict=True):
        close(ours, theirs)
    assert b"amanda_onednn" not in path.read_bytes()


def test_programs_in_the_disk_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    graph, x, cache = two_layers(), random_array(1, 24, 24, 32), str(tmp_path / "cache")
    first = amanda.compile(graph, "jax", cache=cache)
    wanted = first({"x": x})["y0"]
    again = amanda.compile(graph, "jax", cache=cache, programs=31)  # another executable
    np.testing.assert_array_equal(again({"x": x})["y0"], wanted)
    report = again.executable.report()
    assert (report.compilations, report.disk_cache["loaded"]) == (0, 1)
    plain = amanda.compile(graph, "jax", cache=cache, without="onednn")
    close(plain({"x": x})["y0"], wanted)
    assert plain.executable.report().compilations == 1


def test_calls_from_several_threads() -> None:
    compiled = amanda.compile(two_layers(), "jax")
    arrays = [random_array(1, 24, 24, 32) for _ in range(8)]
    wanted = [compiled({"x": x})["y0"] for x in arrays]
    with ThreadPoolExecutor(8) as threads:
        for _ in range(20):
            found = threads.map(lambda x: compiled({"x": x})["y0"], arrays)
            for ours, theirs in zip(found, wanted, strict=True):
                np.testing.assert_array_equal(ours, theirs)


# -- the library -----------------------------------------------------------------------


def layers() -> Iterator[tuple[int, ...]]:
    yield (1, 1, 16, 32, 0, *(9, 3, 1, 1, 1, 1) * 2)
    yield (64, 1, 768, 3072, 0)
    yield (2, 4, 16, 32, 0, *(9, 3, 2, 2, 1, 1))


@settings(deadline=None)
@given(
    st.sampled_from([*layers()]),
    st.lists(
        st.tuples(
            st.integers(0, 20),
            st.sampled_from([-1, 0, 1, 2, 3, 7, 2**31, 2**62, -(2**63)]),
        ),
        max_size=3,
    ),
    st.integers(0, 3),
)
def test_numbers_that_are_no_layer(
    layer: tuple[int, ...], changes: list[tuple[int, int]], cut: int
) -> None:
    """They have no division, or one whose weights can be packed."""
    numbers = [*layer]
    for place, value in changes:
        numbers[place % len(numbers)] = value
    numbers = numbers[: len(numbers) - cut]
    division = KERNELS.divide(tuple(numbers))
    if division is None:
        return
    assert division.rows >= 1
    assert 1 <= division.panel <= numbers[3]
    assert division.size >= numbers[3]


def test_a_layer_that_fails_leaves_others_as_they_were() -> None:
    """oneDNN keeps an error of its code generator for the rest of a thread."""
    spatial = (9, 3, 1, 1, 1, 1) * 2
    KERNELS.divide((1, 1, 2**31, 32, 0, *spatial))  # an error, or not, by the processor
    assert KERNELS.divide((63, 1, 8, 16, 0)) is not None
    found, report = run(two_layers(), random_array(1, 24, 24, 32))
    assert BY_CONVOLUTION in report
    assert BY_PRODUCT in report
    assert np.isfinite(found[0]).all()


def test_packed_weights_of_another_layer_are_refused() -> None:
    layer = (64, 1, 8, 16, 0)
    division = KERNELS.divide(layer)
    assert division is not None
    weights, packed = random_array(16, 8), np.empty(division.size, "float32")
    with pytest.raises(AmandaError, match="oneDNN cannot pack weights"):
        KERNELS.pack((64, 3, 8, 16, 0), division, weights, packed)
    KERNELS.pack(layer, division, weights, packed)
    np.testing.assert_array_equal(packed.reshape(8, 16), weights.T)
