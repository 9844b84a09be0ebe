"""GraphDef, read and written, against TensorFlow and its 922 frozen graphs."""

from __future__ import annotations

import os
import tarfile
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import amanda
from amanda.dictionary import Dictionary
from amanda.errors import AmandaError, FormatError
from amanda.formatkit import encode_field as field
from amanda.formatkit import (
    encode_key,
    encode_varint,
    message_classes,
    schema_of_descriptor,
)
from amanda.graph import CORE, Graph
from amanda.mapping import constant_of
from amanda.tensors import FunctionRef, Tensor
from amanda.types import DType, Shape, TensorType
from amanda_tf.format import Format
from amanda_tf.messages import GRAPH_RECORDS, NODE_RECORDS, SCHEMA

CLASSES = message_classes(SCHEMA)


@pytest.fixture(scope="module")
def newest() -> Dictionary:
    found: Any = amanda.namespace("tensorflow")
    return found  # type: ignore[no-any-return]


def read_graph(data: bytes) -> Graph:
    return Format().read(data)


def written(graph: Graph, folder: Path, suffix: str = ".pb") -> bytes:
    path = folder / f"model{suffix}"
    Format().write(graph, path)
    return path.read_bytes()


def same_message(one: bytes, other: bytes) -> bool:
    kind = CLASSES["GraphDef"]
    return bool(kind.FromString(one) == kind.FromString(other))


def frozen() -> Iterator[tuple[str, bytes]]:
    root = os.environ.get("AMANDA_TEST_DATA")
    file = Path(root or "", "tf_graphs", "tf_graphs_dev.tar.gz")
    if root is None or not file.is_file():
        pytest.skip("needs tf_graphs in AMANDA_TEST_DATA")
    with tarfile.open(file) as archive:
        for member in archive:
            if member.name.endswith("/model.pb"):
                content = archive.extractfile(member)
                assert content is not None
                yield member.name, content.read()


def test_every_field_is_declared_as_in_tensorflow() -> None:
    graph_pb2 = pytest.importorskip("tensorflow.core.framework.graph_pb2")
    theirs = schema_of_descriptor(graph_pb2.GraphDef.DESCRIPTOR)
    assert set(SCHEMA.messages) == set(theirs.messages)
    for name, message in SCHEMA.messages.items():
        assert message == theirs[name], name
    assert SCHEMA.enums == theirs.enums


def test_graphs_are_written_back_equal(tmp_path: Path) -> None:
    count = 0
    for name, data in frozen():
        graph = read_graph(data)
        assert same_message(written(graph, tmp_path), data), name
        count += 1
        if count % 50 == 0:
            written(graph, tmp_path, ".pbtxt")
            again = Format().read(tmp_path / "model.pbtxt")
            assert same_message(written(again, tmp_path), data), name
    assert count == 922


def test_graphs_are_what_tensorflow_reads(newest: Dictionary) -> None:
    pytest.importorskip("tensorflow", reason="needs TensorFlow, to compare with")
    from tensorflow.core.framework import graph_pb2

    counted = 0
    for name, data in frozen():
        graph = read_graph(data)
        told = graph_pb2.GraphDef.FromString(data)
        assert newest.validate(graph) == [], name
        assert graph.check() == [], name
        assert len(graph) + len(graph.parameters) == len(told.node)
        for node in told.node:
            _same_node(graph, node)
            counted += 1
    assert counted > 14_000


def _same_node(graph: Graph, node: Any) -> None:
    parameters = {port.name: port for port in graph.parameters}
    if node.name in parameters:
        assert node.op == "Placeholder"
        type = parameters[node.name].type
        _same_value(type.dtype, node.attr["dtype"])
        return
    op = graph.ops[node.name]
    inputs = [text for text in node.input if not text.startswith("^")]
    values = [v for v in op.inputs if v is not None]
    read = [(v.name, 0) if v.op is graph else (v.op.name, v.index) for v in values]
    assert read == [
        (t.partition(":")[0], int(t.partition(":")[2] or 0)) for t in inputs
    ]
    waits = {text[1:] for text in node.input if text.startswith("^")}
    assert {each.name for each in op.control_inputs} == waits - parameters.keys()
    if node.op == "Const":
        _same_tensor(constant_of(op.output), node.attr["value"].tensor)
        return
    assert op.type == node.op
    assert set(op.attrs) == set(node.attr)
    for name, value in node.attr.items():
        _same_value(op.attrs[name], value)


def _same_value(have: Any, told: Any) -> None:
    kind = told.WhichOneof("value")
    value = getattr(told, kind)
    match kind:
        case "i" | "b":
            assert have == value
            assert type(have) is type(value)
        case "f":
            assert have == value
        case "s":
            assert have.encode() == value
        case "type":
            assert _number(have) == value % 100
        case "list":
            items = [*value.i, *value.f, *value.b, *value.s, *value.type, *value.shape]
            assert len(have) == len(items)
            if value.i:
                assert have == [*value.i]
        case "shape":
            sizes = None if value.unknown_rank else [d.size for d in value.dim]
            assert _sizes(have) == sizes
        case "tensor":
            _same_tensor(have, value)


def _number(dtype: DType) -> int:
    from tensorflow.python.framework import dtypes

    return int(dtypes.as_dtype(str(dtype)).as_datatype_enum)


def _sizes(shape: Shape) -> list[int] | None:
    try:
        return [d if isinstance(d, int) else -1 for d in shape.dims]
    except AmandaError:
        return None


def _same_tensor(have: Tensor | None, told: Any) -> None:
    from tensorflow.python.framework import tensor_util

    assert have is not None
    wanted = tensor_util.MakeNdarray(told)
    assert have.shape == wanted.shape
    if have.dtype.kind == "string":
        assert have.numpy().ravel().tolist() == wanted.ravel().tolist()
    else:
        assert have.numpy().dtype == wanted.dtype
        assert have.numpy().tobytes() == wanted.tobytes()


# -- made by hand ----------------------------------------------------------------------


def text(number: int, value: str) -> bytes:
    return field(number, value.encode())


def number(of: int, value: int) -> bytes:
    return encode_key(of, 0) + encode_varint(value)


def node(name: str, op: str, *inputs: str, more: bytes = b"", **attrs: bytes) -> bytes:
    told = text(1, name) + text(2, op) + b"".join(text(3, i) for i in inputs)
    for key_, value in attrs.items():
        told += field(5, text(1, key_) + field(2, value))
    return field(1, told + more)


FLOAT = number(6, 1)
PLACEHOLDER = node("x", "Placeholder", dtype=FLOAT)


def test_other_fields_are_recorded(newest: Dictionary) -> None:
    more = text(4, "/device:CPU:0") + field(6, text(1, "whence"))
    data = PLACEHOLDER + node("y", "Neg", "x", more=more, T=FLOAT)
    graph = read_graph(data)
    assert graph.ops["y"].attrs == {
        "T": DType("float32"),
        NODE_RECORDS.key: {
            "device": "/device:CPU:0",
            "rest": field(6, text(1, "whence")),
        },
    }
    assert newest.validate(graph) == []


def test_a_constant_stays_where_it_is() -> None:
    dims = field(2, field(2, number(1, 2)))
    tensor = number(1, 3) + dims + field(4, (5).to_bytes(4, "little") * 2)
    data = node("c", "Const", dtype=number(6, 3), value=field(8, tensor),
                _class=text(2, "loc:@a"))  # fmt: skip
    op = read_graph(data).ops["c"]
    assert op.own_namespace == CORE
    held = constant_of(op.output)
    assert held is not None
    assert held.tolist() == [5, 5]
    assert str(op.output.type) == "int32[2] = [5, 5]"
    assert op.attrs["_class"] == "loc:@a"


def test_a_constant_with_an_input_is_no_constant() -> None:
    """Damaged, but it can be read: the input is not lost."""
    tensor = number(1, 3) + field(2, b"") + number(7, 5)
    data = PLACEHOLDER + node(
        "c", "Const", "x", dtype=number(6, 3), value=field(8, tensor)
    )
    op = read_graph(data).ops["c"]
    assert (op.type, op.own_namespace, len(op.inputs)) == ("Const", None, 1)


def test_unknown_dims_of_equal_attributes_differ(tmp_path: Path) -> None:
    """Nodes with equal attributes, also of several files, say nothing of each other."""
    shape = field(7, field(2, number(1, (1 << 64) - 1)) + field(2, number(1, 3)))
    shapes = field(1, field(7, field(2, number(1, (1 << 64) - 1))) * 2)
    data = b"".join(
        node(name, "Placeholder", dtype=FLOAT, shape=shape, _output_shapes=shapes)
        for name in "ab"
    )
    graphs = read_graph(data), read_graph(data)
    types = [port.type for graph in graphs for port in graph.parameters]
    assert len({type.shape.dims[0].key for type in types}) == 4
    (tmp_path / "two.pb").write_bytes(data + node("y", "ConcatV2", "a", "b", "z",
        N=number(3, 2), T=FLOAT, Tidx=number(6, 3)) + node("z", "Const",
        dtype=number(6, 3), value=field(8, number(1, 3) + number(7, 0))))  # fmt: skip
    a, b = np.ones((4, 3), "float32"), np.zeros((2, 3), "float32")
    for backend in ("numpy", "jax", "onnxruntime"):
        pytest.importorskip({"numpy": "numpy"}.get(backend, f"amanda_{backend}"))
        found = amanda.run(amanda.load(tmp_path / "two.pb"), [a, b], backend=backend)
        assert found["y"].tolist() == [[1.0] * 3] * 4 + [[0.0] * 3] * 2


def test_one_number_stands_for_all() -> None:
    """However large the claim: nothing is made of it before somebody asks."""
    dims = field(2, field(2, number(1, 1 << 40)))
    tensor = number(1, 9) + dims + number(10, 7)
    data = node("c", "Const", dtype=number(6, 9), value=field(8, tensor))
    held = constant_of(read_graph(data).ops["c"].output)
    assert held is not None
    assert held.stores_one_element
    assert held.shape == (1 << 40,)


def test_values_of_attributes() -> None:
    shape = field(2, number(1, 3)) + field(2, number(1, (1 << 64) - 1))
    told = node(
        "a", "NoSuchOp", i=number(3, (1 << 64) - 4), b=number(5, 1),
        f=encode_key(4, 5) + b"\x00\x00\xc0\x3f", s=text(2, "word"),
        raw=field(2, b"\xff"), shape=field(7, shape), fn=field(10, text(1, "body")),
        list=field(1, field(3, b"\x01\x02") + number(3, 3)), none=b"",
    )  # fmt: skip
    attrs = read_graph(told).ops["a"].attrs
    assert attrs["shape"].dims[0] == 3
    assert not isinstance(attrs.pop("shape").dims[1], int)
    del attrs[NODE_RECORDS.key]
    assert attrs == {
        "i": -4, "b": True, "f": 1.5, "s": "word", "raw": b"\xff",
        "fn": FunctionRef("body"), "list": [1, 2, 3], "none": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (node("a", "Neg", "x"), "'a' reads 'x', which does not exist"),
        (PLACEHOLDER + node("a", "Neg", "x:4"), "an output that .x. does not have"),
        (PLACEHOLDER + node("a", "Neg", "x:q"), "this names no output of a node"),
        (PLACEHOLDER * 2, "a node without a name of its own"),
        (node("a", ""), "a node without an op"),
        (node("a", "b", c=number(6, 88)), "TensorFlow has no element type"),
        (node("a", "b", c=text(6, "x")), "has another wire type"),
        (field(1, b"\x0a\x02\xff\xfe"), "a string is not UTF-8"),
        (b"\x0a\x7f", "reaches beyond the end"),
        (field(2, field(1, b"")), "a function without a name of its own"),
        (b"", "this is not a GraphDef"),
        (node("a", "Const", value=field(8, number(1, 1) + field(4, b"abc"))),
         "does not fit its shape"),
        (node("a", "Const", value=field(8, number(1, 7) + field(2, field(
            2, number(1, 1 << 40))))), "more strings than it has"),
    ],
)  # fmt: skip
def test_what_is_no_graph(data: bytes, why: str) -> None:
    with pytest.raises(FormatError, match=why):
        read_graph(data)


def test_the_number_of_outputs_is_bounded() -> None:
    data = PLACEHOLDER + node(
        "s", "Split", "x", "x", T=FLOAT, num_split=number(3, 1 << 40)
    )
    with pytest.raises(FormatError, match="too many outputs"):
        read_graph(data)


def test_numbers_out_of_range_in_text(tmp_path: Path) -> None:
    path = tmp_path / "model.pbtxt"
    path.write_text("versions { producer: 99999999999999999999 }")
    with pytest.raises(FormatError, match="text format"):
        amanda.load(path)


def test_cut_and_damaged_graphs_are_refused_or_read() -> None:
    whole = PLACEHOLDER + node("y", "Neg", "x", "^x", T=FLOAT)
    for at in range(len(whole)):
        for data in (whole[:at], whole[:at] + b"\xff" + whole[at + 1 :]):
            with suppress(AmandaError):
                assert read_graph(data).check() == []


@pytest.mark.parametrize("action", ["error", "ignore"])
@pytest.mark.parametrize("text", [r"\P", r"\400", r"\u12", r"\xzz", "\\"])
def test_text_with_an_invalid_escape(tmp_path: Path, text: str, action: Any) -> None:
    path = tmp_path / "model.pbtxt"
    path.write_text(f'node {{ name: "{text}" op: "NoOp" }}')
    with warnings.catch_warnings(), pytest.raises(FormatError, match="in text format"):
        warnings.simplefilter(action)
        Format().read(path)


def everything() -> bytes:
    """A graph with all that a graph of Amanda has no place for."""
    graph_def = CLASSES["GraphDef"]()
    graph_def.versions.producer = 1882
    graph_def.versions.bad_consumers.extend([3, 4])
    graph_def.version = 24
    graph_def.library.gradient.add(function_name="f", gradient_func="g")
    graph_def.debug_info.files.append("a.py")
    x = graph_def.node.add(name="x", op="Placeholder", device="/cpu:0")
    x.attr["dtype"].type = 1
    x.attr["_output_shapes"].list.shape.add().dim.add(size=-1, name="batch")
    y = graph_def.node.add(name="y", op="NobodyKnows", input=["x:0", "^x", "x"])
    y.attr["ref"].type = 101
    y.attr["nothing"].SetInParent()
    y.attr["call"].func.name = "f"
    y.attr["call"].func.attr["T"].type = 1
    y.attr["handle"].tensor.dtype = 20
    y.attr["handle"].tensor.resource_handle_val.add(name="h")
    y.experimental_type.type_id = 1000
    graph_def.node.add(name="z", op="Neg", input=["y:2"]).attr["T"].type = 1
    for name, fields in {
        "typed": {"float_val": [1.0, 2.0], "shape": [5]},
        "none": {"shape": [3]},
        "half": {"half_val": [15360], "dtype": 19, "shape": [2, 2]},
        "text": {"string_val": [b"a", b"\xff"], "dtype": 7, "shape": [2]},
    }.items():
        node = graph_def.node.add(name=name, op="Const")
        dtype = fields.get("dtype", 1)
        node.attr["dtype"].type = node.attr["value"].tensor.dtype = dtype
        tensor = node.attr["value"].tensor
        for size in fields.pop("shape"):
            tensor.tensor_shape.dim.add(size=size)
        fields.pop("dtype", None)
        for key, values in fields.items():
            getattr(tensor, key).extend(values)
    return bytes(graph_def.SerializeToString() + field(99, b"later"))


def test_everything_is_written_back(tmp_path: Path) -> None:
    data = everything()
    graph = read_graph(data)
    assert same_message(written(graph, tmp_path), data)
    assert GRAPH_RECORDS.of(graph)["versions"]["producer"] == 1882
    typed = constant_of(graph.ops["typed"].output)
    assert typed is not None
    assert typed.tolist() == [1.0, 2.0, 2.0, 2.0, 2.0]
    for suffix in (".ampb", ".yaml", ".amanda"):
        path = tmp_path / f"model{suffix}"
        amanda.save(graph, path)
        assert same_message(written(amanda.load(path), tmp_path), data), suffix


def test_text_format_refuses_to_lose_fields(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"loses unknown fields[\s\S]*model\.pbtxt"):
        written(read_graph(everything()), tmp_path, ".pbtxt")
    (tmp_path / "bad.pbtxt").write_text("node { name: 3 }")
    with pytest.raises(
        FormatError, match=r"not a GraphDef in text format[\s\S]*bad\.pbtxt"
    ):
        Format().read(tmp_path / "bad.pbtxt")


def test_a_changed_graph_is_written_as_it_is_now(tmp_path: Path) -> None:
    graph = read_graph(everything())
    graph.parameters[0].type = TensorType("float32", [2])
    graph.ops["typed"].attrs["value"] = Tensor.of([7.0, 8.0, 9.0], "float32")
    graph.ops["text"].attrs["value"] = Tensor.of(["b", "c", "d"])
    again = read_graph(written(graph, tmp_path))
    assert again.parameters[0].type == TensorType("float32", [2])
    assert constant_of(again.ops["typed"].output).tolist() == [7.0, 8.0, 9.0]  # type: ignore[union-attr]
    assert constant_of(again.ops["text"].output).tolist() == [b"b", b"c", b"d"]  # type: ignore[union-attr]


def test_functions_are_read_and_written(tmp_path: Path, newest: Dictionary) -> None:
    tf = pytest.importorskip("tensorflow", reason="needs TensorFlow, to make graphs")

    @tf.function  # type: ignore[untyped-decorator]
    def call(x: Any, count: Any) -> Any:
        _, y = tf.while_loop(
            lambda i, _: i < count, lambda i, a: (i + 1, a * 2.0), [0, x]
        )
        parts = tf.split(y, 3, axis=0)
        z = tf.cond(tf.reduce_sum(y) > 0, lambda: parts[1], lambda: parts[2])
        return z, tf.unique_with_counts(tf.cast(y, tf.int32))

    specs = tf.TensorSpec([3], tf.float32), tf.TensorSpec([], tf.int32)
    data = call.get_concrete_function(*specs).graph.as_graph_def(add_shapes=True)
    graph = Format().read(data)
    assert len(graph.functions) == 4
    assert newest.validate(graph) == []
    assert graph.check() == []
    assert same_message(written(graph, tmp_path), data.SerializeToString())
    body = next(f for name, f in graph.functions.items() if "while_body" in name)
    assert [port.name for port in body.outputs][2] == "while_identity_2"
    for function in graph.functions.values():  # named by hand from now on
        del function.attrs[GRAPH_RECORDS.key]
        for each in (*function.parameters, *function.outputs):
            each.name = f"{each.name}_new"
    again = read_graph(written(graph, tmp_path))
    first = again.functions[body.name or ""].parameters[0]
    assert (first.name or "").endswith("_new")


def test_what_no_graphdef_can_hold(tmp_path: Path) -> None:
    graph = Graph(amanda.namespace("tensorflow").name)
    graph.add("Neg", [graph.parameter(name="x")], {"T": {"strange": 1}}, name="y")
    with pytest.raises(FormatError) as caught:
        written(graph, tmp_path)
    assert caught.value.problems == (
        "graph (unnamed): an input without a name or an element type",
        "Neg 'y': TensorFlow has no attribute values of this type (dict)",
    )


def test_inputs_and_results_are_nodes(tmp_path: Path) -> None:
    graph = Graph(amanda.namespace("tensorflow").name)
    x = graph.parameter(amanda.parse_type("float32[n, 2]"), "x")
    y = graph.add("Neg", [x], {"T": DType("float32")}, name="neg").output
    y.type = x.type
    graph.result(y, "y")
    told = CLASSES["GraphDef"].FromString(written(graph, tmp_path))
    assert [(n.name, n.op, list(n.input)) for n in told.node] == [
        ("x", "Placeholder", []), ("neg", "Neg", ["x"]), ("y", "Identity", ["neg"])
    ]  # fmt: skip


def test_a_nested_graph_is_refused_with_the_way_out(tmp_path: Path) -> None:
    graph = Graph(amanda.namespace("tensorflow").name)
    graph.add_graph(Graph(name="block"))
    with pytest.raises(FormatError, match=r"'block'.*improve\(graph, \"inline\"\)"):
        written(graph, tmp_path)


def test_control_inputs_of_functions_may_be_arguments(tmp_path: Path) -> None:
    """As gradient functions of TensorFlow have them; they order nothing."""
    text = """
    node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
    node { name: "y" op: "twice" input: "x" }
    library { function {
      signature { name: "twice" input_arg { name: "a" type: DT_FLOAT }
                  output_arg { name: "b" type: DT_FLOAT } }
      node_def { name: "sum" op: "AddV2" input: "a" input: "a" input: "^a"
                 attr { key: "T" value { type: DT_FLOAT } } }
      ret { key: "b" value: "sum:z:0" } } }
    """
    (tmp_path / "graph.pbtxt").write_text(text)
    graph = amanda.load(tmp_path / "graph.pbtxt")
    amanda.save(graph, tmp_path / "again.pbtxt")
    assert '"^a"' in (tmp_path / "again.pbtxt").read_text()
    graph.result(graph.ops["y"].output)
    [y] = amanda.run(amanda.convert(graph, "std"), [3.0], backend="numpy").values()
    assert y == 6


def test_the_place_of_an_error_in_a_small_attribute_is_that_of_the_file() -> None:
    shape = field(7, field(2, b"\x0a\xff"))  # the size of a dim beyond its message
    entry = field(5, field(1, b"shape") + field(2, shape))
    node = field(1, b"x" * 100) + field(2, b"Placeholder") + entry
    with pytest.raises(FormatError) as caught:
        Format().read(field(1, node))
    place = int(str(caught.value.where).split()[-1])
    assert place > 100
