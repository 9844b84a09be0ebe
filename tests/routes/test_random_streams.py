"""Random ops without a seed: streams advance by call and iteration; seeds repeat."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import amanda
from amanda.errors import UsageError
from amanda_std import ops, trace

onnx = pytest.importorskip("onnx")
helper, FLOAT = onnx.helper, onnx.TensorProto.FLOAT

PACKAGES = {"numpy": "numpy", "jax": "amanda_jax", "onnxruntime": "amanda_onnxruntime"}
TRIPS = [np.int64(4)]


@pytest.fixture(params=PACKAGES)
def backend(request):
    if importlib.util.find_spec(PACKAGES[request.param]) is None:
        pytest.skip(f"{request.param} is not installed")
    return request.param


def model(path, nodes, inputs, outputs):
    graph = helper.make_graph(
        nodes,
        "random",
        [helper.make_tensor_value_info(*each) for each in inputs],
        [helper.make_tensor_value_info(*each) for each in outputs],
    )
    opset = [helper.make_opsetid("", 18)]
    made = helper.make_model(graph, opset_imports=opset, ir_version=9)
    onnx.checker.check_model(made)
    onnx.save(made, path)
    return amanda.load(path)


@pytest.fixture
def looping(tmp_path: Path):
    """A Loop of RandomNormal, and one RandomNormal beside it."""
    draw = helper.make_node("RandomNormal", [], ["row"], shape=[3])
    same = helper.make_node("Identity", ["go"], ["on"])
    flag = helper.make_tensor_value_info("go", onnx.TensorProto.BOOL, [])
    body = helper.make_graph(
        [draw, same],
        "body",
        [helper.make_tensor_value_info("i", onnx.TensorProto.INT64, []), flag],
        [
            helper.make_tensor_value_info("on", onnx.TensorProto.BOOL, []),
            helper.make_tensor_value_info("row", FLOAT, [3]),
        ],
    )
    nodes = [
        helper.make_node("Loop", ["n", ""], ["rows"], body=body),
        helper.make_node("RandomNormal", [], ["alone"], shape=[3]),
    ]
    outputs = [("rows", FLOAT, ["k", 3]), ("alone", FLOAT, [3])]
    return model(
        tmp_path / "loop.onnx", nodes, [("n", onnx.TensorProto.INT64, [])], outputs
    )


def rows_of(results):
    return np.concatenate([results["rows"], results["alone"][None]])


def test_no_two_iterations_calls_and_runs_are_equal(looping, backend):
    compiled = amanda.compile(looping, backend)
    drawn = [rows_of(compiled(TRIPS)) for _ in range(3)]
    drawn += [rows_of(amanda.run(looping, TRIPS, backend=backend)) for _ in range(3)]
    rows = np.concatenate(drawn)
    assert len(rows) == 6 * 5
    assert len(np.unique(rows, axis=0)) == len(rows)


def test_a_seed_repeats_the_numbers(looping, backend):
    first, again = (
        [rows_of(compiled(TRIPS)) for _ in range(2)]
        for compiled in (amanda.compile(looping, backend, seed=7) for _ in range(2))
    )
    np.testing.assert_array_equal(first, again)
    assert len(np.unique(np.concatenate(first), axis=0)) == 10
    for _ in range(2):
        run = rows_of(amanda.run(looping, TRIPS, backend=backend, seed=7))
        np.testing.assert_array_equal(run, first[0])
    other = rows_of(amanda.run(looping, TRIPS, backend=backend, seed=8))
    assert not np.isin(other, first[0]).any()


def test_a_seed_stands_for_the_same_numbers_on_numpy_and_jax(looping):
    pytest.importorskip("jax")
    a, b = (
        rows_of(amanda.run(looping, TRIPS, backend=name, seed=2**40 + 1))
        for name in ("numpy", "jax")
    )
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


KINDS = {
    "RandomNormal": ([], {"shape": [64]}),
    "RandomUniform": ([], {"shape": [64]}),
    "RandomNormalLike": (["x"], {}),
    "RandomUniformLike": (["x"], {}),
    "Bernoulli": (["x"], {}),
    "Multinomial": (["p"], {"sample_size": 64}),
    "Dropout": (["x", "", "training"], {}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_random_op(kind, backend, tmp_path):
    inputs, attrs = KINDS[kind]
    x = np.full(64, 0.5, "float32")
    feeds = {"x": x, "p": np.zeros((1, 4), "float32"), "training": np.asarray(True)}
    feeds = {name: feeds[name] for name in inputs if name}
    types = [
        (name, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for name, v in feeds.items()
    ]
    output = onnx.TensorProto.INT32 if kind == "Multinomial" else FLOAT
    shape = [1, 64] if kind == "Multinomial" else [64]
    node = helper.make_node(kind, inputs, ["y"], **attrs)
    graph = model(tmp_path / "one.onnx", [node], types, [("y", output, shape)])
    compiled = amanda.compile(graph, backend, seed=3)
    a, b = (compiled(feeds)["y"] for _ in range(2))
    assert (a != b).any()
    c = amanda.run(graph, feeds, backend=backend, seed=3)["y"]
    np.testing.assert_array_equal(a, c)


def test_a_key_of_the_hub_is_drawn_by_every_backend(backend):
    graph = trace(lambda: ops.random_uniform(ops.next_random_key(), (5,)), [])
    compiled = amanda.compile(graph, backend, seed=1)
    a, b = (next(iter(compiled([]).values())) for _ in range(2))
    assert a.shape == (5,)
    assert ((a >= 0) & (a < 1)).all()
    assert (a != b).all()


def test_the_last_value_of_a_random_port_is_found_again():
    graph = trace(
        lambda: ops.random_uniform(ops.next_random_key(), (5,), name="u") * 2.0, []
    )
    compiled = amanda.compile(graph, "numpy")
    for _ in range(2):
        (y,) = compiled([]).values()
        np.testing.assert_array_equal(compiled[graph["u"].output] * 2.0, y)


def test_sessions(looping):
    first, again = (
        [rows_of(session.run(feeds=TRIPS)) for _ in range(2)]
        for session in (amanda.Session(looping, "numpy", seed=7) for _ in range(2))
    )
    np.testing.assert_array_equal(first, again)
    assert len(np.unique(np.concatenate(first), axis=0)) == 10


def test_a_seed_is_an_integer(looping):
    with pytest.raises(UsageError, match="does not take this argument"):
        amanda.compile(looping, "numpy", seed="seven")
