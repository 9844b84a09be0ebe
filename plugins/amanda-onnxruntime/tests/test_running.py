"""Beyond what every backend must do: devices, options, what the runtime cannot."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from onnx.backend.test.loader import load_model_tests

import amanda
from amanda.errors import BackendError
from amanda.graph import Graph
from amanda.tensors import Tensor
from amanda.types import parse_type
from amanda_onnxruntime.sessions import SessionFactory

BACKEND = "onnxruntime"


def graph_of(opset=18, dtype="float32", kind="Identity", shape="[n]"):
    graph = Graph(f"amanda/onnx/{opset}")
    x = graph.parameter(parse_type(f"{dtype}{shape}"), "x")
    y = graph.add(kind, [x], name="a").output
    y.type = parse_type(f"{dtype}{shape}")
    graph.result(y, "y")
    return graph


def ones(dtype="float32"):
    return np.ones(3).astype(dtype)


def test_devices_are_providers():
    devices = amanda.default_host().get("backends", BACKEND).devices()
    assert "cpu" in devices
    assert len(devices) == len(onnxruntime.get_available_providers())
    got = amanda.run(graph_of(), [ones()], backend="onnxruntime:cpu")
    np.testing.assert_array_equal(got["y"], ones())
    with pytest.raises(BackendError, match="no device 'tpu'"):
        amanda.compile(graph_of(), BACKEND, "tpu")


def test_options_reach_the_session():
    options = {
        "intra_op_num_threads": 1,
        "graph_optimization_level": "disable_all",
        "session.intra_op.allow_spinning": "0",
    }
    made = amanda.compile(graph_of(), BACKEND, session_options=options)
    kept = made.executable.session.get_session_options()
    assert kept.intra_op_num_threads == 1
    assert kept.graph_optimization_level.name == "ORT_DISABLE_ALL"
    assert kept.get_session_config_entry("session.intra_op.allow_spinning") == "0"
    own = onnxruntime.SessionOptions()
    own.inter_op_num_threads = 2
    made = amanda.compile(graph_of(), BACKEND, session_options=own)
    assert made.executable.session.get_session_options().inter_op_num_threads == 2


def test_invalid_options():
    with pytest.raises(BackendError, match="no option 'speed'"):
        amanda.compile(graph_of(), BACKEND, speed=9)
    with pytest.raises(BackendError, match="has no 'speed'"):
        amanda.compile(graph_of(), BACKEND, session_options={"speed": 9})
    with pytest.raises(BackendError, match="does not accept"):
        options = {"intra_op_num_threads": "many"}
        amanda.compile(graph_of(), BACKEND, session_options=options)


def test_newer_ir_version_is_lowered():
    graph = graph_of()
    graph.attrs["onnx:model"] = {"ir_version": 99}
    made = amanda.compile(graph, BACKEND)
    assert made.executable.ir_version < 99
    np.testing.assert_array_equal(made([ones()])["y"], ones())


def test_unsupported_opset_and_op_are_named():
    newest = amanda.default_host().get("backends", BACKEND).namespace
    assert newest.startswith("amanda/onnx/7..")
    make = SessionFactory(["CPUExecutionProvider"], None, None)
    with pytest.raises(BackendError, match=r"supports opsets of ai\.onnx") as caught:
        make(graph_of(opset=1000))
    assert newest.rpartition(".")[2] in caught.value.message
    with pytest.raises(BackendError, match="has no Nothing"):
        amanda.compile(graph_of(kind="Nothing"), BACKEND)


def test_untyped_inputs_take_dtypes_of_feeds():
    graph = Graph("amanda/onnx/18")
    x, y = graph.parameter(name="x"), graph.parameter()
    graph.result(graph.add("Add", [x, y]).output, "sum")
    made = amanda.compile(graph, BACKEND)
    for dtype in ("float32", "int64", "float32"):
        got = made([ones(dtype), ones(dtype)])["sum"]
        assert (got.dtype, got.tolist()) == (np.dtype(dtype), [2, 2, 2])
    assert graph.parameters[0].type is None


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_dtypes_that_numpy_lacks(name):
    array = np.array([1, 0.5, -2]).astype(getattr(ml_dtypes, name))
    for shape in ("[n]", "[]"):
        fed = array if shape == "[n]" else array[0]
        got = amanda.run(graph_of(19, name, shape=shape), [fed], backend=BACKEND)["y"]
        assert (got.dtype, got.shape) == (fed.dtype, fed.shape)
        assert got.tobytes() == fed.tobytes()


def test_local_functions_run():
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("acme", 1)]
    body = [helper.make_node("Add", ["a", "a"], ["b"])]
    function = helper.make_function("acme", "twice", ["a"], ["b"], body, imports)
    ends = [helper.make_tensor_value_info(name, 1, ["n"]) for name in "xy"]
    nodes = [helper.make_node("twice", ["x"], ["y"], domain="acme")]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    model = helper.make_model(graph, functions=[function], opset_imports=imports)
    got = amanda.run(amanda.load(model), [ones()], backend=BACKEND)
    assert got["y"].tolist() == [2, 2, 2]


def test_models_too_large_for_one_message(monkeypatch):
    import amanda_onnx.format.writer

    monkeypatch.setattr(amanda_onnx.format.writer, "MAX_MESSAGE_BYTES", 10_000)
    graph = graph_of()
    weight = graph.constant(Tensor.of(np.arange(5000, dtype="f"))).output
    graph.result(weight, "w")
    got = amanda.run(graph, [ones()], backend=BACKEND)
    assert got["w"].sum() == np.arange(5000).sum()


SCALARS = {  # the type of the input, the op that reads a scalar of it, a feed
    "tensor": (lambda t: t, "Identity", np.float32(3)),
    "number": (lambda t: t, "Identity", 3.0),
    "optional": (helper.make_optional_type_proto, "OptionalGetElement", np.float32(3)),
    "sequence": (
        helper.make_sequence_type_proto, "SequenceAt", [np.float32(2), np.float32(3)]
    ),
    "numbers": (helper.make_sequence_type_proto, "SequenceAt", [2.0, 3]),
}  # fmt: skip


@pytest.mark.parametrize("kind", SCALARS)
def test_scalar_feeds(kind):
    holding, op, feed = SCALARS[kind]
    scalar = helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, [])
    x = helper.make_value_info("x", holding(scalar))
    y = helper.make_value_info("y", scalar)
    place = helper.make_tensor("i", onnx.TensorProto.INT64, [], [1])
    names = ["x", "i"] if op == "SequenceAt" else ["x"]
    body = helper.make_graph([helper.make_node(op, names, ["y"])], "g", [x], [y],
                             [place])  # fmt: skip
    imports = [helper.make_opsetid("", 18)]
    made = amanda.compile(
        amanda.load(helper.make_model(body, opset_imports=imports)), BACKEND
    )
    for got in (made([feed])["y"], made.executable({"x": feed})[0]):
        assert (got.dtype, got.shape, float(got)) == (np.float32, (), 3.0)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of the test data of onnx
def test_results_equal_onnxruntime_alone():
    """Every tenth case of the suite of onnx: equal bytes, or refused by both."""
    ran = refused = 0
    for case in load_model_tests(kind="node")[::10]:
        feeds = case.data_sets[0][0] if case.data_sets else None
        if feeds is None or case.model.opset_import[0].version > 26:
            continue
        want = _direct(case.model, feeds)
        try:
            got = amanda.run(amanda.load(case.model), list(feeds), backend=BACKEND)
        except BackendError:
            assert want is None, case.name
            refused += 1
            continue
        if want is not None:  # some numbers go in by us only
            assert _flat(list(got.values())) == _flat(want), case.name
            ran += 1
    assert ran > 100
    assert refused < ran / 4


def _direct(model, feeds):
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    copy.ir_version = min(copy.ir_version, 11)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        raw = copy.SerializeToString()
        providers = ["CPUExecutionProvider"]
        session = onnxruntime.InferenceSession(raw, options, providers=providers)
        names = [each.name for each in session.get_inputs()]
        return session.run(None, dict(zip(names, feeds, strict=True)))
    except Exception:  # noqa: BLE001  its errors have no common base
        return None


def _flat(value):
    if isinstance(value, list):
        return [_flat(each) for each in value]
    if not isinstance(value, np.ndarray):
        return repr(value)
    content = value.tolist() if value.dtype == object else value.tobytes()
    return (str(value.dtype), value.shape, content)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of the test data of onnx
def test_unsupported_domains_are_not_written():
    """A step of training is taken apart: the runtime has no op for it."""
    [case] = [c for c in load_model_tests(kind="node") if c.name == "test_momentum"]
    feeds, wanted = case.data_sets[0]
    made = amanda.run(amanda.load(case.model), list(feeds), backend=BACKEND)
    for got, want in zip(made.values(), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_the_report_names_the_op_of_a_domain_and_an_opset() -> None:
    graph = Graph("amanda/onnx/18")
    graph.imports["com.microsoft"] = 1
    x = graph.parameter(parse_type("float32[2, 3]"), "x")
    y = graph.add("Relu", [x], name="first").output
    y = graph.add("Relu", [y]).output
    quick = graph.add("QuickGelu", [y])
    quick.namespace = "onnx/com.microsoft/1"
    for op in graph:
        op.output.type = parse_type("float32[2, 3]")
    graph.result(quick.output, "y")
    report = amanda.compile(graph, "onnxruntime").executable.report()
    rows = [(row.op, row.call, row.name) for row in report.implementations]
    assert rows == [
        ("Relu 'first'", "Relu(float32)", "ai.onnx Relu of opset 14"),
        ("Relu #1", "Relu(float32)", "ai.onnx Relu of opset 14"),
        ("QuickGelu #2", "QuickGelu(float32)", "com.microsoft QuickGelu of opset 1"),
    ]
    assert "CPUExecutionProvider" in report.providers
    assert "Relu(float32): ai.onnx Relu of opset 14, 2 ops" in str(report).splitlines()


def test_the_report_is_of_the_form_that_runs() -> None:
    graph = Graph("amanda/onnx/18")
    x = graph.parameter(parse_type("bfloat16[2]"), "x")
    y = graph.add("Erf", [x]).output
    y.type = parse_type("bfloat16[2]")
    graph.result(y, "y")
    report = amanda.compile(graph, "onnxruntime").executable.report()
    assert report.form in str(report)
    calls = [row.call for row in report.implementations]
    assert calls == ["Cast(bfloat16)", "Erf(float32)", "Cast(float32)"]
