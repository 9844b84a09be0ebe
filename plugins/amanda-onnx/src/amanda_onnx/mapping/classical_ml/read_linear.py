"""From ONNX: categories, scales and linear models, of the domain ai.onnx.ml."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from amanda.mapping import Decline
from amanda.tensors import Tensor
from amanda.types import DType
from amanda_onnx.format.element_types import CODES
from amanda_onnx.mapping.shapes.read_shapes import read_cast
from amanda_onnx.mapping.static_values import expect, rank_of
from amanda_std import ops

__all__ = ["READ", "floats", "labelled", "scored", "single", "texts"]

_FLOATS = ("float32", "float64")


def floats(x: Any) -> Any:
    """Data as floats: what is none becomes single."""
    return x if str(x.dtype) in _FLOATS else ops.astype(x, dtype="float32")


def single(x: Any) -> Any:
    """What answers come in."""
    return x if str(x.dtype) == "float32" else ops.astype(x, dtype="float32")


def texts(values: Sequence[Any]) -> Tensor:
    items = [v if isinstance(v, bytes) else str(v).encode() for v in values]
    return Tensor.strings(items)


def _row(values: Any, x: Any) -> Any:
    """Numbers of an attribute, of the element type of data."""
    return np.asarray(values, "float64").astype(x.dtype.numpy)


# -- what classifiers share --------------------------------------------------------


def labelled(at: Any, ints: Any, strings: Any) -> Any:
    """Places as labels."""
    if ints:
        return ops.gather(np.asarray(ints, "int64"), at, 0)
    if strings:
        return ops.gather(texts(strings), at, 0)
    return ops.astype(at, dtype="int64")


def scored(scores: Any, transform: str | None) -> Any:
    """What is done to scores last, along the last axis."""
    if transform in (None, "NONE"):
        return scores
    if transform == "LOGISTIC":
        return ops.sigmoid(scores)
    if transform == "SOFTMAX":
        return ops.softmax(scores, axes=(-1,))
    if transform == "PROBIT":
        return ops.ndtri(scores)
    if transform != "SOFTMAX_ZERO":
        raise Decline(f"no transform called {transform}")
    top = ops.max(scores, (-1,), keepdims=True)
    near = ops.less_equal(ops.abs(scores), 1e-7)
    far = ops.exp(scores - top)
    shares = ops.where(near, scores * ops.exp(ops.negative(top)), far)
    total = ops.sum(shares, (-1,), keepdims=True)
    return ops.where(ops.equal(total, 0.0), 0.5, shares / total)


# -- one number at a time ----------------------------------------------------------


def binarizer(x: Any, *, threshold: float = 0.0) -> Any:
    return ops.astype(ops.greater(x, _row(threshold, x)), dtype=x.dtype)


def scaler(x: Any, *, offset: Any = None, scale: Any = None) -> Any:
    y = floats(x)
    y = y - _row(offset, y) if offset else y
    return single(y * _row(scale, y) if scale else y)


def normalizer(x: Any, *, norm: str = "MAX") -> Any:
    y = floats(x)
    last = (rank_of(x) - 1,)
    if norm == "MAX":
        size = ops.max(ops.abs(y), last, keepdims=True)
    elif norm == "L1":
        size = ops.sum(ops.abs(y), last, keepdims=True)
    else:
        expect(norm == "L2", f"no norm called {norm}")
        size = ops.sqrt(ops.sum(ops.square(y), last, keepdims=True))
    return single(y / ops.maximum(size, _row(1e-30, y)))


def imputer(
    x: Any,
    *,
    imputed_value_floats: Any = None,
    imputed_value_int64s: Any = None,
    replaced_value_float: float = 0.0,
    replaced_value_int64: int = 0,
) -> Any:
    values, gone = imputed_value_int64s, float(replaced_value_int64)
    if imputed_value_floats:
        values, gone = imputed_value_floats, replaced_value_float
    expect(values, "nothing is told to put in")
    missing = ops.isnan(x) if np.isnan(gone) else ops.equal(x, _row(gone, x))
    return ops.where(missing, _row(values, x), x)


def feature_vectorizer(*xs: Any, inputdimensions: Any = None) -> Any:
    expect(
        inputdimensions and len(inputdimensions) == len(xs), "a width for each input"
    )
    made = []
    for x, width in zip(xs, inputdimensions, strict=True):
        x = floats(x) if str(x.dtype) != "float64" else ops.astype(x, dtype="float32")
        x = ops.reshape(x, [-1, 1]) if rank_of(x) == 1 else x
        cut = ops.slice_(x, [0], [width], [1])
        made.append(ops.pad(cut, [[0, width - ops.dim(cut, axis=1)]], None, [1])
                    if not isinstance(cut.type.shape.dims[1], int)
                    else _filled(cut, width))  # fmt: skip
    return ops.concat(*made, axis=1)


def _filled(x: Any, width: int) -> Any:
    missing = width - x.type.shape.dims[1]
    return ops.pad(x, [[0, missing]], None, [1]) if missing else x


def array_feature_extractor(x: Any, at: Any) -> Any:
    row = ops.reshape(at, [-1])
    if rank_of(x) == 1:
        x = ops.expand_dims(x, (0,))
    return ops.gather(x, row, -1)


# -- categories --------------------------------------------------------------------


def category_mapper(
    x: Any,
    *,
    cats_int64s: Any = None,
    cats_strings: Any = None,
    default_int64: int = -1,
    default_string: str = "_Unused",
) -> Any:
    expect(cats_int64s and cats_strings, "categories without a side")
    numbers, words = np.asarray(cats_int64s, "int64"), texts(cats_strings)
    if str(x.dtype) == "string":
        return ops.lookup(x, words, numbers, np.int64(default_int64))
    return ops.lookup(x, numbers, words, _text(default_string))


def _text(value: Any) -> Tensor:
    raw = value if isinstance(value, bytes) else str(value).encode()
    return Tensor.strings([raw], ())


def label_encoder(
    x: Any, *, keys_floats: Any = None, keys_int64s: Any = None,
    keys_strings: Any = None, keys_tensor: Any = None, values_floats: Any = None,
    values_int64s: Any = None, values_strings: Any = None, values_tensor: Any = None,
    default_float: float = -0.0, default_int64: int = -1,
    default_string: str = "_Unused", default_tensor: Any = None,
    classes_strings: Any = None,
) -> Any:  # fmt: skip
    if classes_strings:  # of the first version: texts by their places
        return category_mapper(
            x, cats_int64s=list(range(len(classes_strings))),
            cats_strings=classes_strings, default_int64=default_int64,
            default_string=default_string,
        )  # fmt: skip
    keys = _told(keys_floats, keys_int64s, keys_strings, keys_tensor)
    values = _told(values_floats, values_int64s, values_strings, values_tensor)
    expect(keys is not None and values is not None, "keys and values")
    own = _dtype(values)
    if default_tensor is not None:
        other: Any = Tensor.of(default_tensor.numpy().reshape(()))
        if str(own) == "string":
            other = Tensor.strings([default_tensor.tolist()[0]], ())
    elif str(own) == "string":
        other = _text(default_string)
    else:
        number = default_float if str(own.kind) == "float" else default_int64
        other = np.asarray(number).astype(own.numpy)
    return ops.lookup(x, keys, values, other)


def _told(reals: Any, numbers: Any, words: Any, tensor: Any) -> Any:
    if tensor is not None:
        return tensor
    if reals:
        return np.asarray(reals, "float32")
    if numbers:
        return np.asarray(numbers, "int64")
    return texts(words) if words else None


def _dtype(values: Any) -> Any:
    return values.dtype if isinstance(values, Tensor) else DType.of(values.dtype)


def one_hot_encoder(x: Any, *, cats_int64s: Any = None, cats_strings: Any = None,
                    zeros: int = 1) -> Any:  # fmt: skip
    if cats_int64s:
        cats: Any = np.asarray(cats_int64s, "int64")
        x = x if str(x.dtype) == "int64" else ops.astype(x, dtype="int64")
    else:
        expect(cats_strings, "categories")
        cats = texts(cats_strings)
    found = ops.equal(ops.expand_dims(x, (-1,)), cats)
    if not zeros:
        known = ops.all(ops.any(found, (-1,)))
        known = ops.find("assert")(known, message="OneHotEncoder: not a category")
        found = ops.logical_and(found, known)
    return ops.astype(found, dtype="float32")


# -- maps --------------------------------------------------------------------------


def zip_map(
    x: Any, *, classlabels_int64s: Any = None, classlabels_strings: Any = None
) -> Any:
    """A map for each row."""
    expect(classlabels_int64s or classlabels_strings, "keys")
    keys: Any = (
        np.asarray(classlabels_int64s, "int64")
        if classlabels_int64s
        else texts(classlabels_strings)
    )
    x = ops.expand_dims(x, (0,)) if rank_of(x) == 1 else x
    return ops.map_rows(keys, x)


def dict_vectorizer(
    m: Any, *, int64_vocabulary: Any = None, string_vocabulary: Any = None
) -> Any:
    words = tuple(int64_vocabulary or string_vocabulary or ())
    row = ops.map_vectorize(m, vocabulary=words)
    is_known = row.type.shape.has_rank  # else files leave out that values are numbers
    return ops.expand_dims(row, (0,)) if is_known else ops.reshape(row, [1, -1])


_CASTS = {"TO_FLOAT": "float32", "TO_INT64": "int64", "TO_STRING": "string"}


def cast_map(m: Any, *, cast_to: str = "TO_FLOAT", map_form: str = "DENSE",
             max_map: int = 1) -> Any:  # fmt: skip
    """The values by their keys: all in a row, or each at the place that is its key."""
    expect(cast_to in _CASTS and map_form in ("DENSE", "SPARSE"), f"no {cast_to}")
    if map_form == "SPARSE":
        row = ops.map_vectorize(m, vocabulary=tuple(range(max_map)))
    else:
        row = ops.map_values(m)
    return read_cast(ops.reshape(row, [1, -1]), to=CODES[DType(_CASTS[cast_to])])


# -- linear models -----------------------------------------------------------------


def linear_regressor(
    x: Any,
    *,
    coefficients: Any,
    intercepts: Any = None,
    post_transform: str = "NONE",
    targets: int = 1,
) -> Any:
    y = floats(x)
    weights = _row(coefficients, y).reshape(targets, -1).T
    scores = ops.matmul(y, np.ascontiguousarray(weights))
    scores = scores + _row(intercepts, y) if intercepts else scores
    return single(scored(scores, post_transform))


def linear_classifier(
    x: Any, *, coefficients: Any, intercepts: Any = None, classlabels_ints: Any = None,
    classlabels_strings: Any = None, multi_class: int = 0,  # noqa: ARG001
    post_transform: str = "NONE",
) -> Any:  # fmt: skip
    y = floats(x)
    labels = classlabels_ints or classlabels_strings or ()
    width = y.type.shape.dims[1] if y.type.shape.has_rank else None
    lines = len(intercepts) if intercepts else 0
    if not lines:
        if not isinstance(width, int):
            raise Decline("how many features there are is not known")
        lines = len(coefficients) // width
    weights = np.ascontiguousarray(_row(coefficients, y).reshape(lines, -1).T)
    scores = ops.matmul(y, weights)
    scores = scores + _row(intercepts, y) if intercepts else scores
    if lines == 1 and len(labels) == 2:
        scores, lines = ops.concat(ops.negative(scores), scores, axis=1), 2
    scores = scored(scores, post_transform)
    if lines > 1:
        at = ops.argmax(scores, 1)
    else:
        expect(not classlabels_strings, "one line, and a text for it")
        bound = 0.0 if post_transform == "NONE" else 0.5
        over = ops.reshape(ops.greater_equal(scores, bound), [-1])
        at = ops.astype(over, dtype="int64")
        at = at * np.int64(classlabels_ints[0]) if classlabels_ints else at
        return at, single(scores)
    named = labelled(at, classlabels_ints, classlabels_strings)
    return named, single(scores)


_ML = "ai.onnx.ml."
READ: dict[str, Any] = {
    f"{_ML}ArrayFeatureExtractor": array_feature_extractor,
    f"{_ML}Binarizer": binarizer,
    f"{_ML}CastMap": cast_map,
    f"{_ML}CategoryMapper": category_mapper,
    f"{_ML}DictVectorizer": dict_vectorizer,
    f"{_ML}FeatureVectorizer": feature_vectorizer,
    f"{_ML}Imputer": imputer,
    f"{_ML}LabelEncoder": label_encoder,
    f"{_ML}LinearClassifier": linear_classifier,
    f"{_ML}LinearRegressor": linear_regressor,
    f"{_ML}Normalizer": normalizer,
    f"{_ML}OneHotEncoder": one_hot_encoder,
    f"{_ML}Scaler": scaler,
    f"{_ML}ZipMap": zip_map,
}
