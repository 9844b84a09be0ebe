"""What conversions write is valid at its opset, by onnx's checker and by `validate`.

Every op of the hub is converted to several opsets, as its samples have it and in
bfloat16. What an opset cannot express is a gap, which the plan shows.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import amanda
from amanda.errors import AmandaError, ConversionError, InvalidTypeError
from amanda.types import DType, TensorType
from amanda_onnx.format import Format
from amanda_std import ops, trace
from amanda_std.backends import op_samples

CODEC = Format()
STD = amanda.namespace("std")
PURE = [name for name in STD if "stateful" not in STD[name].traits]
FIRST_SAMPLES = op_samples(PURE, most=1)
ALL_SAMPLES = op_samples(PURE, most=10_000)


def sample_graphs(samples=FIRST_SAMPLES):
    for make in samples.values():
        try:
            yield make().graph
        except InvalidTypeError:
            continue  # of arguments that no constant holds, such as a map


OPSETS = [9, 13, 18, 23]
FLOAT = DType("float32")


def infers_wrong_types(graph, opset):
    """Whether onnx infers types of this op that its own reference contradicts."""
    return any(
        # a last window that starts in the padding is left out
        (op.type in ("max_pool", "avg_pool") and opset < 22 and "ceil" in op.attrs)
        # its function is expanded without the default of `axes`
        or op.type == "mean_variance_norm"
        for op in graph
    )


def expect_valid(graph, opset, *, full_check=False):
    """Convert and write a graph; False for a gap that the plan shows."""
    name = f"onnx@{opset}"
    try:
        made = amanda.convert(graph, name)
    except ConversionError:
        assert amanda.plan(graph, name).gaps
        return False
    problems = amanda.namespace(name).validate(made)
    assert problems == [], [str(problem) for problem in problems]
    raw = CODEC.dumps(made)
    shapes = [getattr(value.type, "shape", None) for value in made.results]
    if all(shape is None or shape.has_rank for shape in shapes):
        onnx.checker.check_model(raw, full_check=full_check)
    return True


REST = [pytest.param(part, marks=pytest.mark.scale) for part in range(1, 8)]


@pytest.mark.most_cases(1)
@pytest.mark.parametrize("part", [0, *REST])
@pytest.mark.parametrize("opset", [18, 28])
def test_types_of_every_sample(opset, part):
    samples = dict(list(ALL_SAMPLES.items())[part::8])
    counts = Counter(
        expect_valid(graph, opset, full_check=not infers_wrong_types(graph, opset))
        for graph in sample_graphs(samples)
    )
    assert counts[True] > 350, counts


@pytest.mark.most_cases(1)
@pytest.mark.parametrize("opset", OPSETS)
def test_ops_of_the_hub(opset):
    counts = Counter(expect_valid(graph, opset) for graph in sample_graphs())
    assert counts[True] > {9: 200, 13: 245, 18: 245, 23: 245}[opset], counts


@pytest.mark.most_cases(1)
@pytest.mark.parametrize("opset", [13, 18, 23])
def test_ops_of_the_hub_in_bfloat16(opset):
    """Opsets before 22 have no convolutions of bfloat16, and those before 13 no ops."""
    counts = Counter()
    for graph in sample_graphs():
        types = [port.type for port in graph.parameters]
        if not any(each.dtype == FLOAT for each in types):
            continue
        for port in graph.parameters:
            if port.type.dtype == FLOAT:
                port.type = TensorType("bfloat16", port.type.shape)
        for op in graph:
            for port in op.outputs:
                if not op.is_constant:
                    port.type = None
        try:
            amanda.improve(graph, "infer")
        except AmandaError:
            continue  # the hub has no such op of bfloat16
        counts[expect_valid(graph, opset)] += 1
    assert counts[True] > {13: 60, 18: 75, 23: 90}[opset], counts


def test_a_convolution_of_bfloat16_is_a_gap_where_the_opset_lacks_it():
    graph = amanda.Graph("amanda/std/1")
    x, w = (
        graph.parameter(amanda.parse_type(f"bfloat16[1, 1, {n}, {n}]")) for n in (4, 3)
    )
    conv = graph.add("conv", [x, w])
    conv.output.type = amanda.parse_type("bfloat16[1, 1, 2, 2]")
    graph.result(conv.output)
    (gap,) = amanda.plan(graph, "onnx@18").gaps
    assert gap.op == "conv"
    assert "bf16" in " ".join(gap.why)
    assert amanda.plan(graph, "onnx@22").gaps == ()


def model(nodes, inputs, outputs):
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "g", [info(*row) for row in inputs], [info(*row) for row in outputs]
    )
    imports = [helper.make_opsetid("", 18)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9)


RANDOM = {
    "normal": ("RandomNormalLike", {"dtype": 1}, 1, ["n", 3]),
    "uniform": ("RandomUniformLike", {"dtype": 1}, 1, ["n", 3]),
    "bernoulli": ("Bernoulli", {}, 1, ["n", 3]),
    "multinomial": ("Multinomial", {"sample_size": 4}, 6, ["n", 4]),
}


@pytest.mark.parametrize("opset", [13, 18])
@pytest.mark.parametrize("name", RANDOM)
def test_random_numbers_of_a_symbolic_shape(name, opset):
    kind, attrs, code, shape = RANDOM[name]
    proto = model(
        [helper.make_node(kind, ["x"], ["y"], **attrs)],
        [("x", 1, ["n", 3])],
        [("y", code, shape)],
    )
    hub = amanda.convert(CODEC.read(proto), "std")
    assert expect_valid(hub, opset)
    again = amanda.convert(hub, f"onnx@{opset}")
    assert str(again.results[0].type).endswith(f"[{', '.join(map(str, shape))}]")
    x = np.full((5, 3), 0.5, "f")
    (found,) = amanda.run(again, [x], backend="onnxruntime").values()
    assert found.shape == (5, shape[1])


def test_the_declared_rank_of_a_result_stays():
    """Branches of ranks 1 and 2; the model declares what the caller knows."""
    bodies = {}
    for key, node in (
        ("then_branch", helper.make_node("Squeeze", ["x", "axis"], ["t"])),
        ("else_branch", helper.make_node("Identity", ["x"], ["t"])),
    ):
        output = helper.make_empty_tensor_value_info("t")
        output.type.tensor_type.elem_type = TensorProto.FLOAT
        bodies[key] = helper.make_graph([node], key, [], [output])
    axis = numpy_helper.from_array(np.array([0]))
    proto = model(
        [helper.make_node("Constant", [], ["axis"], value=axis),
         helper.make_node("If", ["flag"], ["y"], **bodies)],
        [("x", 1, ["a", "b"]), ("flag", 9, [])],
        [("y", 1, ["m", "n"])],
    )  # fmt: skip
    hub = amanda.convert(CODEC.read(proto), "std")
    assert not hub.results[0].type.shape.has_rank
    raw = CODEC.dumps(amanda.convert(hub, "onnx@18"))
    onnx.checker.check_model(raw)
    dims = onnx.load_from_string(raw).graph.output[0].type.tensor_type.shape.dim
    assert [dim.dim_param for dim in dims] == ["m", "n"]


def largest(x, pairs):
    return ops.topk(x, ops.gather_nd(pairs, np.zeros(2, "int64")))[0]


COMPUTED = {"pad": ops.pad, "topk": largest}


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("name", COMPUTED)
def test_shape_arguments_of_any_integers(name, dtype):
    """Ops of ONNX take int64."""
    types = [amanda.parse_type("float32[3, 4]"), amanda.parse_type(f"{dtype}[2, 2]")]
    graph = trace(COMPUTED[name], types)
    feeds = [np.arange(12, dtype="f").reshape(3, 4), np.array([[1, 0], [2, 3]], dtype)]
    [expected] = amanda.run(graph, feeds, backend="numpy").values()
    made = amanda.convert(graph, "onnx@18")
    onnx.checker.check_model(CODEC.dumps(made), full_check=True)
    [found] = amanda.run(made, feeds, backend="onnxruntime").values()
    np.testing.assert_array_equal(found, expected)
