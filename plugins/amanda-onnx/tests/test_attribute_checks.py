"""Invalid attributes are reported, with the op, before it is mapped."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from onnx import TensorProto, ValueInfoProto, helper

import amanda
from amanda.dictionary import attribute_fault
from amanda.errors import ConversionError
from amanda.graph import Graph
from amanda.mapping.rules.checks import unread_inputs
from amanda.tensors import Tensor
from amanda.types import TensorType
from amanda_onnx.mapping import MAPPING
from amanda_onnx.mapping.attribute_checks import (
    ALLOWED_STRINGS,
    FLAGS,
    SPATIAL,
    allowed_strings,
    attribute_fault_of,
)
from amanda_onnx.mapping.op_checks import find_definition
from amanda_onnx.mapping.side import onnx_side
from amanda_std import ops, trace

STD = "amanda/std/1"
F, I = TensorProto.FLOAT, TensorProto.INT64  # noqa: E741
info = helper.make_tensor_value_info
X = np.arange(1, 4, dtype="f").reshape(1, 1, 3)
W = np.float32([[[1, 10, 100]]])


def model(type, inputs, domain="", opset=18, **attrs):
    """One op; inputs are arrays, or pairs of an element type and dims."""
    node = helper.make_node(type, list(inputs), ["y"], domain=domain, **attrs)
    ends = [
        info(name, *value)
        if isinstance(value, tuple)
        else info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in inputs.items()
    ]
    graph = helper.make_graph([node], "g", ends, [ValueInfoProto(name="y")])
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def refused(proto):
    with pytest.raises(ConversionError) as caught:
        amanda.convert(amanda.load(proto), STD)
    return str(caught.value)


# -- what is padded, beside onnxruntime ------------------------------------------------

PADDED = [
    {"auto_pad": word, **more}
    for word in ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
    for more in (
        {}, *({"output_shape": [n]} for n in (4, 5, 6, 7, 8, 9, 10)),
        {"output_shape": [1, 1, 6]}, {"output_shape": [6, 6]}, {"output_padding": [1]},
        {"output_padding": [1], "output_shape": [6]},
        {"output_padding": [1], "output_shape": [8]},
        {"pads": [1, 0]}, {"pads": [1, 0], "output_shape": [6]},
        {"pads": [1]}, {"strides": [2, 2]}, {"dilations": [1, 1]},
    )
]  # fmt: skip


@pytest.mark.parametrize("attrs", PADDED, ids=str)
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_a_transposed_convolution_is_that_of_onnxruntime_or_none(stride, attrs):
    """The same numbers where it has an answer; where it has none, neither have we."""
    runtime = pytest.importorskip("onnxruntime")
    feeds = {"x": X, "w": W}
    proto = model("ConvTranspose", feeds, **{"strides": [stride], **attrs})
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = runtime.InferenceSession(proto.SerializeToString(), options)
        (want,) = session.run(None, feeds)
    except Exception:  # noqa: BLE001  its errors have no common base
        assert "ConvTranspose" in refused(proto)
        return
    (found,) = amanda.run(amanda.load(proto), feeds, backend="numpy").values()
    np.testing.assert_array_equal(found, want)


# -- what is told ----------------------------------------------------------------------

CASES = {
    "pads of one side": (
        model("MaxPool", {"x": (F, [1, 1, 4, 4])}, kernel_shape=[2, 2], pads=[1, 1]),
        ("MaxPool, op #0", "pads=[1, 1]: 4 numbers for 2 axes expected"),
    ),
    "rank that only the window tells": (
        model("MaxPool", {"x": (F, None)}, kernel_shape=[2, 2], strides=[1]),
        ("strides=[1]: 2 numbers for 2 axes expected",),
    ),
    "pads of an unpooling": (
        model("MaxUnpool", {"x": (F, [1, 1, 2, 2]), "i": (I, [1, 1, 2, 2])},
              kernel_shape=[2, 2], pads=[0]),
        ("MaxUnpool", "pads=[0]: 4 numbers for 2 axes expected"),
    ),
    "pads of blocks": (
        model("Col2Im", {"x": (F, [1, 4, 1]), "s": (I, [2]), "b": (I, [2])},
              pads=[0, 0]),
        ("Col2Im", "pads=[0, 0]: 4 numbers for 2 axes expected"),
    ),
    "two paddings": (
        model("Conv", {"x": X, "w": W}, auto_pad="SAME_UPPER", pads=[1, 1]),
        ("pads=[1, 1]: none beside auto_pad='SAME_UPPER' expected",),
    ),
    "a kernel of other weights": (
        model("Conv", {"x": X, "w": W}, kernel_shape=[2]),
        ("kernel_shape=[2]: that of the weights, [3] expected",),
    ),
    "steps of nothing": (
        model("Conv", {"x": X, "w": W}, strides=[0]),
        ("strides has 0, expected 1 to 2147483647",),
    ),
    "a word": (
        model("RoiAlign", {"x": (F, [1, 1, 4, 4]), "r": (F, [1, 4]), "b": (I, [1])},
              mode="mean"),
        ("RoiAlign", "mode='mean': one of avg, max expected"),
    ),
    "a rule": (
        model("LinearAttention", dict.fromkeys("qkv", (F, [1, 2, 4])), opset=27,
              q_num_heads=1, kv_num_heads=1, update_rule="gate"),
        ("update_rule='gate': one of linear, gated, delta, gated_delta expected",),
    ),
    "a loss": (
        model("NegativeLogLikelihoodLoss", {"x": (F, [2, 3]), "t": (I, [2])},
              reduction="avg"),
        ("reduction='avg': one of none, sum, mean expected",),
    ),
    "a flag": (
        model("ReduceSum", {"x": X}, keepdims=2),
        ("ReduceSum", "keepdims=2: 0 or 1 expected"),
    ),
    "a size of a layer": (
        model("RNN", {"x": (F, [5, 1, 2]), "w": (F, [1, 3, 2]), "r": (F, [1, 3, 3])},
              hidden_size=4),
        ("hidden_size=4: that of the weights, 3, expected",),
    ),
    "activations": (
        model("LSTM", {"x": (F, [5, 1, 2]), "w": (F, [1, 12, 2]),
                       "r": (F, [1, 12, 3])}, activations=["Tanh"]),
        ("activations=['Tanh']: 3 names expected",),
    ),
    "one step for all": (
        model("Conv", {"x": X, "w": W}, strides=2),
        ("Conv, op #0", "strides is 2, not a list of ints"),
    ),
    "one window for all": (
        model("MaxPool", {"x": (F, [1, 1, 4, 4])}, kernel_shape=2),
        ("kernel_shape is 2, not a list of ints",),
    ),
    "one pad for all": (
        model("MaxPool", {"x": (F, [1, 1, 4, 4])}, kernel_shape=[2, 2], pads=1),
        ("pads is 1, not a list of ints",),
    ),
    "a kernel as a word": (
        model("Conv", {"x": (F, [1, 3, 5, 5]), "w": (F, [4, 3, 3, 3])},
              kernel_shape="33"),
        ("kernel_shape is '33', not a list of ints",),
    ),
    "steps as words": (
        model("Conv", {"x": (F, [1, 3, 5, 5]), "w": (F, [4, 3, 3, 3])},
              dilations=["a", "b"]),
        ("dilations is ['a', 'b'], not a list of ints",),
    ),
    "steps of an opset that has none": (
        model("MaxPool", {"x": (F, [1, 1, 4, 4])}, opset=1, kernel_shape=[2, 2],
              dilations="ab"),
        ("dilations is 'ab', not a list of ints",),
    ),
    "a kernel of another rank": (
        model("Conv", {"x": (F, [1, 3, 5, 5]), "w": (F, [4, 3, 3])},
              kernel_shape=[3, 3]),
        ("kernel_shape=[3, 3]: that of the weights, [3] expected",),
    ),
    "rows behind an axis without a step": (
        model("ConvTranspose", {"x": (F, None), "w": (F, None)}, strides=[2],
              output_padding=[0, 1]),
        ("output_padding=[0, 1]: 1 numbers for 1 axes expected",),
    ),
    "a number of activations": (
        model("LSTM", {"x": (F, [5, 1, 2]), "w": (F, [1, 12, 2]),
                       "r": (F, [1, 12, 3])}, activations=3),
        ("activations is 3, not a list of strings",),
    ),
    "a stage as a word": (
        model("Attention", dict.fromkeys("qkv", (F, [1, 2, 3, 4])), opset=23,
              qk_matmul_output_mode="x"),
        ("qk_matmul_output_mode is 'x', not an int",),
    ),
    "a flag as a word": (
        model("ReduceSum", {"x": X}, keepdims="yes"),
        ("keepdims='yes': 0 or 1 expected",),
    ),
    "a number for a word": (
        model("Gelu", {"x": X}, opset=20, approximate=1),
        ("approximate=1: one of none, tanh expected",),
    ),
    "an odd number of pads": (
        model("Pad", {"x": X}, opset=2, pads=[0, 0, 1]),
        ("pads=[0, 0, 1]: a begin and an end for each axis expected, got 3",),
    ),
    "n-grams": (
        model("TfIdfVectorizer", {"x": (I, [3])}, mode="TF", min_gram_length=1,
              max_gram_length=1, max_skip_count=0, ngram_counts=[0],
              ngram_indexes=[0], pool_int64s=[1, 2]),
        ("ngram_indexes=[0]: 2 indices expected, one for each n-gram",),
    ),
    "lists of nodes": (
        model("TreeEnsembleRegressor", {"x": (F, [1, 2])}, domain="ai.onnx.ml",
              n_targets=1, nodes_treeids=[0], nodes_nodeids=[0, 1],
              nodes_modes=["LEAF"], nodes_featureids=[0], nodes_truenodeids=[0],
              nodes_falsenodeids=[0], nodes_values=[0.0], target_treeids=[0],
              target_nodeids=[0], target_ids=[0], target_weights=[1.0]),
        ("lists of one length are expected", "nodes_nodeids of 2"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_cannot_be_is_told_with_op_attribute_and_value(name):
    proto, parts = CASES[name]
    told = refused(proto)
    for part in parts:
        assert part in told


# A value of each kind that files have; of those that are no number, one that is a list
KINDS = [0, 2, -1, 1.5, "x", "", b"\xff", [], [0], [2, 2], [0, -1, 2], [1.5], ["a"],
         ["a", "b"], Tensor.of(np.float32([1, 2]))]  # fmt: skip
OWN = {"strides", "pads", "dilations", "kernel_shape", "output_padding",
       "output_shape", "activations", "no_such_attribute"}  # fmt: skip


def known_ops():
    """Ops that some row of the tables is for, in each opset that changes one."""
    named = {*SPATIAL, "GRU", "LSTM", "RNN", "Attention", "Scan"}
    named |= {type for type, _ in ALLOWED_STRINGS if type}
    for opset in (1, 7, 8, 9, 13, 18, 23, 28):
        dictionary = amanda.namespace(f"amanda/onnx/{opset}", assume=True)
        for entry in dictionary.values():
            if entry.name in named or not FLAGS.isdisjoint(a.name for a in entry.attrs):
                yield opset, entry


def held_by(graph, entry, rank):
    """An op of an entry whose values have this rank, or of which nothing is known."""
    types = None if rank is None else TensorType("float32", [2] * rank)
    count = len([port for port in entry.inputs if not port.repeats])
    return graph.add(entry.name, [graph.parameter(types) for _ in range(count)])


def test_no_kind_of_attribute_makes_a_check_fail():
    """Each says what is wrong, or nothing: alone, and beside another of its kind."""
    told = 0
    for opset, entry in known_ops():
        known = {attr.name: attr for attr in entry.attrs}
        checked = find_definition(entry.name, f"amanda/onnx/{opset}")[1]
        for name, rank in product(
            {*known, *OWN} - {body.name for body in entry.bodies}, (None, 2, 4)
        ):
            op = held_by(Graph(), entry, rank)
            for value in KINDS:
                for more in ({}, {"strides": [2]}, {"kernel_shape": [2, 2]}):
                    beside = {**more, name: value}
                    op.attrs.clear()
                    op.attrs.update(beside)
                    why = attribute_fault_of(op, checked)
                    told += why is not None
                    assert why is None or any(key in why for key in beside)
                    if entry.name in SPATIAL and name in known:
                        assert why or attribute_fault(known[name], value) is None
    assert told > 1000


@pytest.mark.parametrize("op", [ops.lp_pool, ops.global_lp_pool])
@pytest.mark.parametrize("opset", [1, 2, 11, 26])
def test_a_norm_is_written_as_its_opset_has_it(op, opset):
    """A float first, an int from opset 2 on: a fraction has no LpPool then."""
    attrs = {"window": (2, 2)} if op is ops.lp_pool else {}
    for p in (1.0, 3.0, 2.5):
        types = [TensorType("float32", [1, 1, 4, 4])]
        graph = trace(lambda x, p=p: op(x, p=p, **attrs), types)
        made = MAPPING.conversion(graph, f"amanda/onnx/{opset}")
        found = [n.attrs["p"] for n in made.graph.walk() if n.type.endswith("LpPool")]
        if opset > 1 and p == 2.5:
            assert found == []
            continue
        assert [(type(value), value) for value in found] == [
            (float if opset == 1 else int, p)
        ]
        assert not MAPPING.conversion(made.graph, STD).report.gaps


def scan(**attrs):
    body = helper.make_graph(
        [helper.make_node("Identity", ["i"], ["o"])], "b",
        [info("i", F, [2])], [info("o", F, [2])],
    )  # fmt: skip
    return model("Scan", {"x": (F, [3, 2])}, body=body, num_scan_inputs=1, **attrs)


def test_axes_of_a_scan():
    told = refused(scan(scan_input_axes=[0, 0]))
    assert "scan_input_axes=[0, 0]: a number for each of 1 scan inputs expected" in told
    assert "axis" in refused(scan(scan_input_axes=[5]))


def test_all_of_a_graph_are_told_at_once_and_may_be_kept():
    nodes = [
        helper.make_node("Shape", ["x"], ["n"], name="fine"),
        helper.make_node("Gelu", ["x"], ["a"], name="first", approximate="tan"),
        helper.make_node("Unique", ["a"], ["y"], name="second", sorted=7),
    ]
    ends = [[info("x", F, [3])], [ValueInfoProto(name=n) for n in "ny"]]
    proto = helper.make_model(
        helper.make_graph(nodes, "g", *ends),
        opset_imports=[helper.make_opsetid("", 20)],
        ir_version=9,
    )
    told = refused(proto)
    assert "Gelu, op 'first': amanda/onnx/20: approximate='tan': one of none" in told
    assert "Unique, op 'second': amanda/onnx/20: sorted=7: 0 or 1 expected" in told
    graph = amanda.convert(amanda.load(proto), STD, keep_foreign=True)
    assert {op.type for op in graph} >= {"shape_of", "Gelu", "Unique"}


def test_the_tables_name_what_there_is():
    """Ops and attributes of some opset, and words that their defaults are among."""
    from onnx import defs

    schemas = [s for s in defs.get_all_schemas_with_history() if not s.domain]
    known = {(s.name, name): a for s in schemas for name, a in s.attributes.items()}
    assert set(SPATIAL) <= {type for type, _ in known}
    for type, name in ALLOWED_STRINGS:
        assert any(n == name and type in (t, "") for t, n in known), (type, name)
    for (type, name), attribute in known.items():
        words = allowed_strings(type, name)
        default = helper.get_attribute_value(attribute.default_value)
        if words and isinstance(default, bytes) and default:
            assert default.decode() in words, (type, name, default)


# -- what functions do not look at -----------------------------------------------------

UNREAD = {
    "accuracy_level": "how exact at least",
    "broadcast": "where it is 0, the shapes are the same",
    "chunk_size": "how, not what",
    "consumed_inputs": "whose memory may be written over",
    "fc3_expert_weight_bits": "of a third layer, which the function declines",
    "hidden_size": "that of the weights, or told above",
    "kernel_shape": "that of the weights, or told above",
    "multi_class": "ONNX leaves it to the labels, as onnxruntime does",
    "nodes_hitrates": "how often a node was met: how, not what",
    "output_sequence": "the first output is there, or nobody reads it",
    "ratio": "of a Dropout that does not train",
    "sorted": "what is not sorted may be",
}
"""Attributes of ops of ONNX that functions take and do not look at, and why."""


def test_what_functions_do_not_look_at_has_a_reason():
    """Others decline where an attribute is not named that has not its default."""
    found = {}
    for function in MAPPING.rules.functions:
        term = function.term
        for opset in {term.low or 1, 7, term.high or 28} if function.forward else ():
            signature = onnx_side(f"amanda/onnx/{opset}").signature(term.type)
            names = () if signature is None else unread_inputs(function, signature)
            found |= dict.fromkeys(names, term.type)
    assert set(found) == set(UNREAD), found


BOUNDED = [
    ("DepthToSpace", "blocksize", 2**40),
    ("SpaceToDepth", "blocksize", 0),
    ("LRN", "size", -1),
    ("Conv", "group", 2**31),
    ("MaxPool", "strides", [0, 1]),
    ("LSTM", "hidden_size", 2**62),
]


@pytest.mark.parametrize(("kind", "attribute", "value"), BOUNDED)
def test_bounds_of_integers_are_in_the_dictionary(kind, attribute, value):
    """`amanda validate` reports what is out of bounds, and backends refuse it."""
    definition = amanda.namespace("onnx@18")[kind]
    least, most = definition.attr(attribute).bounds
    assert not all(least <= v <= most for v in np.atleast_1d(value))
    graph = amanda.Graph("amanda/onnx/18")
    op = graph.add(kind, [graph.parameter("float32[1, 4, 4, 4]")], {attribute: value})
    problems = list(map(str, amanda.namespace("onnx@18").validate(graph)))
    fault = f"expected {least} to {most}"
    assert any(attribute in problem and fault in problem for problem in problems)
    op.attrs[attribute] = [most, most] if isinstance(value, list) else most
    problems = list(map(str, amanda.namespace("onnx@18").validate(graph)))
    assert not any(fault in problem for problem in problems)
