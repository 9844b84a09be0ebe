"""Models for special values, of ops of which ONNX's suite has none with this op alone.

    for name, op_type, model, feeds in added_models():
        ...

Random ops have models whose results are determined: whose variance rounds to 0, or with
probabilities 0 and 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

__all__ = ["ADDED", "AddedModel", "added_models"]

_ML: Final = "ai.onnx.ml"
_TRAINING: Final = "ai.onnx.preview.training"
_X: Final = np.linspace(-2, 2.4, 12, dtype="float32").reshape(3, 4)
_IMAGE: Final = np.linspace(-3, 3, 50, dtype="float32").reshape(1, 2, 5, 5)
_INTS: Final = np.array([[0, 1], [2, 5]], "int64")
_WEIGHTS: Final = [0.5, -1.0, 2.0, 0.25, 1.5, 0.0, -0.5, 1.0, -2.0, 0.75, 1.0, -0.125]
_VECTORS: Final = [0.5, -1.0, 2.0, 0.25, 1.5, 0.0, -0.5, 1.0]
_MAP_OF_INTEGERS: Final = {0: 1.5, 2: -3.0, 3: 0.25}


class Row(NamedTuple):
    """A model of one op: its inputs, attributes, and the element types of its outputs.

    An output type is that of a tensor, `sequence<...>` or `map<...>`.
    """

    op_type: str
    inputs: Sequence[Any]
    attrs: Mapping[str, Any] = {}
    outputs: Sequence[str] = ("float32",)
    domain: str = ""
    variant: str = ""


class AddedModel(NamedTuple):
    """A model with feeds; `reference` has the same results without the op."""

    name: str
    op_type: str
    model: Any
    feeds: Mapping[str, Any]
    reference: Any = None


_SVM: Final = {
    "kernel_type": "RBF", "kernel_params": [0.1, 0.0, 3.0],
    "support_vectors": _VECTORS, "coefficients": [1.0, -0.5], "rho": [0.25],
}  # fmt: skip
_CLASSIFIED: Final = ("int64", "float32")

ADDED: Final[Sequence[Row]] = [
    *(Row("GlobalLpPool", [_IMAGE], {"p": p}, variant=f"{p}") for p in (1, 2, 3)),
    Row("MaxRoiPool",
        [_IMAGE, np.array([[0, 0, 0, 4, 4], [0, 1, 1, 3, 3]], "float32")],
        {"pooled_shape": [2, 2]}),
    Row("SequenceConstruct", [_X, _X[:2]], outputs=["sequence<float32>"]),
    *(Row("SequenceAt", [[_X, _X[:2]], np.array(i)], variant=f"{i}") for i in (1, -2)),
    Row("SequenceErase", [[_X, _X[:2]], np.array(0)], outputs=["sequence<float32>"]),
    Row("SequenceLength", [[_X, _X[:2]]], outputs=["int64"]),
    Row("ConcatFromSequence", [[_X, _X[:2]]], {"axis": 0}),
    Row("ConcatFromSequence", [[_X, _X]], {"axis": -1, "new_axis": 1}, variant="new"),
    Row("SequenceEmpty", [], {"dtype": 1}, ["sequence<float32>"]),
    Row("Optional", [_X], outputs=["optional<float32>"]),
    Row("Optional", [[_X, _X[:2]]], outputs=["optional<sequence<float32>>"],
        variant="sequence"),
    Row("Bernoulli", [np.zeros((2, 3), "float32")], {"seed": 3.0}, variant="never"),
    Row("Bernoulli", [np.ones((2, 3), "float32")], {"seed": 3.0}, variant="always"),
    *(
        Row(name, [], {"shape": shape, "seed": 3.0, **attrs}, variant=variant)
        for variant, shape in (("scalar", [1]), ("empty", [0, 3]))
        for name, attrs in (
            ("RandomNormal", {"mean": -2.0, "scale": 1e-38}),
            ("RandomUniform", {"low": -2.0, "high": -2.0}),
        )
    ),
    *(
        Row(f"{name}Like", [_X], {"seed": 3.0, **attrs})
        for name, attrs in (
            ("RandomNormal", {"mean": 1e38, "scale": 1e-3}),
            ("RandomUniform", {"low": 1e-45, "high": 1e-45}),
        )
    ),
    Row("Multinomial", [np.array([[0, -np.inf, -np.inf], [-np.inf, 1e38, 0]], "f")],
        {"sample_size": 4, "seed": 3.0}, ["int32"]),
    *(
        Row("Imputer", [_X],
            {"imputed_value_floats": values, "replaced_value_float": old},
            domain=_ML, variant=f"{old}")
        for old, values in ((np.nan, [1.0, -0.0, np.inf, 4.0]), (0.0, [7.5]))
    ),
    *(Row("Normalizer", [_X], {"norm": norm}, domain=_ML, variant=norm.lower())
      for norm in ("MAX", "L1", "L2")),
    Row("Scaler", [_X],
        {"offset": [0.5, 0.0, -1.0, 1e38], "scale": [2.0, 0.0, -1.0, 1e3]}, domain=_ML),
    Row("FeatureVectorizer", [_X, _X[:, :2]], {"inputdimensions": [4, 2]}, domain=_ML),
    Row("OneHotEncoder", [_X], {"cats_int64s": [0, 1, 2], "zeros": 1}, domain=_ML),
    Row("OneHotEncoder", [_INTS], {"cats_int64s": [0, 1, 2], "zeros": 1}, domain=_ML,
        variant="integers"),
    Row("CategoryMapper", [_INTS],
        {"cats_int64s": [0, 1], "cats_strings": ["a", "b"], "default_string": "none"},
        ["string"], _ML),
    Row("DictVectorizer", [{"a": 1.5, "c": -3.0}],
        {"string_vocabulary": ["a", "b", "c"]}, domain=_ML),
    Row("DictVectorizer", [_MAP_OF_INTEGERS], {"int64_vocabulary": [3, 1, 0]},
        domain=_ML, variant="integers"),
    Row("CastMap", [_MAP_OF_INTEGERS], {"cast_to": "TO_FLOAT"}, domain=_ML),
    Row("CastMap", [_MAP_OF_INTEGERS],
        {"cast_to": "TO_FLOAT", "map_form": "SPARSE", "max_map": 5}, domain=_ML,
        variant="sparse"),
    Row("ZipMap", [_X], {"classlabels_int64s": [3, 5, 7, 9]},
        ["sequence<map<int64, float32>>"], _ML),
    Row("ZipMap", [_X], {"classlabels_strings": ["a", "b", "c", "d"]},
        ["sequence<map<string, float32>>"], _ML, "strings"),
    Row("LinearRegressor", [_X],
        {"coefficients": _WEIGHTS[:8], "intercepts": [0.5, -0.25], "targets": 2},
        domain=_ML),
    *(
        Row("LinearClassifier", [_X],
            {"coefficients": _WEIGHTS, "intercepts": [0.5, 0.0, -1.0],
             "classlabels_ints": [3, 5, 7], "post_transform": transform},
            _CLASSIFIED, _ML, transform.lower())
        for transform in ("NONE", "SOFTMAX", "LOGISTIC")
    ),
    *(
        Row("SVMRegressor", [_X], {**_SVM, "n_supports": 2, "kernel_type": kernel},
            domain=_ML, variant=kernel.lower())
        for kernel in ("RBF", "LINEAR", "SIGMOID")
    ),
    *(
        Row("SVMClassifier", [_X],
            {**_SVM, "vectors_per_class": [1, 1], "classlabels_ints": [3, 5],
             "kernel_type": kernel},
            _CLASSIFIED, _ML, kernel.lower())
        for kernel in ("RBF", "LINEAR")
    ),
]  # fmt: skip
"""Inputs are arrays, lists of arrays for sequences, and dicts for maps."""


def added_models() -> Iterator[AddedModel]:
    """Yield the models of `ADDED`, with their feeds."""
    for row in ADDED:
        name = "_".join(filter(None, ("added", row.op_type.lower(), row.variant)))
        feeds = {f"x{i}": value for i, value in enumerate(row.inputs)}
        yield AddedModel(name, row.op_type, _build_model(row, feeds), feeds)
    yield _gradient_of_product()


def _gradient_of_product() -> AddedModel:
    """Gradients of x * z by x and z, which are z and x."""
    from onnx import helper

    feeds = {"x": _X, "z": _X[:, ::-1].copy()}
    inputs = [helper.make_value_info(name, _type_of(x)) for name, x in feeds.items()]
    outputs = [helper.make_value_info(n, _parse_type("float32")) for n in ("dx", "dz")]
    product = helper.make_node("Mul", ["x", "z"], ["y"])
    gradient = helper.make_node(
        "Gradient", ["x", "z"], ["dx", "dz"], domain=_TRAINING, xs=["x", "z"], y="y"
    )
    copies = [
        helper.make_node("Identity", [i], [o]) for i, o in (("z", "dx"), ("x", "dz"))
    ]
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(_TRAINING, 1)]
    model, reference = (
        helper.make_model(
            helper.make_graph(nodes, "gradient", inputs, outputs),
            opset_imports=opsets, ir_version=9,
        )
        for nodes in ([product, gradient], copies)
    )  # fmt: skip
    return AddedModel("added_gradient", "Gradient", model, feeds, reference)


def _build_model(row: Row, feeds: Mapping[str, Any]) -> Any:
    from onnx import helper

    outputs = [f"y{i}" for i in range(len(row.outputs))]
    node = helper.make_node(
        row.op_type, list(feeds), outputs, domain=row.domain, **row.attrs
    )
    graph = helper.make_graph(
        [node], row.op_type,
        [helper.make_value_info(name, _type_of(x)) for name, x in feeds.items()],
        [
            helper.make_value_info(name, _parse_type(text))
            for name, text in zip(outputs, row.outputs, strict=True)
        ],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 18)]
    if row.domain:
        opsets.append(helper.make_opsetid(row.domain, 3))
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def _type_of(value: Any) -> Any:
    """The ONNX type of a feed."""
    from onnx import helper

    if isinstance(value, np.ndarray):
        element = helper.np_dtype_to_tensor_dtype(value.dtype)
        return helper.make_tensor_type_proto(element, value.shape)
    if isinstance(value, list):
        return helper.make_sequence_type_proto(
            helper.make_tensor_type_proto(_element("float32"), None)
        )
    key = "string" if isinstance(next(iter(value)), str) else "int64"
    return _parse_type(f"map<{key}, float32>")


def _parse_type(text: str) -> Any:
    """The ONNX type of the text of a type without shapes.

    >>> _parse_type("sequence<float32>").sequence_type.elem_type.tensor_type.elem_type
    1
    """
    from onnx import helper

    kind, _, inner = text.removesuffix(">").partition("<")
    if kind == "sequence":
        return helper.make_sequence_type_proto(_parse_type(inner))
    if kind == "optional":
        return helper.make_optional_type_proto(_parse_type(inner))
    if kind == "map":
        key, _, value = inner.partition(", ")
        return helper.make_map_type_proto(_element(key), _parse_type(value))
    return helper.make_tensor_type_proto(_element(text), None)


def _element(name: str) -> int:
    from onnx import helper

    return helper.np_dtype_to_tensor_dtype(
        np.dtype(object if name == "string" else name)
    )
