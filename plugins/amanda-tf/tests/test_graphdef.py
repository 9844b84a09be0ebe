"""Frozen graphs, read by hand, against what TensorFlow itself reads."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import amanda
from amanda.dictionary import Dictionary
from amanda.errors import AmandaError, FormatError
from amanda.formatkit.wire import encode_field as field
from amanda.formatkit.wire import encode_key, encode_varint
from amanda.graph import CORE, Graph
from amanda.mapping import constant_of
from amanda.tensors import FunctionRef, Tensor
from amanda.types import DType, Shape
from amanda_tf.graphdef import read_graph


@pytest.fixture(scope="module")
def newest() -> Dictionary:
    found: Any = amanda.namespace("tensorflow")
    return found  # type: ignore[no-any-return]


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


def test_graphs_are_what_tensorflow_reads(newest: Dictionary) -> None:
    pytest.importorskip("tensorflow", reason="needs TensorFlow, to compare with")
    from tensorflow.core.framework import graph_pb2

    counted = 0
    for name, data in frozen():
        graph = read_graph(data, newest)
        told = graph_pb2.GraphDef.FromString(data)
        assert newest.validate(graph) == [], name
        assert graph.check() == [], name
        assert len(graph) == len(told.node)
        for node in told.node:
            _same_node(graph, node)
            counted += 1
    assert counted > 14_000


def _same_node(graph: Graph, node: Any) -> None:
    op = graph.ops[node.name]
    inputs = [text for text in node.input if not text.startswith("^")]
    read = [(v.op.name, v.index) for v in op.inputs if v is not None]
    assert read == [
        (t.partition(":")[0], int(t.partition(":")[2] or 0)) for t in inputs
    ]
    waits = {text[1:] for text in node.input if text.startswith("^")}
    assert {each.name for each in op.control_inputs} == waits
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


def test_what_has_no_place_in_a_graph_is_kept(newest: Dictionary) -> None:
    more = text(4, "/device:CPU:0") + field(6, text(1, "whence"))
    data = PLACEHOLDER + node("y", "Neg", "x", more=more, T=FLOAT)
    graph = read_graph(data, newest)
    assert graph.ops["y"].attrs == {
        "T": DType("float32"),
        "_node:device": "/device:CPU:0",
        "_node:rest": field(6, text(1, "whence")),
    }
    assert newest.validate(graph) == []


def test_a_constant_stays_where_it_is(newest: Dictionary) -> None:
    dims = field(2, field(2, number(1, 2)))
    tensor = number(1, 3) + dims + field(4, (5).to_bytes(4, "little") * 2)
    data = node("c", "Const", dtype=number(6, 3), value=field(8, tensor),
                _class=text(2, "loc:@a"))  # fmt: skip
    op = read_graph(data, newest).ops["c"]
    assert op.own_namespace == CORE
    held = constant_of(op.output)
    assert held is not None
    assert held.tolist() == [5, 5]
    assert str(op.output.type) == "int32[2] = [5, 5]"
    assert op.attrs["_class"] == "loc:@a"


def test_one_number_stands_for_all(newest: Dictionary) -> None:
    """However large the claim: nothing is made of it before somebody asks."""
    dims = field(2, field(2, number(1, 1 << 40)))
    tensor = number(1, 9) + dims + number(10, 7)
    data = node("c", "Const", dtype=number(6, 9), value=field(8, tensor))
    held = constant_of(read_graph(data, newest).ops["c"].output)
    assert held is not None
    assert held.is_splat
    assert held.shape == (1 << 40,)


def test_values_of_attributes(newest: Dictionary) -> None:
    shape = field(2, number(1, 3)) + field(2, number(1, (1 << 64) - 1))
    told = node(
        "a", "NoSuchOp", i=number(3, (1 << 64) - 4), b=number(5, 1),
        f=encode_key(4, 5) + b"\x00\x00\xc0\x3f", s=text(2, "word"),
        raw=field(2, b"\xff"), shape=field(7, shape), fn=field(10, text(1, "body")),
        list=field(1, field(3, b"\x01\x02") + number(3, 3)), none=b"",
    )  # fmt: skip
    attrs = read_graph(told, newest).ops["a"].attrs
    assert attrs["shape"].dims[0] == 3
    assert not isinstance(attrs.pop("shape").dims[1], int)
    assert attrs == {
        "i": -4, "b": True, "f": 1.5, "s": "word", "raw": b"\xff",
        "fn": FunctionRef("body"), "list": [1, 2, 3], "none": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (node("a", "Neg", "x"), "'a' reads 'x', which is not there"),
        (PLACEHOLDER + node("a", "Neg", "x:4"), "'a' reads what 'x' does not give"),
        (PLACEHOLDER + node("a", "Neg", "x:q"), "this is no output of a node"),
        (PLACEHOLDER * 2, "two nodes of one name"),
        (node("a", ""), "a node without an op"),
        (node("a", "b", c=number(6, 88)), "no element type of TensorFlow"),
        (node("a", "b", c=text(6, "x")), "is written in another way"),
        (field(1, b"\x0a\x02\xff\xfe"), "a text is not UTF-8"),
        (b"\x0a\x7f", "reaches beyond the end"),
        (field(2, field(1, text(1, "f"))), "a graph with functions"),
        (node("a", "Const", value=field(8, number(1, 1) + field(4, b"abc"))),
         "not as long as its dims say"),
        (node("a", "Const", value=field(8, number(1, 7) + field(2, field(
            2, number(1, 1 << 40))))), "more texts than it has"),
    ],
)  # fmt: skip
def test_what_is_no_graph(data: bytes, why: str, newest: Dictionary) -> None:
    with pytest.raises(FormatError, match=why):
        read_graph(data, newest)


def test_cut_and_damaged_graphs_are_refused_or_read(newest: Dictionary) -> None:
    whole = PLACEHOLDER + node("y", "Neg", "x", "^x", T=FLOAT)
    for at in range(len(whole)):
        for data in (whole[:at], whole[:at] + b"\xff" + whole[at + 1 :]):
            with suppress(AmandaError):
                assert read_graph(data, newest).check() == []
