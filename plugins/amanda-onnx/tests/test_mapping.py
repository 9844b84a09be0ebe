"""The mapping `onnx-std`: results through the hub, and back to every opset."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import amanda
from amanda.errors import ConversionError
from amanda.testing import MappingSample, MappingSuite
from amanda_onnx.mapping import MAPPING

NEWEST = 26
KINDS = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64,
         "bool": TensorProto.BOOL}  # fmt: skip


def model(nodes, inputs, outputs=("y",), opset=18, weights=(), shapes=None):
    """A model of nodes; `inputs` are arrays by name, whose dims become symbols."""
    infos = [
        helper.make_tensor_value_info(
            name,
            KINDS[str(value.dtype)],
            (shapes or {}).get(name, _dims(name, value)),
        )
        for name, value in inputs.items()
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        infos,
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [onnx.numpy_helper.from_array(v, k) for k, v in weights],
    )
    imports = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def _dims(name, value):
    """Symbols, but of small integers: how many there are decides the rank."""
    if value.dtype == np.int64:
        return value.shape
    return [f"{name}{i}" for i in range(value.ndim)]


def run(made, inputs):
    graph = amanda.load(made)
    return list(amanda.run(graph, inputs, backend="numpy").values())


def agrees(made, inputs):
    """The hub set gives what the reference gives, before and after a round trip."""
    expected = ReferenceEvaluator(made).run(None, inputs)
    graph = amanda.load(made)
    back = amanda.convert(amanda.convert(graph, "std"), graph.namespace)
    again = onnx.load_from_string(_bytes(back))
    others = [run(made, inputs), ReferenceEvaluator(again).run(None, inputs)]
    for found in others:
        for have, want in zip(found, expected, strict=True):
            assert have.dtype == want.dtype
            assert have.shape == want.shape
            np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-6)
    return again


def _bytes(graph):
    from amanda_onnx.format import Format

    return Format().dumps(graph)


def ints(*values):
    return np.array(values, "int64")


X = np.linspace(-2, 3, 24, dtype="float32").reshape(2, 3, 4)


def node(type, *inputs, outputs=("y",), **attrs):
    return helper.make_node(type, list(inputs), list(outputs), **attrs)


SAME_COUNT = {
    "gemm": ([node("Gemm", "m", "w", "b", transB=1)],
             {"m": X[0]}, [("w", X[1]), ("b", X[0, :, 0])]),
    "gemm without a bias": ([node("Gemm", "m", "w", transB=1)],
                            {"m": X[0]}, [("w", X[1])]),
    "reshape": ([node("Reshape", "x", "s")], {"x": X, "s": ints(0, -1)}, []),
    "allowzero": ([node("Reshape", "x", "s", allowzero=1)],
                  {"x": X[:0], "s": ints(3, 0)}, []),
    "expand": ([node("Expand", "x", "s")], {"x": X[:1], "s": ints(5, 1, 1)}, []),
    "part of a shape": ([node("Shape", "x", start=1)], {"x": X}, []),
    "reduction": ([node("ReduceL2", "x", "a", keepdims=0)],
                  {"x": X}, [("a", ints(-1))]),
    "slice": ([node("Slice", "x", "b", "e", "a", "s")],
              {"x": X, "b": ints(-1), "e": ints(-99), "a": ints(2), "s": ints(-2)}, []),
    "split": ([node("Split", "x", outputs=("y", "z"), axis=1, num_outputs=2)],
              {"x": X}, []),
    "pad": ([node("Pad", "x", "p")], {"x": X, "p": ints(0, 1, 0, 0, 0, 2)}, []),
    "layer norm": ([node("LayerNormalization", "x", "s", "b")],
                   {"x": X}, [("s", X[0, 0]), ("b", X[0, 1])]),
    "sizes": ([node("Resize", "x", "", "", "n", mode="linear")],
              {"x": X[None]}, [("n", ints(1, 2, 6, 8))]),
    "clip": ([node("Clip", "x", "l")], {"x": X}, [("l", np.float32(0.5).reshape(()))]),
    "cast": ([node("Cast", "x", to=TensorProto.INT64)], {"x": X}, []),
    "softmax": ([node("Softmax", "x", axis=1)], {"x": X}, []),
    "top": ([node("TopK", "x", "k", outputs=("y", "z"))],
            {"x": X, "k": ints(2)}, []),
    "where": ([node("Where", "c", "x", "x")], {"c": X > 0, "x": X}, []),
}  # fmt: skip


@pytest.mark.parametrize("case", SAME_COUNT)
def test_one_op_comes_back_as_one_op(case):
    nodes, inputs, weights = SAME_COUNT[case]
    outputs = nodes[-1].output
    made = model(nodes, inputs, outputs, weights=weights)
    if case in ("sizes", "layer norm"):
        shapes = {"x": list(inputs["x"].shape)}
        made = model(nodes, inputs, outputs, weights=weights, shapes=shapes)
    again = agrees(made, inputs)
    assert [n.op_type for n in again.graph.node] == [n.op_type for n in nodes]


def test_shape_operands_follow_the_value_of_each_run():
    made = model(
        [node("Expand", "x", "s", outputs=("e",)), node("Reshape", "e", "t")],
        {"x": X[:1], "s": ints(1, 1, 1), "t": ints(1)},
        shapes={"t": ["t0"]},
    )
    graph = amanda.load(made)
    compiled = amanda.compile(graph, "numpy")
    for s, t in ((ints(2, 1, 4), ints(4, 6)), (ints(5, 3, 1), ints(-1))):
        (found,) = compiled({"x": X[:1], "s": s, "t": t}).values()
        want = np.broadcast_to(X[:1], np.broadcast_shapes((1, 3, 4), s)).reshape(t)
        np.testing.assert_array_equal(found, want)


def branch(name, type):
    made = [node(type, "x", outputs=(name,))]
    return helper.make_graph(made, name, [], [onnx.ValueInfoProto(name=name)])


def test_branches_read_values_of_the_graph_around_them():
    nodes = [node("If", "c", then_branch=branch("t", "Relu"),
                  else_branch=branch("e", "Neg"))]  # fmt: skip
    for c in (True, False):
        inputs = {"c": np.array(c), "x": X}
        agrees(model(nodes, inputs), inputs)


def test_a_loop_carries_and_scans():
    body = helper.make_graph(
        [
            node("Add", "v", "v", outputs=("w",)),
            node("Identity", "c", outputs=("d",)),
            node("ReduceSum", "w", outputs=("r",), keepdims=0),
            node("Reshape", "r", "one", outputs=("s",)),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("d", TensorProto.BOOL, []),
            helper.make_tensor_value_info("w", TensorProto.FLOAT, None),
            helper.make_tensor_value_info("s", TensorProto.FLOAT, [1]),
        ],
        [onnx.numpy_helper.from_array(ints(1), "one")],
    )
    nodes = [node("Loop", "n", "c", "x", outputs=("y", "z"), body=body)]
    inputs = {"n": np.array(3), "c": np.array(True), "x": X}
    agrees(model(nodes, inputs, ("y", "z")), inputs)


# -- versions ----------------------------------------------------------------------


@pytest.mark.parametrize("opset", range(7, NEWEST + 1))
def test_to_every_opset(opset):
    nodes = [
        node("Unsqueeze", "x", "a", outputs=("u",)),
        node("ReduceMax", "u", "b", outputs=("r",), keepdims=0),
        node("Softmax", "r", axis=-1, outputs=("s",)),
        node("Slice", "s", "p", "q", "a", outputs=("t",)),
        node("Clip", "t", "l", outputs=("v",)),
        node("Squeeze", "v", "a"),
    ]
    weights = [("a", ints(0)), ("b", ints(-1)), ("p", ints(0)), ("q", ints(1)),
               ("l", np.float32(0.25).reshape(()))]  # fmt: skip
    made = model(nodes, {"x": X}, weights=weights)
    want = ReferenceEvaluator(made).run(None, {"x": X})[0]
    # static dims: an old Softmax is told its axes by the rank
    graph = amanda.convert(amanda.load(made), "std")
    back = amanda.convert(graph, f"onnx@{opset}")
    again = onnx.load_from_string(_bytes(back))
    onnx.checker.check_model(again)
    assert again.opset_import[0].version == opset
    (found,) = run(again, {"x": X})
    np.testing.assert_allclose(found, want, rtol=1e-6)


def test_what_an_opset_lacks_is_decomposed():
    nodes = [
        node("Gelu", "x", outputs=("g",)),
        node("LayerNormalization", "g", "s", "b"),
    ]
    made = model(nodes, {"x": X}, opset=20, weights=[("s", X[0, 0]), ("b", X[0, 1])])
    std = amanda.convert(amanda.load(made), "std")
    for opset, has in ((20, {"Gelu", "LayerNormalization"}), (17, set()), (13, set())):
        back = amanda.convert(std, f"onnx@{opset}")
        types = {op.type for op in back}
        assert has <= types
        if opset == 13:
            assert not types & {"Gelu", "LayerNormalization"}
        again = onnx.load_from_string(_bytes(back))
        onnx.checker.check_model(again)
        (found,) = ReferenceEvaluator(again).run(None, {"x": X})
        np.testing.assert_allclose(found, run(made, {"x": X})[0], rtol=1e-4, atol=1e-5)


def test_every_gap_is_told_at_once():
    nodes = [
        node("Unheard", "x", outputs=("d",)),
        node("If", "c", then_branch=branch("t", "GlobalLpPool"),
             else_branch=branch("e", "Unseen")),
    ]  # fmt: skip
    made = model(nodes, {"x": X, "c": np.array(True)})
    with pytest.raises(ConversionError) as caught:
        amanda.convert(amanda.load(made), "std")
    assert {gap.op for gap in caught.value.gaps} == {"Unheard", "Unseen"}


def test_nothing_is_dropped_silently():
    made = model([node("Relu", "x", strange=3)], {"x": X})
    with pytest.raises(ConversionError, match="strange"):
        amanda.convert(amanda.load(made), "std")


def test_weights_are_shared():
    made = model([node("Add", "x", "w")], {"x": X}, weights=[("w", X)])
    graph = amanda.load(made)
    back = amanda.convert(amanda.convert(graph, "std"), graph.namespace)
    tensors = [
        next(op.attrs["value"] for op in g if op.type == "constant")
        for g in (graph, back)
    ]
    assert tensors[0] is tensors[1]


def test_rules_and_functions():
    rules = MAPPING.rules
    assert MAPPING.rules is rules
    assert len(rules.rows) >= 155
    assert len(rules.functions) >= 104


class TestMapping(MappingSuite):
    distribution = "amanda-onnx"
    mapping = "onnx-std"

    def samples(self):
        made = model(
            [node("Relu", "x", outputs=("r",)), node("Softmax", "r")], {"x": X}
        )

        def inward():
            return MappingSample(amanda.load(made), "amanda/std/1")

        def outward():
            graph = amanda.convert(amanda.load(made), "std")
            return MappingSample(graph, "amanda/onnx/13")

        return {"inward": inward, "outward": outward}


@pytest.mark.parametrize("opset", [7, 9, 10, 12, 13])
def test_attributes_of_later_opsets_are_left_out(opset):
    nodes = [
        node("MaxPool", "x", outputs=("m",), kernel_shape=[2], dilations=[1]),
        node("AveragePool", "m", outputs=("a",), kernel_shape=[2]),
        node("ArgMax", "a", axis=1),
    ]
    made = model(nodes, {"x": X}, opset=19)
    back = amanda.convert(amanda.convert(amanda.load(made), "std"), f"onnx@{opset}")
    onnx.checker.check_model(onnx.load_from_string(_bytes(back)))
    again = onnx.load_from_string(_bytes(back))
    assert again.ir_version < 8  # which goes with the opset
    np.testing.assert_array_equal(run(again, {"x": X}), run(made, {"x": X}))


def test_lenses_hold_their_laws():
    from random import Random

    names = ("unless_ones",)
    for lens in (MAPPING.rules.lenses[name] for name in names):
        for seed in range(20):
            (value,) = lens.draw(Random(seed))
            there = lens.forth(value)
            assert lens.forth(lens.back(there)) == there


@amanda.function
def sorted_rows(x: float32[m, n]):  # noqa: F821  names of dims
    from amanda_std import ops

    return {"values": ops.sort(x, axis=0), "order": ops.argsort(x, descending=True)}


def test_sorting_of_as_many_elements_as_there_are():
    made = onnx.load_from_string(_bytes(amanda.convert(sorted_rows.graph(), "onnx@18")))
    for rows, columns in ((4, 3), (2, 7)):
        x = np.random.default_rng(rows).normal(size=(rows, columns)).astype("float32")
        values, order = ReferenceEvaluator(made).run(None, {"x": x})
        np.testing.assert_array_equal(values, np.sort(x, 0))
        np.testing.assert_array_equal(order, np.argsort(-x, 1))
