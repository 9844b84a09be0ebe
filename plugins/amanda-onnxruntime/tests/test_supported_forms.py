"""Graphs that the runtime does not take as they are: what runs instead, and is told."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnxruntime
import pytest

import amanda
from amanda.errors import BackendError
from amanda.graph import Graph
from amanda.types import parse_type
from amanda_onnxruntime.sessions import newest_opset

BACKEND = "onnxruntime"
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.fixture(autouse=True)
def _quiet():
    """onnxruntime logs errors, which these tests provoke."""
    onnxruntime.set_default_logger_severity(4)
    yield
    onnxruntime.set_default_logger_severity(2)


def graph_of(kind, opset, types, **attrs):
    graph = Graph(f"amanda/onnx/{opset}", "g")
    inputs = [
        graph.parameter(parse_type(type_), name)
        for type_, name in zip(types[:-1], "abc", strict=False)
    ]
    made = graph.add(kind, inputs, attrs or None).output
    made.type = parse_type(types[-1])
    graph.result(made, "y")
    return graph


def compiled(graph, **options):
    made = amanda.compile(graph, BACKEND, **options)
    return made, made.executable


@pytest.mark.parametrize("name", ["int4", "uint4", "int2", "uint2"])
def test_feeds_of_2_and_4_bits(name):
    dtype = getattr(ml_dtypes, name)
    graph = graph_of("Identity", 25, [f"{name}[n]", f"{name}[n]"])
    x = np.array([0, 1, 1, 0, 1]).astype(dtype)
    made, executable = compiled(graph)
    got = made([x])["y"]
    assert (got.dtype, got.tolist(), executable.form) == (x.dtype, x.tolist(), "")


def test_narrow_floats_in_wider_dtypes():
    """Each result is rounded, unlike a computation in float32 throughout."""
    graph = graph_of("Mul", 18, ["bfloat16[n]", "bfloat16[n]", "bfloat16[n]"])
    y = graph.results[0]
    again = graph.add("Add", [y, y]).output
    again.type = y.type
    graph.result(again, "z")
    made, executable = compiled(graph)
    a, b = (np.linspace(1, 3, 7).astype("bfloat16") for _ in "ab")
    got = made([a, b])
    assert got["y"].tobytes() == (a * b).tobytes()
    assert got["z"].tobytes() == (a * b + a * b).tobytes()
    assert "Mul, Add in wider dtypes" in executable.form


def test_many_ops_of_bfloat16():
    """More types than steps: all that compute are widened together."""
    kinds = [
        "Abs", "Neg", "Exp", "Sqrt", "Reciprocal", "Floor", "Ceil", "Sigmoid", "Tanh",
        "Softplus", "Sin", "Cos", "Atan", "Erf", "Relu", "Transpose",
    ]  # fmt: skip
    graph = graph_of("Add", 18, ["bfloat16[4]", "bfloat16[4]", "bfloat16[4]"])
    value = graph.results[0]
    for kind in kinds:
        value = graph.add(kind, [value]).output
        value.type = graph.results[0].type
    graph.result(value, "z")
    made, executable = compiled(graph)
    a, b = (np.linspace(1, 3, 4).astype("bfloat16") for _ in "ab")
    expected = amanda.run(graph, [a, b], backend="numpy")
    assert made([a, b])["z"].tobytes() == expected["z"].tobytes()
    assert "Transpose" not in executable.form


def test_integers_wrap():
    graph = graph_of("Max", 18, ["int16[n]", "int16[n]", "int16[n]"])
    made, executable = compiled(graph)
    a = np.array([-32768, 5], "int16")
    b = np.array([32767, -7], "int16")
    assert made([a, b])["y"].tolist() == [32767, 5]
    assert executable.form == "Max in wider dtypes"


def test_ops_without_a_kernel_through_the_hub():
    """onnxruntime loads RoiAlign of opset 22, and has a kernel for 16 only."""
    types = ["float32[1, 1, 4, 4]", "float32[1, 4]", "int64[1]", "float32[1, 1, 1, 1]"]
    graph = graph_of("RoiAlign", 22, types)
    made, executable = compiled(graph)
    fed = [
        np.arange(16, dtype="f").reshape(1, 1, 4, 4),
        np.array([[0, 0, 3, 3]], "f"),
        np.array([0]),
    ]
    want = amanda.run(graph, fed, backend="numpy")["y"]
    np.testing.assert_allclose(made(fed)["y"], want, rtol=1e-6)
    assert executable.form.startswith("through amanda/std/1 as amanda/onnx/")


def test_errors_in_the_first_call():
    """Recurrent layers with the batch first are refused when a session runs."""
    graph = Graph("amanda/onnx/22", "g")
    x = graph.parameter(parse_type("float32[2, 3, 4]"), "x")
    weights = [
        graph.constant(amanda.Tensor.of(np.full(shape, 0.1, "f"))).output
        for shape in ((1, 15, 4), (1, 15, 5))
    ]
    op = graph.add("GRU", [x, *weights], {"hidden_size": 5, "layout": 1}, outputs=1)
    op.output.type = parse_type("float32[2, 3, 1, 5]")
    graph.result(op.output, "y")
    fed = [np.random.default_rng(0).random((2, 3, 4), "float32")]
    want = amanda.run(graph, fed, backend="numpy")["y"]
    made, executable = compiled(graph)
    np.testing.assert_allclose(made(fed)["y"], want, rtol=1e-5)
    assert executable.form


def test_old_opsets():
    graph = graph_of("Softsign", 6, ["float32[n]", "float32[n]"])
    made, _ = compiled(graph)
    x = np.array([-1, 0, 3], "f")
    np.testing.assert_allclose(made([x])["y"], x / (1 + abs(x)))


def test_new_opsets():
    graph = graph_of("Relu", 28, ["float32[n]", "float32[n]"])
    made, executable = compiled(graph)
    assert made([np.array([-1, 3], "f")])["y"].tolist() == [0, 3]
    assert executable.form == ""  # the route that the runtime consumes did it


@pytest.mark.skipif(newest_opset() < 28, reason="onnxruntime older than 1.32")
def test_kernels_of_an_older_opset():
    """onnxruntime 1.32 loads opset 28, with few kernels of it."""
    graph = Graph("amanda/onnx/28", "g")
    x = graph.parameter(parse_type("int4[n]"), "x")
    scale = graph.constant(amanda.Tensor.of(np.float32(0.5))).output
    y = graph.add("DequantizeLinear", [x, scale]).output
    y.type = parse_type("float32[n]")
    graph.result(y, "y")
    made, executable = compiled(graph)
    assert made([np.array([-8, 3], ml_dtypes.int4)])["y"].tolist() == [-4, 1.5]
    assert executable.form.startswith("as amanda/onnx/")


def test_error_is_that_of_the_first_form():
    types = ["uint8[n]", "uint8[h, w, 3]"]
    graph = graph_of("ImageDecoder", 20, types)
    with pytest.raises(BackendError, match="does not load") as caught:
        compiled(graph)
    assert "ImageDecoder" in str(caught.value)
    assert "uint32" not in str(caught.value)


def test_results_are_written_to_out():
    graph = graph_of("Mul", 18, ["float32[n]", "float32[n]", "float32[n]"])
    graph.result(graph.results[0], "again")
    made, executable = compiled(graph)
    a, b = np.arange(4, dtype="f"), np.full(4, 2, "f")
    target = np.zeros(4, "f")
    got = made([a, b], out={"y": target})
    assert got["y"] is target
    assert target.tolist() == got["again"].tolist() == [0, 2, 4, 6]
    direct = executable({"a": a, "b": b}, {"y": target})
    assert direct[0] is target
    assert direct[1] is not target
    wide = np.zeros(8, "f")[::2]  # not in a row: filled afterwards
    assert made([a, b], out={"y": wide})["y"] is wide
    assert wide.tolist() == [0, 2, 4, 6]
    with pytest.raises(amanda.AmandaError):
        made([a, b], out={"y": np.zeros(3, "f")})


def test_errors_of_feeds():
    """After a successful call no other form is tried."""
    graph = graph_of("Gather", 18, ["float32[n]", "int64[m]", "float32[m]"])
    made, executable = compiled(graph)
    x = np.arange(3, dtype="f")
    assert made([x, np.array([2])])["y"].tolist() == [2]
    with pytest.raises(BackendError, match="while running"):
        made([x, np.array([9])])
    assert executable.form == ""
