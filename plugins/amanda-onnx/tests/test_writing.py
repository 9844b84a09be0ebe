"""Graphs that were built or changed by hand, written as models."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest
from onnx import helper

import amanda
from amanda.errors import FormatError, LimitError
from amanda.graph import Graph
from amanda.tensors import Tensor
from amanda.types import Quantized, TensorType, parse_type
from amanda_onnx.format import Format, writer
from amanda_onnx.format.model_metadata import NOTES_KEY

CODEC = Format()
ROWS = parse_type("float32[n, 2]")


def written(graph, check=True):
    proto = onnx.load_model_from_string(CODEC.dumps(graph))
    if check:
        onnx.checker.check_model(proto, full_check=True)
    return proto


def graph_of(opset=18):
    graph = Graph(f"amanda/onnx/{opset}")
    return graph, graph.parameter(ROWS, "x")


def add(graph, type, inputs, attrs=None, **more):
    """The value of an op, with the type of the input."""
    op = graph.add(type, inputs, attrs, **more)
    op.output.type = ROWS
    return op.output


def test_a_graph_without_names():
    graph = Graph("amanda/onnx/18")
    x = graph.parameter(ROWS)
    w = graph.constant(Tensor.of(np.ones(2, "f")))
    total = add(graph, "Add", [x, w.output])
    graph.result(add(graph, "Relu", [total]))
    proto = written(graph)
    names = [[*node.input, *node.output] for node in proto.graph.node]
    assert names == [["input", "constant_0", "Add_0"], ["Add_0", "Relu_0"]]
    assert proto.ir_version == 8
    assert proto.opset_import[0].version == 18


def test_names_that_several_values_have():
    graph, x = graph_of()
    for _ in range(3):
        x = add(graph, "Relu", [x])
        x.name = "same"
    graph.result(x, "same")
    proto = written(graph)
    outputs = [node.output[0] for node in proto.graph.node]
    assert outputs == ["Relu_0", "Relu_0_1", "same"]


def test_results_under_names_of_their_own():
    graph, x = graph_of()
    y = add(graph, "Relu", [x])
    y.name = "inner"
    graph.result(y, "first")
    graph.result(y, "second")
    graph.result(x, "through")
    proto = written(graph, check=False)
    assert [value.name for value in proto.graph.output] == [
        "first",
        "second",
        "through",
    ]
    assert [node.op_type for node in proto.graph.node] == [
        "Relu",
        "Identity",
        "Identity",
    ]
    assert proto.graph.node[0].output[0] == "first"


def test_bodies_do_not_hide_what_they_read():
    graph, x = graph_of()
    x.name = "v"
    c = graph.parameter(parse_type("bool[]"), "c")
    bodies = {}
    for key in ("then_branch", "else_branch"):
        body = bodies[key] = Graph(outer=graph)
        op = body.add("Relu", [x])
        op.output.name = "v"
        body.result(op.output, "v")
    op = graph.add("If", [c], bodies=bodies)
    op.output.type = ROWS
    graph.result(op.output, "y")
    proto = written(graph)
    inner = proto.graph.node[0].attribute[0].g
    assert inner.node[0].input[0] == "v"
    assert inner.node[0].output[0] == inner.output[0].name == "Relu_0"


def test_weights_of_a_changed_old_model_are_inputs_too():
    graph, x = graph_of(8)
    graph.attrs["onnx:model"] = {"ir_version": 3}
    w = graph.constant(Tensor.of(np.ones(2, "f"))).output
    w.name = "w"
    graph.result(add(graph, "Add", [x, w]), "y")
    assert [value.name for value in written(graph).graph.input] == ["x", "w"]


def test_domains_are_imported():
    graph, x = graph_of()
    graph.result(add(graph, "Gelu", [x], namespace="onnx/com.microsoft/1"), "y")
    imports = {o.domain: o.version for o in written(graph).opset_import}
    assert imports == {"": 18, "com.microsoft": 1}
    again = CODEC.read(CODEC.dumps(graph))
    assert again.ops[0].namespace == "onnx/com.microsoft/1"


def test_everything_that_does_not_fit_is_told_at_once():
    graph, x = graph_of()
    first = graph.add("Relu", [x], name="a")
    graph.control(first, graph.add("Relu", [x], {"no": None}, name="b"))
    graph.add("relu", [x], name="c", namespace="amanda/std/1")
    graph.add("Relu", [x], {"big": 1 << 70, "wide": 1e300}, name="d")
    graph.constant(Tensor.of(np.ones(2, "complex64")), name="fine")
    quantized = Quantized("int8", scale=0.5)
    graph.constant(Tensor.of(np.ones(2, "int8"), dtype=quantized), name="f")
    graph.result(first.output, "y")
    with pytest.raises(FormatError) as caught:
        CODEC.dumps(graph)
    told = "\n".join(caught.value.problems)
    for name in "bcdf":
        assert f"'{name}'" in told, told
    assert len(caught.value.problems) == 4


def test_only_graphs_of_onnx(tmp_path):
    with pytest.raises(FormatError, match="convert"):
        CODEC.dumps(Graph("amanda/std/1"))
    with pytest.raises(FormatError, match="namespace"):
        amanda.save(Graph("amanda/std/1"), tmp_path / "a.onnx")


def test_an_old_file_stays_where_writing_fails(tmp_path):
    path = tmp_path / "a.onnx"
    path.write_bytes(b"old")
    graph, x = graph_of()
    graph.add("Relu", [x], {"no": None})
    with pytest.raises(FormatError):
        amanda.save(graph, path)
    assert path.read_bytes() == b"old"


# -- weights beside the model -----------------------------------------------------


def weighty(count=3):
    graph, x = graph_of()
    for i in range(count):
        array = np.full((1000, 2), i, "f")
        x = add(graph, "Add", [x, graph.constant(Tensor.of(array)).output])
    small = graph.constant(Tensor.of(np.ones(2, "f"))).output
    graph.result(add(graph, "Add", [x, small]), "y")
    return graph


def weights_of(path):
    proto = onnx.load(path)
    onnx.checker.check_model(str(path))
    return [onnx.numpy_helper.to_array(t).tolist() for t in proto.graph.initializer]


def test_weights_in_a_file_beside(tmp_path):
    inside, beside = tmp_path / "in.onnx", tmp_path / "out.onnx"
    amanda.save(weighty(), inside)
    amanda.save(weighty(), beside, external=True)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names[:2] == ["in.onnx", "out.onnx"]
    assert re.fullmatch(r"out\.onnx\.[0-9a-f]{16}\.data", *names[2:])
    assert beside.stat().st_size < 1000
    assert weights_of(inside) == weights_of(beside)
    kept = onnx.load(beside, load_external_data=False).graph.initializer
    offsets = [{e.key: e.value for e in t.external_data}.get("offset") for t in kept]
    assert offsets == ["0", "8192", "16384", None]


def test_they_stay_beside_and_come_back(tmp_path):
    path, other = tmp_path / "a.onnx", tmp_path / "b.onnx"
    amanda.save(weighty(), path, external=True)
    graph = amanda.load(path)
    assert "buffer" in repr(graph.ops[0].attrs["value"])
    amanda.save(graph, other)
    [data] = tmp_path.glob("b.onnx.*.data")
    assert data.stat().st_size > 20_000
    assert weights_of(path) == weights_of(other)
    amanda.save(graph, path)  # over the files that it is read from
    assert weights_of(path) == weights_of(other)
    amanda.save(graph, other, external=False)
    assert other.stat().st_size > 24_000
    assert weights_of(path) == weights_of(other)


def test_the_threshold(tmp_path):
    path = tmp_path / "a.onnx"
    amanda.save(weighty(), path, external=True, threshold=1)
    kept = onnx.load(path, load_external_data=False).graph.initializer
    assert [t.data_location for t in kept] == [1, 1, 1, 1]


def test_many_files(tmp_path):
    """What other writers make: a file for each weight, in folders."""
    proto = onnx.load_model_from_string(CODEC.dumps(weighty()))
    path = tmp_path / "many.onnx"
    (tmp_path / "sub").mkdir()
    onnx.save(proto, path, save_as_external_data=True, all_tensors_to_one_file=False)
    graph = amanda.load(path)
    amanda.save(graph, tmp_path / "one.onnx", external=False)
    assert weights_of(tmp_path / "one.onnx") == weights_of(path)


@pytest.mark.parametrize(
    ("split", "alignment", "names", "offsets"),
    [
        (1, 4096, [0, 1, 2], [0, 0, 0]),
        (17_000, 4096, [0, 0, 1], [0, 8192, 0]),
        (16_000, 64, [0, 0, 1], [0, 8000, 0]),
        (None, 100, [0, 0, 0], [0, 8000, 16000]),
        (None, 65536, [0, 0, 0], [0, 65536, 131072]),
    ],
)
def test_several_files(split, alignment, names, offsets, tmp_path):
    path, plain = tmp_path / "m.onnx", tmp_path / "plain.onnx"
    amanda.save(weighty(), plain)
    amanda.save(weighty(), path, external=True, split=split, alignment=alignment)
    kept = onnx.load(path, load_external_data=False).graph.initializer
    rows = [{e.key: e.value for e in t.external_data} for t in kept[:3]]
    files = dict.fromkeys(row["location"] for row in rows)
    assert [[*files].index(row["location"]) for row in rows] == names
    assert {p.name for p in tmp_path.glob("m.onnx.*")} == set(files)
    assert [int(row["offset"]) for row in rows] == offsets
    assert weights_of(path) == weights_of(plain)
    with pytest.raises(FormatError, match="numbers of bytes"):
        amanda.save(weighty(), path, external=True, split=0)


def test_data_of_earlier_saves_is_deleted_last(tmp_path):
    path = tmp_path / "m.onnx"
    unrelated = tmp_path / "other.onnx.data"
    (tmp_path / "m.onnx.data").write_bytes(b"of an exporter")
    unrelated.write_bytes(b"kept")
    for count in (1, 2, 3):
        amanda.save(weighty(count), path, external=True)
        again = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
        amanda.save(weighty(count), path, external=True)
        assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == again
        assert len(again) == 3
        assert len(weights_of(path)) == count + 1
    amanda.save(weighty(), path, external=False)
    assert {p.name for p in tmp_path.iterdir()} == {"m.onnx", "other.onnx.data"}


def test_a_graph_loaded_before_keeps_its_external_data(tmp_path):
    path = tmp_path / "m.onnx"
    amanda.save(big(1.0), path, external=True)
    graph = amanda.load(path)
    amanda.save(big(2.0), path, external=True)
    for loaded, value in ((graph, 1.0), (amanda.load(path), 2.0)):
        assert (loaded["w"].attrs["value"].numpy() == value).all()


def big(value):
    """A weight of 9 MB, which is mapped when it is read."""
    graph, x = graph_of()
    held = graph.constant(Tensor.of(np.full((1150000, 2), value, "f")), "w")
    graph.result(add(graph, "Add", [x, held.output]), "y")
    return graph


def test_graphs_in_graphs_as_deep_as_they_are_read():
    """More than other readers follow; nothing is lost on the way."""
    root = Graph("amanda/onnx/18", "g")
    graph, condition = root, root.parameter(parse_type("bool[]"), "c")
    x = root.parameter(parse_type("float32[2]"), "x")
    for _ in range(60):
        made = graph.add("If", [condition], outputs=1)
        graph.result(made.output, None if graph is not root else "y")
        for key in ("then_branch", "else_branch"):
            body = Graph(outer=graph)
            made.set_body(key, body)
            if key == "else_branch":
                body.result(body.add("Relu", [x]).output)
        graph = made.bodies["then_branch"]
    graph.result(graph.add("Neg", [x]).output)
    raw = CODEC.dumps(root)
    again = CODEC.read(raw)
    assert CODEC.dumps(again) == raw
    assert sum(op.type == "If" for op in again.walk()) == 60


def test_what_is_too_large_goes_beside_by_itself(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "MAX_MESSAGE_BYTES", 10_000)
    path = tmp_path / "a.onnx"
    amanda.save(weighty(), path)
    assert weights_of(path) == weights_of(path)
    assert len([*tmp_path.glob("a.onnx.*.data")]) == 1
    with pytest.raises(LimitError):
        amanda.save(weighty(), path, external=False)
    with pytest.raises(LimitError):
        CODEC.dumps(weighty())


@pytest.mark.scale
def test_more_than_two_gigabytes(tmp_path):
    graph, x = graph_of()
    for _ in range(3):
        huge = Tensor.splat("float32", (300_000_000,), 1.0)
        x = add(graph, "Add", [x, graph.constant(huge).output])
    graph.result(x, "y")
    path = tmp_path / "a.onnx"
    amanda.save(graph, path)
    assert (tmp_path / "a.onnx.data").stat().st_size > 1 << 31
    onnx.checker.check_model(str(path))
    assert amanda.load(path).ops[0].attrs["value"].shape == (300_000_000,)


# -- the textual form -------------------------------------------------------------


def test_the_textual_form(tmp_path):
    path = tmp_path / "a.onnxtxt"
    path.write_text(
        '<ir_version: 8, opset_import: ["" : 17]>\n'
        "g (float[n, 2] x) => (float[n, 2] y) { y = Relu(x) }\n"
    )
    graph = amanda.load(path)
    assert str(graph.parameters[0].type) == "float32[n, 2]"
    amanda.save(graph, tmp_path / "b.onnxtxt")
    assert amanda.load(tmp_path / "b.onnxtxt").difference(graph) is None
    path.write_text("no model at all")
    with pytest.raises(FormatError, match="not ONNX text"):
        amanda.load(path)


def test_the_textual_form_has_every_kind_of_number(tmp_path):
    """Which field of a message numbers are in is not told by a text, nor asked."""
    graph = Graph("amanda/onnx/18", "g")
    for i, name in enumerate(("float32", "int64", "bool", "float16", "uint8")):
        array = np.array([0, 1, 1]).astype(name)
        graph.result(graph.constant(Tensor.of(array)).output, f"y{i}")
    path = tmp_path / "a.onnxtxt"
    amanda.save(graph, path)
    again = amanda.load(path)
    for before, after in zip(graph.results, again.results, strict=True):
        one, other = (v.op.attrs["value"] for v in (before, after))
        assert (one.dtype, one.tolist()) == (other.dtype, other.tolist())


def test_what_no_text_can_hold_is_not_written(tmp_path):
    graph, x = graph_of()
    y = add(graph, "Relu", [x])
    graph.result(y, "y")
    y.op.attrs[NOTES_KEY] = {"rest": b"\xfa\x7f\x01a"}
    with pytest.raises(FormatError, match="cannot hold this model"):
        amanda.save(graph, tmp_path / "a.onnxtxt")
    assert not list(tmp_path.iterdir())


# -- which opset, and which IR version -------------------------------------------------


def _small():
    """A graph of the hub set that any opset can hold."""
    from amanda_std import ops, trace

    graph = trace(lambda x: ops.relu(x), [TensorType("float32", [2])], names=["x"])
    graph.outputs[0].name = "y"
    return graph


@pytest.mark.parametrize("opset", range(7, 29))
def test_the_ir_version_is_the_lowest_that_the_opset_goes_with(opset):
    graph = amanda.convert(_small(), f"onnx@{opset}")
    model = onnx.load_from_string(Format().dumps(graph))
    lowest = helper.find_min_ir_version_for(model.opset_import, True)
    assert model.ir_version == max(lowest, 4)  # before it, weights are inputs, too


def test_onnxruntime_takes_the_opset_that_is_asked_for():
    """The newest one is what the dictionary has: runtimes come after it."""
    runtime = pytest.importorskip("onnxruntime")
    assert amanda.convert(_small(), "onnx").namespace == "amanda/onnx/28"
    raw = Format().dumps(amanda.convert(_small(), "onnx@21"))
    session = runtime.InferenceSession(raw, providers=["CPUExecutionProvider"])
    x = np.float32([-1, 2])
    assert session.run(None, {"x": x})[0].tolist() == [0, 2]


def test_who_names_no_opset_is_told_which_it_is(tmp_path):
    from click.testing import CliRunner

    from amanda.cli.verbs.convert import command

    amanda.save(_small(), tmp_path / "small.json")
    source, target = str(tmp_path / "small.json"), str(tmp_path / "small.onnx")
    told = CliRunner().invoke(command, [source, target])
    assert told.exit_code == 0, told.output
    assert "amanda/onnx/28, the newest one; --to onnx@VERSION" in told.output
    told = CliRunner().invoke(command, [source, target, "--to", "onnx@21"])
    assert "newest" not in told.output
    assert onnx.load(target).ir_version == 10
