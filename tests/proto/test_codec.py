"""Graphs in protobuf form: lossless, byte-identical, open to every protobuf library."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from strategies import examples, graphs

from amanda.errors import FormatError, InvalidTypeError, LimitError
from amanda.files.binary import codec, encoder, graph_decoder
from amanda.files.binary.messages import message_classes
from amanda.graph import Graph, Provenance
from amanda.tensors import Tensor
from amanda.types import Shape, Sym, TensorType

pytestmark = pytest.mark.install_independent

some_graphs = settings(
    max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow]
)


def model(data: bytes) -> Any:
    """The file as a message of the protobuf library."""
    return message_classes()["Model"].FromString(data)


@some_graphs
@given(graphs())
def test_round_trip(graph: Graph) -> None:
    data = codec.dumps(graph)
    loaded = codec.loads(data)
    assert loaded.check() == []
    assert loaded.difference(graph) is None
    assert codec.dumps(loaded) == data


@some_graphs
@given(graphs())
def test_bytes_are_those_of_the_protobuf_library(graph: Graph) -> None:
    data = codec.dumps(graph)
    assert model(data).SerializeToString(deterministic=True) == data


@some_graphs
@given(graphs())
def test_every_op_reads_the_same_through_the_message_classes(graph: Graph) -> None:
    data = codec.dumps(graph)
    slow = pytest.MonkeyPatch()
    with slow.context() as patch:
        patch.setattr(
            graph_decoder.GraphDecoder, "_op", graph_decoder.GraphDecoder._rare_op
        )
        loaded = codec.loads(data)
    assert loaded.difference(codec.loads(data)) is None
    assert codec.dumps(loaded) == data


@some_graphs
@given(graphs())
def test_blocks_of_any_size(graph: Graph) -> None:
    data = codec.dumps(graph)
    for size in (11, 40, 200):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(graph_decoder, "_BLOCK", size)
            assert codec.dumps(codec.loads(data)) == data


def test_files(tmp_path: Path) -> None:
    graph = Graph("amanda/std/1")
    graph.result(graph.constant(Tensor.of([1.0, 2.0]), "w").output)
    path = tmp_path / "a.ampb"
    codec.save(graph, path)
    file = io.BytesIO()
    codec.dump(graph, file)
    assert path.read_bytes() == file.getvalue() == codec.dumps(graph)
    assert codec.load(path).same_as(graph)
    assert codec.load(path).same_as(codec.loads(bytearray(file.getvalue())))


def test_tensors_share_the_bytes() -> None:
    graph = Graph()
    graph.constant(Tensor.of(np.arange(1000, dtype="float32")), "w")
    data = codec.dumps(graph)
    array = codec.loads(data)["w"].attrs["value"].numpy()
    assert np.shares_memory(array, np.frombuffer(data, np.uint8))
    assert not array.flags.writeable


def test_equal_tensors_are_written_once() -> None:
    graph = Graph()
    ones = np.ones(5000, "float32")
    for i, array in enumerate([ones, ones.copy(), ones * 2, ones[:4]]):
        graph.constant(Tensor.of(array), f"w{i}")
    small = Tensor.of(np.int64(3))
    graph.add("a", attrs={"x": small, "y": [small, {"z": Tensor.of(np.int64(3))}]})
    found = model(codec.dumps(graph)).tensors
    assert [len(tensor.data) for tensor in found] == [20_000, 20_000, 16, 8]
    loaded = codec.loads(codec.dumps(graph))
    assert loaded["w0"].attrs["value"] is loaded["w1"].attrs["value"]


def test_only_tensors_that_look_alike_are_compared() -> None:
    def never() -> Any:
        raise AssertionError("this tensor was computed")

    graph = Graph()
    for shape in ((3,), (4,), (3, 1)):
        graph.constant(Tensor.lazy(never, "float32", shape))
    assert len(encoder.encode(graph).tensors) == 3


def test_splats_stay_splats() -> None:
    graph = Graph()
    for dtype in ("float32", "int4", "bfloat16", "complex128"):
        graph.constant(Tensor.splat(dtype, (1 << 40,), 3), dtype)
    graph.constant(Tensor.splat("float32", (), 3), "one")
    loaded = codec.loads(codec.dumps(graph))
    assert loaded.same_as(graph)
    assert [op.attrs["value"].stores_one_element for op in loaded] == [True] * 4 + [
        False
    ]
    assert len(codec.dumps(graph)) < 500


def test_dims_without_a_name_keep_their_identity() -> None:
    dim, other = Sym.unknown(), Sym.unknown()
    graph = Graph()
    graph.parameter(TensorType("float32", [dim, other, dim]))
    graph.add("a", attrs={"shape": Shape([other]), "dim": dim})
    loaded = codec.loads(codec.dumps(graph))
    kind = loaded.parameters[0].type
    assert isinstance(kind, TensorType)
    first, second, third = kind.shape
    assert first.key == third.key != second.key
    assert loaded[0].attrs["dim"].key == first.key
    assert loaded[0].attrs["shape"][0].key == second.key


def test_what_only_a_file_can_mix_up() -> None:
    """Names and types of ports, marks and provenance, each at its own place."""
    graph = Graph("a", "g", type="t")
    x = graph.parameter(TensorType("float32", [2]), "x")
    x.mark("keep")
    inner = Graph("b", "inner", outer=graph)
    inner.provenance = Provenance(("p", "q"), "rule")
    y = inner.parameter(name="y")
    inner.result(inner.add("f", [y, x], outputs=2).outputs[1], "out")
    held = graph.add_graph(inner, [x])
    held.outputs[0].mark("seen")
    graph.result(held.outputs[0], "r")
    graph.set_entry("serve", {"in": x}, {"out": held.outputs[0]})
    loaded = codec.loads(codec.dumps(graph))
    assert loaded.same_as(graph)
    again = loaded["inner"]
    assert isinstance(again, Graph)
    assert again.provenance == Provenance(("p", "q"), "rule")
    assert again.outputs[0].marks == {"seen"}
    assert loaded.parameters[0].marks == {"keep"}
    assert again[0].inputs == (again.parameters[0], loaded.parameters[0])
    assert loaded.entries["serve"].outputs["out"] is again.outputs[0]


def test_loops_of_feedback_ops() -> None:
    graph = Graph()
    merge = graph.add("Merge", [graph.parameter(), None], name="merge")
    body = graph.add("Body", [merge.output])
    back = graph.add("NextIteration", [body.output], name="next", feedback=True)
    merge.input_ports[1].connect(back.output)
    merge.input_ports[1].edge_attrs["note"] = 1
    graph.control(back, merge, {"why": "order"})
    loaded = codec.loads(codec.dumps(graph))
    assert loaded.same_as(graph)
    assert loaded["merge"].inputs[1] is loaded["next"].output
    assert codec.dumps(loaded) == codec.dumps(graph)


def test_deep_nesting() -> None:
    graph = root = Graph(name="root")
    x = root.parameter(name="x")
    for i in range(3000):
        inner = Graph(name=f"g{i}")
        inner.result(inner.parameter())
        if i % 2:
            graph.add_graph(inner, [x])
        else:
            graph.add("If", [x], bodies={"then": inner})
        graph, x = inner, inner.parameters[0]
    data = codec.dumps(root)
    assert codec.dumps(codec.loads(data)) == data
    model(data)  # no library finds it too deep


def test_a_body_alone_cannot_be_saved() -> None:
    graph = Graph(name="outer")
    x = graph.parameter(name="x")
    body = Graph(name="body", outer=graph)
    body.result(x)
    with pytest.raises(FormatError) as caught:
        codec.dumps(body)
    assert str(caught.value) == (
        "graph 'body' reads a value that is not in the file\n"
        "  got:      outer:x of graph 'outer'\n"
        "  to do:    save the graph around it, or a clone that has it as parameter"
    )


def test_attributes_that_cannot_be_saved() -> None:
    graph = Graph()
    op = graph.add("a", name="a", attrs={"x": {1, 2}})
    with pytest.raises(InvalidTypeError, match="an attribute cannot hold a set"):
        codec.dumps(graph)
    holds_itself: list[Any] = []
    holds_itself.append(holds_itself)
    op.attrs["x"] = holds_itself
    with pytest.raises(LimitError, match="nested absurdly deep"):
        codec.dumps(graph)
    op.attrs["x"] = 1 << 300
    with pytest.raises(InvalidTypeError, match="absurdly large number"):
        codec.dumps(graph)
    op.attrs["x"] = "\ud800"
    with pytest.raises(FormatError, match="surrogate"):
        codec.dumps(graph)


def test_more_than_protobuf_takes(tmp_path: Path) -> None:
    graph = Graph()
    zeros = np.broadcast_to(np.float32(0), (1 << 29,))
    graph.constant(Tensor.of(zeros))
    with pytest.raises(LimitError) as caught:
        codec.save(graph, tmp_path / "large.ampb")
    assert caught.value.hint is not None
    assert ".amanda" in caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_versions() -> None:
    graph = Graph()
    graph.add("a", name="a")
    data = codec.dumps(graph)
    newer = model(data)
    newer.minor = 7
    assert codec.loads(newer.SerializeToString()).same_as(graph)
    newer.major = 2
    with pytest.raises(FormatError) as caught:
        codec.loads(newer.SerializeToString(), "m.ampb")
    assert str(caught.value) == (
        "a graph in another version of the protobuf form\n"
        "  who:      m.ampb\n"
        "  expected: version 1\n"
        "  got:      version 2\n"
        "  to do:    a newer Amanda may read it"
    )


def test_fields_of_later_versions_are_ignored() -> None:
    graph = Graph()
    graph.result(graph.add("a", [graph.parameter()], {"k": 1}, name="a").output)
    later = b"\xa2\x06\x02hi"  # field 100
    told = model(codec.dumps(graph))
    rebuilt = message_classes()
    op = rebuilt["Op"].FromString(told.graphs[0].ops[0].SerializeToString() + later)
    attr = op.attrs[0].SerializeToString() + later
    op.attrs[0].CopyFrom(rebuilt["Attr"].FromString(attr))
    body = rebuilt["Graph"].FromString(told.graphs[0].SerializeToString() + later)
    body.ops[0].CopyFrom(op)
    told.graphs[0].CopyFrom(body)
    data = told.SerializeToString() + later
    assert data.count(later) == 4
    assert codec.loads(data).same_as(graph)
    assert codec.dumps(codec.loads(data)) == codec.dumps(graph)


def test_a_file_of_another_program() -> None:
    """Made with the protobuf library alone, with no word of Amanda's code."""
    classes = message_classes()
    told = classes["Model"](magic="amanda/graph", major=1)
    told.strings.extend(["relu", "x", "alpha"])
    told.types.append("float32[n, 3]")
    body = told.graphs.add()
    body.parameters.add(type=1, name=2)
    body.results.add(value=1)
    op = body.ops.add(type=1, name="r", inputs=[1], outputs=[1])
    op.attrs.add(name=3, real=0.5)
    graph = codec.loads(told.SerializeToString())
    expected = Graph()
    n = Sym.named("n")
    x = expected.parameter(TensorType("float32", [n, 3]), "x")
    relu = expected.add("relu", [x], {"alpha": 0.5}, name="r")
    relu.output.type = TensorType("float32", [n, 3])
    expected.result(relu.output)
    assert graph.difference(expected) is None
