"""Ops of ai.onnx.ml, through the hub set, by the reference evaluator of onnx."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, defs, helper
from onnx.reference import ReferenceEvaluator

import amanda
from amanda.types import TensorType
from amanda_onnx.format import Format
from amanda_std import ops, trace

ML = "ai.onnx.ml"
CODES = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE,
         "int64": TensorProto.INT64, "object": TensorProto.STRING}  # fmt: skip
RNG = np.random.default_rng(20)
X = RNG.normal(size=(6, 4)).astype("float32")


def model(type, inputs, attrs, outputs, version=5):
    infos = [
        helper.make_tensor_value_info(
            name, CODES[str(value.dtype)], [f"{name}{i}" for i in range(value.ndim)]
        )
        for name, value in inputs.items()
    ]
    node = helper.make_node(type, list(inputs), list(outputs), domain=ML, **attrs)
    results = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph([node], "g", infos, results)
    imports = [helper.make_opsetid("", 18), helper.make_opsetid(ML, version)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def static(made, inputs):
    """The same with the dims told: how many features there are decides weights."""
    for info, value in zip(made.graph.input, inputs.values(), strict=True):
        shape = info.type.tensor_type.shape
        for dim, n in zip(shape.dim, value.shape, strict=True):
            dim.dim_value = n
    return made


def run(made, inputs):
    return list(amanda.run(amanda.load(made), inputs, backend="numpy").values())


def agree(found, expected):
    assert len(found) == len(expected)
    for have, want in zip(found, expected, strict=True):
        want = np.asarray(want)
        assert have.shape == want.shape
        if want.dtype.kind in "OU":
            assert have.tolist() == want.tolist()
        else:
            assert have.dtype == want.dtype
            np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)


def texts(*items):
    return np.array(items, object)


SVC = {
    "coefficients": RNG.normal(size=2 * 5).tolist(), "rho": [0.1, -0.2, 0.3],
    "support_vectors": RNG.normal(size=5 * 4).tolist(), "vectors_per_class": [2, 1, 2],
    "kernel_params": [0.4, 0.5, 3.0], "classlabels_ints": [4, 5, 6],
}  # fmt: skip
PAIR = {
    "coefficients": RNG.normal(size=5).tolist(), "rho": [0.1],
    "support_vectors": RNG.normal(size=5 * 4).tolist(), "vectors_per_class": [2, 3],
    "kernel_params": [0.4, 0.5, 3.0], "classlabels_ints": [7, 3],
}  # fmt: skip
SVR = {"coefficients": [0.5, -1.0, 0.25], "rho": [0.75], "n_supports": 3,
       "support_vectors": RNG.normal(size=12).tolist(),
       "kernel_params": [0.4, 0.5, 3.0]}  # fmt: skip
LINES = {"coefficients": RNG.normal(size=12).tolist(),
         "intercepts": [0.5, -0.25, 0.0]}  # fmt: skip
MIXED = texts("b", "a", "?")

SAME = {
    "binarizer": ("Binarizer", {"x": X}, {"threshold": 0.25}, "y"),
    "scaler": ("Scaler", {"x": X}, {"offset": [0.5, 0, 1, 2.0],
                                    "scale": [2.0, 1, 0.5, 3]}, "y"),
    "one scale": ("Scaler", {"x": X}, {"offset": [0.5], "scale": [2.0]}, "y"),
    **{f"normalizer {n}": ("Normalizer", {"x": X}, {"norm": n}, "y")
       for n in ("MAX", "L1", "L2")},
    "imputer": ("Imputer", {"x": np.where(X > 1, np.float32("nan"), X)},
                {"imputed_value_floats": [1.0, 2, 3, 4],
                 "replaced_value_float": float("nan")}, "y"),
    "imputer of integers": ("Imputer", {"x": np.array([[1, 2], [2, 0]])},
                            {"imputed_value_int64s": [9], "replaced_value_int64": 2},
                            "y"),
    "extractor": ("ArrayFeatureExtractor", {"x": X, "i": np.array([2, 0, 2])}, {}, "y"),
    "encoder of texts": ("LabelEncoder", {"x": MIXED},
                         {"keys_strings": ["a", "b"], "values_int64s": [5, 6],
                          "default_int64": 42}, "y"),
    "encoder to texts": ("LabelEncoder", {"x": np.array([[2, 3], [1, 2]])},
                         {"keys_int64s": [1, 2], "values_strings": ["one", "two"],
                          "default_string": "more"}, "y"),
    "encoder of floats": ("LabelEncoder", {"x": np.float32([0.5, 2, 7])},
                          {"keys_floats": [0.5, 2.0], "values_floats": [1.5, -1.5],
                           "default_float": 9.0}, "y"),
    "one hot": ("OneHotEncoder", {"x": np.array([3, 1, 9])},
                {"cats_int64s": [1, 3], "zeros": 1}, "y"),
    "one hot of texts": ("OneHotEncoder", {"x": MIXED},
                         {"cats_strings": ["a", "b"], "zeros": 1}, "y"),
    "regression": ("LinearRegressor", {"x": X},
                   {**LINES, "targets": 3, "post_transform": "NONE"}, "y"),
    **{f"classes {t}": ("LinearClassifier", {"x": X},
                        {**LINES, "classlabels_ints": [3, 4, 8], "post_transform": t},
                        "yz") for t in ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO")},
    "named classes": ("LinearClassifier", {"x": X},
                      {**LINES, "classlabels_strings": ["a", "b", "c"]}, "yz"),
    **{f"svr {k}": ("SVMRegressor", {"x": X}, {**SVR, "kernel_type": k}, "y")
       for k in ("LINEAR", "RBF", "POLY", "SIGMOID")},
    "one class": ("SVMRegressor", {"x": X}, {**SVR, "one_class": 1}, "y"),
    **{f"svc {k}": ("SVMClassifier", {"x": X}, {**SVC, "kernel_type": k}, "yz")
       for k in ("LINEAR", "RBF", "POLY", "SIGMOID")},
    "svc of two": ("SVMClassifier", {"x": X}, {**PAIR, "kernel_type": "RBF"}, "yz"),
    "svc of two, as shares": ("SVMClassifier", {"x": X},
                              {**PAIR, "kernel_type": "RBF",
                               "post_transform": "LOGISTIC"}, "yz"),
    "lines of svc": ("SVMClassifier", {"x": X},
                     {"coefficients": RNG.normal(size=8).tolist(), "rho": [0.1],
                      "classlabels_ints": [7, 3]}, "yz"),
}  # fmt: skip


@pytest.mark.parametrize("case", SAME)
def test_as_the_reference_has_it(case):
    type, inputs, attrs, outputs = SAME[case]
    made = static(model(type, inputs, attrs, outputs), inputs)
    with np.errstate(all="ignore"):
        expected = ReferenceEvaluator(made).run(None, inputs)
    agree(run(made, inputs), expected)


def test_shares_of_classes_that_duel():
    """By onnxruntime: the reference sums where libsvm multiplies place by place."""
    runtime = pytest.importorskip("onnxruntime")
    attrs = {**SVC, "kernel_type": "RBF", "prob_a": [-1.5, -1.0, -2.0],
             "prob_b": [0.1, 0.2, -0.1]}  # fmt: skip
    made = static(model("SVMClassifier", {"x": X}, attrs, "yz", version=3), {"x": X})
    session = runtime.InferenceSession(made.SerializeToString())
    agree(run(made, {"x": X})[1:], session.run(None, {"x": X})[1:])


def test_a_width_for_each_input():
    inputs = {"a": X, "b": X[:, :1]}
    made = model("FeatureVectorizer", inputs, {"inputdimensions": [2, 3]}, "y")
    want = np.concatenate([X[:, :2], X[:, :1], np.zeros((6, 2), "float32")], 1)
    agree(run(static(made, inputs), inputs), [want])


def test_the_first_label_encoder():
    attrs = {"classes_strings": ["b", "a"], "default_int64": -7}
    made = model("LabelEncoder", {"x": MIXED}, attrs, "y", version=1)
    agree(run(made, {"x": MIXED}), [np.array([0, 1, -7])])


def test_categories_both_ways():
    attrs = {"cats_int64s": [5, 6], "cats_strings": ["a", "b"]}
    made = model("CategoryMapper", {"x": MIXED}, attrs, "y")
    agree(run(made, {"x": MIXED}), [np.array([6, 5, -1])])
    numbers = np.array([6, 5, 9])
    made = model("CategoryMapper", {"x": numbers}, attrs, "y")
    agree(run(made, {"x": numbers}), [texts("b", "a", "_Unused")])


def test_a_map_for_each_row():
    inputs = {"x": X[:2, :2]}
    made = model("ZipMap", inputs, {"classlabels_strings": ["a", "b"]}, "y")
    (found,) = run(made, inputs)
    assert found == [{"a": row[0], "b": row[1]} for row in X[:2, :2]]


def test_a_category_that_is_not_there_is_told():
    made = model(
        "OneHotEncoder", {"x": MIXED}, {"cats_strings": ["a"], "zeros": 0}, "y"
    )
    with pytest.raises(amanda.errors.AmandaError, match="category"):
        run(made, {"x": MIXED})


# -- trees -------------------------------------------------------------------------


NODES = {
    "nodes_treeids": [0, 0, 0, 0, 0, 1, 1, 1],
    "nodes_nodeids": [0, 1, 2, 3, 4, 0, 1, 2],
    "nodes_featureids": [0, 2, 0, 0, 0, 1, 0, 0],
    "nodes_values": [0.1, -0.2, 0.0, 0.0, 0.0, 0.3, 0.0, 0.0],
    "nodes_modes": ["BRANCH_LEQ", "BRANCH_GT", "LEAF", "LEAF", "LEAF", "BRANCH_LT",
                    "LEAF", "LEAF"],
    "nodes_truenodeids": [1, 2, 0, 0, 0, 1, 0, 0],
    "nodes_falsenodeids": [4, 3, 0, 0, 0, 2, 0, 0],
    "nodes_missing_value_tracks_true": [1, 0, 0, 0, 0, 0, 0, 0],
}  # fmt: skip


def leaves(kind, ids):
    return {
        f"{kind}_treeids": [0, 0, 0, 1, 1], f"{kind}_nodeids": [2, 3, 4, 1, 2],
        f"{kind}_ids": ids, f"{kind}_weights": [0.5, -1.5, 2.5, 0.125, -0.75],
    }  # fmt: skip


HOLES = np.where(np.arange(24).reshape(6, 4) % 7 == 0, np.float32("nan"), X)


@pytest.mark.parametrize("join", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("data", [X, HOLES], ids=["whole", "with holes"])
def test_trees_of_numbers(join, data):
    attrs = {**NODES, **leaves("target", [0, 1, 0, 1, 0]), "n_targets": 2,
             "aggregate_function": join}  # fmt: skip
    made = model("TreeEnsembleRegressor", {"x": data}, attrs, "y", version=3)
    agree(run(made, {"x": data}), ReferenceEvaluator(made).run(None, {"x": data}))


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"])
@pytest.mark.parametrize("ids", [[0, 1, 0, 1, 0], [0, 0, 0, 0, 0]], ids=["two", "one"])
def test_trees_of_classes(transform, ids):
    attrs = {**NODES, **leaves("class", ids), "classlabels_int64s": [3, 8],
             "post_transform": transform}  # fmt: skip
    made = model("TreeEnsembleClassifier", {"x": X}, attrs, "yz", version=3)
    agree(run(made, {"x": X}), ReferenceEvaluator(made).run(None, {"x": X}))


def test_doubles_as_tensors():
    attrs = {**NODES, **leaves("target", [0, 0, 0, 0, 0]), "n_targets": 1}
    for name in ("nodes_values", "target_weights"):
        values = attrs.pop(name)
        tensor = onnx.numpy_helper.from_array(np.array(values), name)
        attrs[f"{name}_as_tensor"] = tensor
    wide = X.astype("float64")
    made = model("TreeEnsembleRegressor", {"x": wide}, attrs, "y", version=3)
    (found,) = run(made, {"x": wide})
    single = model(
        "TreeEnsembleRegressor",
        {"x": X},
        {**NODES, **leaves("target", [0] * 5), "n_targets": 1},
        "y",
        version=3,
    )
    agree([found], run(single, {"x": X}))


# -- and back ----------------------------------------------------------------------


def back(made, opset=18, *, imported=True):
    """By way of the hub set: the model again, and its ops beside constants."""
    graph = amanda.convert(amanda.load(made), "amanda/std/1")
    if not imported:
        del graph.imports[ML]
    return written(graph, opset)


def written(graph, opset):
    """A graph of the hub set as a model, and its ops beside constants."""
    found = amanda.convert(graph, f"amanda/onnx/{opset}")
    kinds = [op.type for op in found.walk() if op.type != "constant"]
    return onnx.load_from_string(Format().dumps(found)), kinds


def by_reference(made, inputs):
    with np.errstate(all="ignore"):
        return ReferenceEvaluator(made).run(None, inputs)


@pytest.mark.parametrize("imported", [True, False])
@pytest.mark.parametrize("case", SAME)
def test_they_come_back_as_what_the_reference_runs_alike(case, imported):
    """Opset 21 compares texts, so that nothing is left to import."""
    type, inputs, attrs, outputs = SAME[case]
    made = static(model(type, inputs, attrs, outputs, version=4), inputs)
    again, _ = back(made, 21, imported=imported)
    domains = {node.domain for node in again.graph.node}
    assert domains <= ({"", ML} if imported else {""})
    agree(by_reference(again, inputs), by_reference(made, inputs))


@pytest.mark.parametrize("case", [c for c in SAME if c.startswith("encoder")])
def test_tables_of_categories_come_back_whole(case):
    type, inputs, attrs, outputs = SAME[case]
    made = static(model(type, inputs, attrs, outputs, version=2), inputs)
    again, kinds = back(made)
    assert kinds == ["LabelEncoder"]
    told = {a.name: onnx.helper.get_attribute_value(a)
            for a in again.graph.node[0].attribute}  # fmt: skip
    same = {k: [v.encode() if isinstance(v, str) else v for v in values]
            for k, values in attrs.items() if isinstance(values, list)}  # fmt: skip
    assert {k: told[k] for k in same} == same
    agree(by_reference(again, inputs), by_reference(made, inputs))


def test_doubles_and_small_integers_are_told_as_tensors():
    x = np.array([0.5, 2.0, 7.0])
    attrs = {
        "keys_tensor": onnx.numpy_helper.from_array(np.array([0.5, 2.0])),
        "values_tensor": onnx.numpy_helper.from_array(np.array([3, 4], "int16")),
        "default_tensor": onnx.numpy_helper.from_array(np.array([-1], "int16")),
    }
    made = static(model("LabelEncoder", {"x": x}, attrs, "y", version=4), {"x": x})
    again, kinds = back(made)
    assert kinds == ["LabelEncoder"]
    agree(by_reference(again, {"x": x}), [np.array([3, 4, -1], "int16")])


def test_texts_are_compared_by_numbers_where_the_opset_does_not():
    type, inputs, attrs, outputs = SAME["one hot of texts"]
    made = static(model(type, inputs, attrs, outputs, version=2), inputs)
    again, kinds = back(made, 13)
    assert kinds.count("LabelEncoder") == 2
    agree(by_reference(again, inputs), by_reference(made, inputs))
    with pytest.raises(amanda.errors.ConversionError, match="strings since opset 19"):
        back(made, 13, imported=False)


@pytest.mark.parametrize("join", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_trees_come_back_as_one_op(join):
    """One of which says something to one target, the other one to the other."""
    attrs = {**NODES, **leaves("target", [0, 0, 0, 1, 1]), "n_targets": 2,
             "aggregate_function": join}  # fmt: skip
    made = model("TreeEnsembleRegressor", {"x": HOLES}, attrs, "y", version=3)
    again, kinds = back(made)
    assert kinds == ["TreeEnsembleRegressor"]
    agree(by_reference(again, {"x": HOLES}), by_reference(made, {"x": HOLES}))
    bare, kinds = back(made, imported=False)
    assert "TreeEnsembleRegressor" not in kinds
    agree(by_reference(bare, {"x": HOLES}), by_reference(made, {"x": HOLES}))


@pytest.mark.parametrize("join", range(4))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_trees_of_version_5_come_back_as_one_op(join, dtype):
    """Two trees, of which one asks whether a number is one of several."""
    from onnx.numpy_helper import from_array

    attrs = {
        "n_targets": 2, "aggregate_function": join, "tree_roots": [0, 2],
        "nodes_featureids": [0, 2, 1],
        "nodes_splits": from_array(np.array([0.25, -0.5, 0.0], dtype)),
        "nodes_modes": from_array(np.array([0, 3, 6], "uint8")),
        "membership_values": from_array(np.array([1.0, 2.0, np.nan], dtype)),
        "nodes_truenodeids": [1, 0, 3], "nodes_trueleafs": [0, 1, 1],
        "nodes_falsenodeids": [2, 1, 4], "nodes_falseleafs": [1, 1, 1],
        "leaf_targetids": [0, 0, 0, 1, 1],
        "leaf_weights": from_array(np.array([0.5, -1.5, 2.5, 0.125, -0.75], dtype)),
    }  # fmt: skip
    x = X.astype(dtype)
    x[:3, 1] = [1.0, 2.0, 3.0]
    made = model("TreeEnsemble", {"x": x}, attrs, "y")
    again, kinds = back(made)
    assert kinds == ["TreeEnsemble"]
    expected = run(made, {"x": x})
    agree(run(again, {"x": x}), expected)
    agree(by_reference(again, {"x": x}), expected)


@pytest.mark.parametrize("version", [3, 5])
@pytest.mark.parametrize("join", ["MIN", "MAX"])
def test_trees_that_may_say_nothing_are_taken_apart(join, version):
    """Of nothing, the reference says the end of all numbers and onnxruntime 0."""
    attrs = {**NODES, **leaves("target", [0, 1, 0, 1, 0]), "n_targets": 2,
             "aggregate_function": join}  # fmt: skip
    made = model("TreeEnsembleRegressor", {"x": X}, attrs, "y", version=3)
    made.opset_import[1].version = version
    again, kinds = back(made)
    assert not [kind for kind in kinds if kind.startswith("Tree")]
    made.opset_import[1].version = 3
    want = by_reference(made, {"x": X})
    assert abs(want[0]).max() == np.finfo("float32").max
    agree(by_onnxruntime(again, {"x": X}), want)


def by_onnxruntime(made, inputs):
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(made.SerializeToString())
    return session.run(None, inputs)


def tree(says, join, version):
    """A tree that asks whether a number is at most 0, by way of the hub set."""
    rows = [np.array(v) for v in ([0], [0, 0, 0])]
    ways = [np.array(v) for v in ([1, 1, 2], [2, 1, 2])]
    said = np.array(says, "float32")[:, None]
    graph = trace(
        lambda x: ops.tree_ensemble(
            x, *rows, np.zeros(3, "float32"), *ways, said, depth=1, join=join
        ),
        [TensorType("float32", (2, 1))],
        names=["x"],
    )
    graph.imports[ML] = version
    return written(graph, 18)


@pytest.mark.parametrize("version", [3, 5])
@pytest.mark.parametrize(
    ("join", "says", "whole", "want"),
    [
        ("sum", [0, np.inf, 2], True, [np.inf, 2]),
        ("average", [0, 1, -np.inf], True, [1, -np.inf]),
        ("sum", [0, 0, 2], True, [0, 2]),
        ("max", [0, -3, -2], True, [-3, -2]),
        ("min", [0, 0, 2], True, [0, 2]),
        ("max", [0, np.inf, 2], False, [np.finfo("float32").max, 2]),
        ("min", [0, 1, -np.inf], False, [1, np.finfo("float32").min]),
        ("max", [0, 1, -np.inf], False, [1, np.finfo("float32").min]),
        ("min", [0, np.nan, 2], False, [np.nan, 2]),
    ],
)
def test_answers_without_end(join, says, whole, want, version):
    again, kinds = tree(says, join, version)
    assert bool({"TreeEnsemble", "TreeEnsembleRegressor"} & set(kinds)) == whole
    (got,) = by_onnxruntime(again, {"x": np.float32([[-1], [1]])})
    np.testing.assert_array_equal(got[:, 0], np.float32(want))


@pytest.mark.parametrize("version", [2, 3, 4, 5])
def test_a_table_that_has_nan_is_one_op_where_that_finds_it(version):
    keys, values = np.float32([0.5, np.nan]), np.array([3, 4])
    graph = trace(
        lambda x: ops.lookup(x, keys, values, np.array(7)),
        [TensorType("float32", (3,))],
        names=["x"],
    )
    graph.imports[ML] = version
    again, kinds = written(graph, 18)
    assert (kinds == ["LabelEncoder"]) == (version >= 4)
    x = {"x": np.float32([0.5, np.nan, 2])}
    agree(by_onnxruntime(again, x), [np.array([3, 4, 7])])


@pytest.mark.parametrize("keys", ["classlabels_strings", "classlabels_int64s"])
def test_maps_of_rows_come_back(keys):
    runtime = pytest.importorskip("onnxruntime")
    labels = ["a", "b"] if keys.endswith("strings") else [7, 5]
    inputs = {"x": X[:2, :2]}
    made = model("ZipMap", inputs, {keys: labels}, "y", version=1)
    again, kinds = back(made)
    assert kinds == ["ZipMap"]
    found = [
        runtime.InferenceSession(each.SerializeToString()).run(None, inputs)
        for each in (made, again)
    ]
    assert found[0] == found[1]


MAPS = {
    "words": (TensorProto.STRING, "DictVectorizer",
              {"string_vocabulary": ["a", "c", "b"]}, {"a": 1.5, "b": 2.5}),
    "numbers": (TensorProto.INT64, "DictVectorizer",
                {"int64_vocabulary": [3, 1]}, {1: 1.5, 2: 2.5}),
    "row": (TensorProto.INT64, "CastMap", {}, {4: 1.5, 2: 2.5}),
    "places": (TensorProto.INT64, "CastMap",
               {"map_form": "SPARSE", "max_map": 4}, {3: 1.5, 1: 2.5}),
}  # fmt: skip


@pytest.mark.parametrize("case", MAPS)
def test_maps_that_go_in_come_back(case):
    runtime = pytest.importorskip("onnxruntime")
    key, type, attrs, fed = MAPS[case]
    single = helper.make_tensor_type_proto(TensorProto.FLOAT, [])
    info = onnx.ValueInfoProto(name="m", type=helper.make_map_type_proto(key, single))
    node = helper.make_node(type, ["m"], ["y"], domain=ML, **attrs)
    graph = helper.make_graph([node], "g", [info], [onnx.ValueInfoProto(name="y")])
    imports = [helper.make_opsetid("", 18), helper.make_opsetid(ML, 3)]
    made = helper.make_model(graph, opset_imports=imports, ir_version=8)
    again, kinds = back(made)
    assert kinds[0] in (type, "DictVectorizer")
    found = [
        runtime.InferenceSession(each.SerializeToString()).run(None, {"m": fed})
        for each in (made, again)
    ]
    agree(found[1], found[0])
    ours = {"m": {k: np.float32(v) for k, v in fed.items()}}
    agree(run(made, ours), found[0])


def test_every_op_of_the_domain_has_a_rule():
    from amanda_onnx.mapping import MAPPING

    names = {s.name for s in defs.get_all_schemas() if s.domain == ML}
    lacks = {n for n in names if not MAPPING.rules.of_type(f"{ML}.{n}", forward=True)}
    assert lacks == set()
