"""Recurrent layers and scans, from ONNX to the hub set and back."""

from __future__ import annotations

import warnings

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import amanda
from amanda.types import parse_type
from amanda_std import ops, trace

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def layer(kind, *, directions=1, time=4, batch=3, into=5, size=2, lengths=None,
          states=False, peepholes=False, bias=True, opset=22, **attrs):  # fmt: skip
    """A model of one layer, all weights inside, and what to feed it."""
    rng = np.random.default_rng(11)
    rows = GATES[kind] * size
    feeds = {"X": rng.normal(size=(time, batch, into)).astype("float32")}
    if attrs.get("layout"):
        feeds["X"] = np.ascontiguousarray(np.swapaxes(feeds["X"], 0, 1))
    weights = {
        "W": (directions, rows, into), "R": (directions, rows, size),
        "B": (directions, 2 * rows), "": None, "h": (directions, batch, size),
        "c": (directions, batch, size), "P": (directions, 3 * size),
    }  # fmt: skip
    if attrs.get("layout"):
        weights["h"] = weights["c"] = (batch, directions, size)
    names = ["X", "W", "R", "B" if bias else "", "", "h" if states else ""]
    if lengths is not None:
        names[4] = "lengths"
        feeds["lengths"] = np.array(lengths, "int32")
    if kind == "LSTM":
        names += ["c" if states else "", "P" if peepholes else ""]
    outs = ["Y", "Y_h", "Y_c"][: 3 if kind == "LSTM" else 2]
    node = helper.make_node(kind, names, outs, hidden_size=size, **attrs)
    held = [
        numpy_helper.from_array(rng.uniform(-1, 1, weights[n]).astype("float32"), n)
        for n in names
        if weights.get(n)
    ]
    inputs = [
        helper.make_tensor_value_info(
            k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape
        )
        for k, v in feeds.items()
    ]
    results = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outs]
    graph = helper.make_graph([node], kind, inputs, results, held)
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), feeds


def by_runtime(model, feeds):
    runtime = pytest.importorskip("onnxruntime", reason="it is what tells the values")
    session = runtime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, feeds)


def through(model, feeds, tmp_path, back=None):
    """The values of a model read, mapped to the hub set, and maybe back."""
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = amanda.convert(amanda.load(path), "amanda/std/1")
        if back is None:
            return list(amanda.run(graph, feeds, backend="numpy").values())
        there = amanda.convert(graph, f"amanda/onnx/{back}")
        amanda.save(there, tmp_path / "back.onnx")
    return onnx.load(tmp_path / "back.onnx")


CASES = {
    "rnn": layer("RNN"),
    "rnn, both ways": layer("RNN", directions=2, direction="bidirectional"),
    "rnn, relu": layer("RNN", activations=["Relu"], clip=0.3),
    "rnn, numbers": layer("RNN", activations=["LeakyRelu"], activation_alpha=[0.2]),
    "rnn, lengths": layer("RNN", lengths=[2, 4, 1], states=True),
    "gru": layer("GRU", states=True),
    "gru, reset after": layer("GRU", linear_before_reset=1, lengths=[3, 1, 4]),
    "gru, from the end": layer("GRU", direction="reverse", bias=False, clip=0.5),
    "gru, other functions": layer(
        "GRU", activations=["HardSigmoid", "Softsign"], activation_alpha=[0.3],
        activation_beta=[0.4],
    ),
    "lstm": layer("LSTM"),
    "lstm, peepholes": layer("LSTM", peepholes=True, states=True),
    "lstm, both ways, lengths": layer(
        "LSTM", directions=2, direction="bidirectional", lengths=[4, 2, 3], states=True
    ),
    "lstm, clip": layer("LSTM", clip=0.4, states=True, peepholes=True),
    "lstm, coupled": layer("LSTM", input_forget=1),
    "lstm, functions": layer(
        "LSTM", activations=["HardSigmoid", "ScaledTanh", "Elu"],
        activation_alpha=[0.3, 0.9, 0.5], activation_beta=[0.4, 0.8],
    ),
}  # fmt: skip
BATCH_FIRST = {
    "rnn": layer("RNN", layout=1, states=True),
    "gru": layer("GRU", layout=1),
    "lstm": layer("LSTM", layout=1),
}


def agree(got, want):
    assert len(got) == len(want)
    for value, expected in zip(got, want, strict=True):
        assert value.shape == expected.shape
        np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_layers_compute_what_the_runtime_does(name, tmp_path):
    model, feeds = CASES[name]
    agree(through(model, feeds, tmp_path), by_runtime(model, feeds))


@pytest.mark.parametrize("name", BATCH_FIRST)
def test_batches_first_as_the_reference_has_them(name, tmp_path):
    model, feeds = BATCH_FIRST[name]
    want = ReferenceEvaluator(model).run(None, feeds)
    got = through(model, feeds, tmp_path)
    agree(got, want)


@pytest.mark.parametrize("opset", [8, 22])
@pytest.mark.parametrize("name", CASES)
def test_layers_come_back_whole(name, opset, tmp_path):
    model, feeds = CASES[name]
    made = through(model, feeds, tmp_path, opset)
    kinds = [node.op_type for node in made.graph.node]
    assert model.graph.node[0].op_type in kinds
    assert "Scan" not in kinds
    agree(by_runtime(made, feeds), by_runtime(model, feeds))


def test_batches_first_come_back(tmp_path):
    """The layout that the runtime lacks is told by transposes."""
    model, feeds = BATCH_FIRST["lstm"]
    made = through(model, feeds, tmp_path, 22)
    want = ReferenceEvaluator(model).run(None, feeds)
    agree(by_runtime(made, feeds), want)


# -- scans -------------------------------------------------------------------------


def scan_model(opset=22):
    """Rows from the side and from the end; the sum so far, and its double."""
    add = helper.make_node("Add", ["s", "x"], ["t"])
    more = helper.make_node("Add", ["t", "z"], ["s_out"])
    twice = helper.make_node("Add", ["s_out", "s_out"], ["y"])
    value = helper.make_tensor_value_info

    def vector(name):
        return value(name, TensorProto.FLOAT, [2])

    body = helper.make_graph(
        [add, more, twice], "body", [vector("s"), vector("x"), vector("z")],
        [vector("s_out"), vector("y")],
    )  # fmt: skip
    node = helper.make_node(
        "Scan", ["start", "xs", "zs"], ["last", "ys"], body=body, num_scan_inputs=2,
        scan_input_axes=[1, 0], scan_input_directions=[0, 1],
        scan_output_axes=[1], scan_output_directions=[1],
    )  # fmt: skip
    graph = helper.make_graph(
        [node], "scans",
        [vector("start"), value("xs", TensorProto.FLOAT, [2, 3]),
         value("zs", TensorProto.FLOAT, [3, 2])],
        [vector("last"), value("ys", TensorProto.FLOAT, [2, 3])],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def test_scans_both_ways(tmp_path):
    rng = np.random.default_rng(2)
    feeds = {k: rng.normal(size=s).astype("float32")
             for k, s in (("start", (2,)), ("xs", (2, 3)), ("zs", (3, 2)))}  # fmt: skip
    model = scan_model()
    sums = feeds["start"] + np.cumsum(feeds["xs"].T + feeds["zs"][::-1], 0)
    want = [sums[-1], 2 * sums[::-1].T]
    agree(by_runtime(model, feeds), want)
    agree(through(model, feeds, tmp_path), want)
    made = through(model, feeds, tmp_path, 22)
    assert [node.op_type for node in made.graph.node] == ["Scan"]
    agree(by_runtime(made, feeds), want)


# -- what ONNX has no op for -----------------------------------------------------------


@pytest.mark.parametrize("place", [0, 1, 2, 7])
def test_a_case_is_written_as_choices(place, tmp_path):
    def function(i, x):
        return ops.case(i, [lambda v: v + v, ops.exp, lambda v: v * x], x)

    graph = trace(function, [parse_type("int32[]"), parse_type("float32[2]")])
    amanda.save(amanda.convert(graph, "amanda/onnx/22"), tmp_path / "case.onnx")
    model = onnx.load(tmp_path / "case.onnx")
    assert {node.op_type for node in model.graph.node} >= {"If", "Equal"}
    x = np.array([0.5, -2.0], "float32")
    names = [value.name for value in model.graph.input]
    feeds = dict(zip(names, (np.array(place, "int32"), x), strict=True))
    want = [x + x, np.exp(x), x * x][min(place, 2)]
    agree(by_runtime(model, feeds), [want])


def test_a_while_is_written_as_a_loop(tmp_path):
    def function(x):
        return ops.while_(lambda v: ops.less(ops.sum(v), 9.0), lambda v: v * 2.0, x)

    graph = trace(function, [parse_type("float32[2]")])
    amanda.save(amanda.convert(graph, "amanda/onnx/22"), tmp_path / "while.onnx")
    model = onnx.load(tmp_path / "while.onnx")
    assert "Loop" in {node.op_type for node in model.graph.node}
    feeds = {model.graph.input[0].name: np.array([1.0, 2.0], "float32")}
    agree(by_runtime(model, feeds), [np.array([4.0, 8.0], "float32")])


def test_a_scan_over_nothing(tmp_path):
    """ONNX scans at least one tensor: the length is that of a new one."""

    def powers(x, n):
        return ops.scan(lambda h: (h * 2, h + 1), n, x, carried=1)

    graph = trace(powers, [parse_type("float32[2]"), parse_type("int64[]")])
    amanda.save(amanda.convert(graph, "amanda/onnx/22"), tmp_path / "scan.onnx")
    model = onnx.load(tmp_path / "scan.onnx")
    x, names = np.float32([1, 3]), [value.name for value in model.graph.input]
    for n in (1, 3):
        wanted = [x * 2**n, np.stack([x * 2**i + 1 for i in range(n)])]
        feeds = dict(zip(names, (x, np.array(n)), strict=True))
        agree(by_runtime(model, feeds), wanted)


def _passing_scan(x):
    """The state and the rows are results as they are."""
    return ops.scan(lambda h, r: (h, r, r * h), None, x[0], x, carried=1)


def _passing_loop(x):
    return ops.loop(3, True, lambda i, go, h, k: (go, h + k, k, i, k), x[0], x[1])


@pytest.mark.parametrize("function", [_passing_scan, _passing_loop])
def test_bodies_that_return_their_inputs(function, tmp_path):
    """onnxruntime computes zeros where such a result is no copy."""
    x = np.arange(1, 7, dtype="float32").reshape(3, 2)
    wanted = {
        _passing_scan: [x[0], x, x * x[0]],
        _passing_loop: [x[0] + 3 * x[1], x[1], np.arange(3), np.stack([x[1]] * 3)],
    }[function]
    graph = trace(function, [parse_type("float32[3, 2]")])
    amanda.save(amanda.convert(graph, "amanda/onnx/22"), tmp_path / "body.onnx")
    model = onnx.load(tmp_path / "body.onnx")
    agree(by_runtime(model, {model.graph.input[0].name: x}), wanted)


def test_a_choice_whose_bodies_get_values(tmp_path):
    def function(c, x):
        return ops.if_(c, lambda v: v + v, lambda v: v * x, x)

    graph = trace(function, [parse_type("bool[]"), parse_type("float32[2]")])
    amanda.save(amanda.convert(graph, "amanda/onnx/22"), tmp_path / "if.onnx")
    model = onnx.load(tmp_path / "if.onnx")
    x = np.array([0.5, -2.0], "float32")
    for flag, want in ((True, x + x), (False, x * x)):
        names = [value.name for value in model.graph.input]
        feeds = dict(zip(names, (np.array(flag), x), strict=True))
        agree(by_runtime(model, feeds), [want])
