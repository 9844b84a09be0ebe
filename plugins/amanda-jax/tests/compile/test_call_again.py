"""Calls with feeds of known shapes and types skip the checks of the core, safely."""

from __future__ import annotations

import sys

import jax
import numpy as np
import pytest

import amanda
from amanda.errors import UsageError
from amanda.types import parse_type
from amanda_std import ops, trace


def compiled_sum(*types: str, **options: object):
    graph = trace(
        lambda *xs: ops.add(xs[0], xs[-1]),
        [parse_type(t) for t in types],
        names=["x", "y"][: len(types)],
    )
    return graph, amanda.compile(graph, "jax", **options)


@pytest.mark.parametrize("dtype", ["float32", "int64", "bfloat16", "int8"])
@pytest.mark.parametrize("results", ["numpy", "jax"])
def test_the_second_call_is_a_call_again(dtype, results, monkeypatch):
    _, compiled = compiled_sum(f"{dtype}[n]", f"{dtype}[n]", results=results)
    x = np.ones(3).astype(parse_type(f"{dtype}[]").dtype.numpy)
    y = x + x
    first = compiled([x, y])[0]
    checked = []
    monkeypatch.setattr(
        type(compiled.executable), "__call__", lambda *args: checked.append(args)
    )
    for feeds in ([x, y], (x, y), {"x": x, "y": y}, {"y": y, "x": x}):
        again = compiled(feeds)[0]
        np.testing.assert_array_equal(np.asarray(again), np.asarray(first))
        assert again.dtype == first.dtype
    assert checked == []


@pytest.mark.parametrize("kind", [list, dict])
def test_the_second_call_calls_few_functions_of_python(kind):
    _, compiled = compiled_sum("float32[n]", "float32[n]", results="jax")
    x = jax.numpy.ones(3)
    feeds = {list: [x, x], dict: {"x": x, "y": x}}[kind]
    for _ in range(3):
        compiled(feeds)
    called: list[str] = []

    def record(frame, event, arg):
        if event == "call":
            called.append(frame.f_code.co_name)

    sys.setprofile(record)
    try:
        compiled(feeds)
    finally:
        sys.setprofile(None)
    assert called == ["__call__", "values_in_order", "call_again"]


@pytest.mark.parametrize(
    ("declared", "wrong"),
    [
        ("float32[n]", np.zeros(3)),  # JAX would convert it
        ("float32[n]", np.zeros(3, "float16")),
        ("float32[n]", np.zeros((3, 1), "float32")),
        ("int32[n]", np.zeros(3, "int64")),  # JAX would convert it
        ("int32[n]", np.zeros(3, "bool")),
        ("int64[n]", np.zeros(3, "int32")),
        ("float64[n]", np.zeros(3, "float32")),
    ],
)
@pytest.mark.parametrize("put", [np.asarray, jax.device_put])
def test_other_types_and_ranks_are_refused_as_in_a_first_call(declared, wrong, put):
    _, compiled = compiled_sum(declared)
    right = np.zeros(3, parse_type(declared).dtype.numpy)
    for _ in range(2):
        compiled([right])
    with jax.enable_x64(True):
        wrong = put(wrong)
    with pytest.raises(UsageError, match="the feeds do not match the graph"):
        compiled([wrong])


def test_sizes_that_disagree_are_refused():
    _, compiled = compiled_sum("float32[n]", "float32[n]")
    x = np.ones(3, "float32")
    for _ in range(2):
        compiled([x, x])
    for feeds in ([x, x[:1]], [x], [x, x, x], {"x": x}, {"x": x, "z": x}):
        with pytest.raises(UsageError, match="the feeds do not match the graph"):
            compiled(feeds)


def test_new_shapes_are_checked_and_then_known():
    _, compiled = compiled_sum("float32[n]")
    for n in (3, 4, 3, 4, 5):
        assert compiled([np.ones(n, "float32")])[0].tolist() == [2] * n
    assert compiled.executable.report().compilations == 3


def test_values_can_be_looked_up_after_it():
    graph, compiled = compiled_sum("float32[n]", "float32[n]")
    for value in (1, 2, 3):
        compiled([np.full(2, value, "float32"), np.ones(2, "float32")])
    assert compiled[graph.parameters[0]].tolist() == [3, 3]
    assert compiled[graph.results[0]].tolist() == [4, 4]


def test_results_share_no_memory_with_feeds():
    graph = trace(lambda x: (x, x, x * 1.0), [parse_type("float32[n]")], names=["x"])
    compiled = amanda.compile(graph, "jax")
    x = np.ones(64, "float32")
    for _ in range(3):
        results = [*compiled([x]).values()]
        x += 1
        assert [float(y[0]) for y in results] == [float(x[0]) - 1] * 3
        assert not np.shares_memory(results[0], results[1])
