"""Tensors of every dtype, in every field that may hold them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from amanda_onnx.format import Format
from amanda_onnx.format.element_types import DTYPES, FIELDS

CODEC = Format()
NUMERIC = [code for code, dtype in DTYPES.items() if dtype.name != "string"]
SIZES = [(), (0,), (3,), (5, 7), (3000,)]


def carried(tensor, same_model):
    """The tensor as we read it, after a check that it is written as it was."""
    graph = helper.make_graph([], "g", [], [], [tensor])
    model = helper.make_model(graph)
    read = CODEC.read(model.SerializeToString())
    written = onnx.load_model_from_string(CODEC.dumps(read))
    assert same_model(model, written)
    return read.ops[0].attrs["value"]


def array_of(code, shape):
    dtype = DTYPES[code]
    size = int(np.prod(shape))
    values = np.random.default_rng(code).integers(0, 256, size * 16, "u1")
    if dtype.name in ("float32", "complex64"):  # no NaN, which Python floats change
        return values[:size].astype(dtype.numpy).reshape(shape)
    if dtype.name == "bool":
        return (values[:size] & 1).astype("?").reshape(shape)
    if dtype.bits < 8:
        codes = values[:size] & ((1 << dtype.bits) - 1)
        return codes.view(dtype.numpy).reshape(shape)
    raw = values[: size * dtype.bits // 8].tobytes()
    return np.frombuffer(raw, dtype.numpy).reshape(shape)


def same_bits(one, other):
    return one.dtype == other.dtype and one.tobytes() == other.tobytes()


@pytest.mark.parametrize("code", NUMERIC)
@pytest.mark.parametrize("shape", SIZES, ids=str)
def test_raw_data(code, shape, same_model):
    array = array_of(code, shape)
    proto = numpy_helper.from_array(array, "w")
    tensor = carried(proto, same_model)
    assert tensor.dtype is DTYPES[code]
    assert same_bits(tensor.numpy(), numpy_helper.to_array(proto))


@pytest.mark.parametrize("code", NUMERIC)
@pytest.mark.parametrize("shape", SIZES, ids=str)
def test_fields_of_their_own(code, shape, same_model):
    proto = numpy_helper.from_array(array_of(code, shape), "w")
    want = numpy_helper.to_array(proto)
    field, raw = FIELDS[DTYPES[code]], proto.raw_data
    proto.ClearField("raw_data")
    getattr(proto, field).extend(_numbers(DTYPES[code], field, raw, want))
    tensor = carried(proto, same_model)
    assert same_bits(tensor.numpy(), want)
    assert same_bits(numpy_helper.to_array(proto), want)


def _numbers(dtype, field, raw, array):
    if dtype.bits == 6:  # one number for each element
        return array.reshape(-1).view("u1").tolist()
    if field in ("float_data", "double_data"):
        return np.frombuffer(raw, "f4" if field == "float_data" else "f8").tolist()
    if dtype.kind == "int" and dtype.bits >= 8:
        return array.reshape(-1).tolist()
    return np.frombuffer(raw, f"u{max(dtype.bits // 8, 1)}").tolist()


def test_texts(same_model):
    items = [b"a", "ä".encode(), b"\xff", b""]
    tensor = carried(helper.make_tensor("w", 8, [2, 2], items), same_model)
    assert tensor.tolist() == [items[:2], items[2:]]


def test_docs_and_properties(same_model):
    proto = numpy_helper.from_array(np.ones(2, "f"), "w")
    proto.doc_string = "weights"
    proto.metadata_props.add(key="a", value="b")
    graph = helper.make_graph([], "g", [], [], [proto])
    read = CODEC.read(helper.make_model(graph).SerializeToString())
    [written] = onnx.load_model_from_string(CODEC.dumps(read)).graph.initializer
    assert written.doc_string == "weights"
    assert [(p.key, p.value) for p in written.metadata_props] == [("a", "b")]
    assert same_bits(carried(proto, same_model).numpy(), np.ones(2, "f"))


def test_numbers_of_many_are_read_by_numpy_and_of_few_without():
    for count in (10, 10_000):
        values = np.arange(count) * 7919 - 10**6
        graph = helper.make_graph(
            [], "g", [], [], [helper.make_tensor("w", 7, [count], values.tolist())]
        )
        raw = helper.make_model(graph).SerializeToString()
        tensor = CODEC.read(raw).ops[0].attrs["value"]
        assert tensor.numpy().tolist() == values.tolist()
        assert ("lazy" in repr(tensor)) == (count > 10)


def test_weights_are_not_read_before_they_are_asked_for(tmp_path):
    path = tmp_path / "w.onnx"
    array = np.arange(3e6, dtype="f")
    graph = helper.make_graph([], "g", [], [], [numpy_helper.from_array(array, "w")])
    onnx.save(helper.make_model(graph), str(path))
    tensor = CODEC.read(path).ops[0].attrs["value"]
    assert "mapped" in repr(tensor)
    assert tensor.numpy().base is not None
    assert same_bits(tensor.numpy(), array)
