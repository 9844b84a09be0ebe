"""From ONNX: scalers, imputers, encoders of categories and maps of ai.onnx.ml."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.tensors import Tensor
from amanda.types import DType
from amanda_onnx.format.element_types import CODES
from amanda_onnx.mapping.classical_ml.scores import (
    array_like,
    string_tensor,
    to_float32,
    to_floats,
)
from amanda_onnx.mapping.shapes.read_shapes import read_cast
from amanda_std import ops
from amanda_std.mappings import expect, one_item, rank_of, tensor_type_of

__all__ = ["READ"]


# -- features ----------------------------------------------------------------------


def read_binarizer(x: Any, *, threshold: float = 0.0) -> Any:
    return ops.astype(ops.greater(x, array_like(threshold, x)), dtype=x.dtype)


def read_scaler(x: Any, *, offset: Any = None, scale: Any = None) -> Any:
    y = to_floats(x)
    y = y - array_like(offset, y) if offset else y
    return to_float32(y * array_like(scale, y) if scale else y)


def read_normalizer(x: Any, *, norm: str = "MAX") -> Any:
    y = to_floats(x)
    last = (rank_of(x) - 1,)
    if norm == "MAX":
        size = ops.max(ops.abs(y), last, keepdims=True)
    elif norm == "L1":
        size = ops.sum(ops.abs(y), last, keepdims=True)
    else:
        expect(norm == "L2", f"unknown norm {norm}")
        size = ops.sqrt(ops.sum(ops.square(y), last, keepdims=True))
    return to_float32(y / ops.maximum(size, array_like(1e-30, y)))


def read_imputer(
    x: Any, *, imputed_value_floats: Any = None, imputed_value_int64s: Any = None,
    replaced_value_float: float = 0.0, replaced_value_int64: int = 0,
) -> Any:  # fmt: skip
    values, missing = imputed_value_int64s, float(replaced_value_int64)
    if imputed_value_floats:
        values, missing = imputed_value_floats, replaced_value_float
    expect(values, "Imputer needs imputed values")
    if np.isnan(missing):
        is_missing = ops.isnan(x)
    else:
        is_missing = ops.equal(x, array_like(missing, x))
    return ops.where(is_missing, array_like(values, x), x)


def read_feature_vectorizer(*xs: Any, inputdimensions: Any = None) -> Any:
    """Each input cut or padded with zeros to its width, and concatenated."""
    expect(
        inputdimensions and len(inputdimensions) == len(xs),
        "inputdimensions needs a width for each input",
    )
    columns = []
    for x, width in zip(xs, inputdimensions, strict=True):
        x = to_floats(x) if str(x.dtype) != "float64" else to_float32(x)
        x = ops.reshape(x, [-1, 1]) if rank_of(x) == 1 else x
        cut = ops.slice_(x, [0], [width], [1])
        size = tensor_type_of(cut).shape.dims[1]
        missing = width - (size if isinstance(size, int) else ops.dim(cut, axis=1))
        is_full = isinstance(missing, int) and not missing
        columns.append(cut if is_full else ops.pad(cut, [[0, missing]], None, [1]))
    return ops.concat(*columns, axis=1)


def read_array_feature_extractor(x: Any, indices: Any) -> Any:
    flat = ops.reshape(indices, [-1])
    if rank_of(x) == 1:
        x = ops.expand_dims(x, (0,))
    return ops.gather(x, flat, -1)


# -- categories --------------------------------------------------------------------


def read_category_mapper(
    x: Any, *, cats_int64s: Any = None, cats_strings: Any = None,
    default_int64: int = -1, default_string: str = "_Unused",
) -> Any:  # fmt: skip
    expect(cats_int64s and cats_strings, "CategoryMapper needs both cats attributes")
    numbers, strings = np.asarray(cats_int64s, "int64"), string_tensor(cats_strings)
    if str(x.dtype) == "string":
        return ops.lookup(x, strings, numbers, np.int64(default_int64))
    return ops.lookup(x, numbers, strings, _string_scalar(default_string))


def _string_scalar(value: Any) -> Tensor:
    raw = value if isinstance(value, bytes) else str(value).encode()
    return Tensor.strings([raw], ())


def read_label_encoder(
    x: Any, *, keys_floats: Any = None, keys_int64s: Any = None,
    keys_strings: Any = None, keys_tensor: Any = None, values_floats: Any = None,
    values_int64s: Any = None, values_strings: Any = None, values_tensor: Any = None,
    default_float: float = -0.0, default_int64: int = -1,
    default_string: str = "_Unused", default_tensor: Any = None,
    classes_strings: Any = None,
) -> Any:  # fmt: skip
    if classes_strings:  # version 1: strings and their indices
        return read_category_mapper(
            x, cats_int64s=list(range(len(classes_strings))),
            cats_strings=classes_strings, default_int64=default_int64,
            default_string=default_string,
        )  # fmt: skip
    keys = _entries(keys_floats, keys_int64s, keys_strings, keys_tensor)
    values = _entries(values_floats, values_int64s, values_strings, values_tensor)
    expect(
        keys is not None and values is not None, "LabelEncoder needs keys and values"
    )
    own = values.dtype if isinstance(values, Tensor) else DType.of(values.dtype)
    if default_tensor is not None:
        default: Any = one_item(default_tensor)
        if str(own) == "string":
            default = Tensor.strings([default], ())
        else:
            default = Tensor.of(default, default_tensor.dtype)
    elif str(own) == "string":
        default = _string_scalar(default_string)
    else:
        number = default_float if str(own.kind) == "float" else default_int64
        default = np.asarray(number).astype(own.numpy)
    return ops.lookup(x, keys, values, default)


def _entries(floats: Any, int64s: Any, strings: Any, tensor: Any) -> Any:
    """Keys or values, in whichever attribute they are."""
    if tensor is not None:
        return tensor
    if floats:
        return np.asarray(floats, "float32")
    if int64s:
        return np.asarray(int64s, "int64")
    return string_tensor(strings) if strings else None


def read_one_hot_encoder(x: Any, *, cats_int64s: Any = None, cats_strings: Any = None,
                         zeros: int = 1) -> Any:  # fmt: skip
    """NaN is no category; with zeros=0, a value that is none is an error."""
    is_number = None
    if cats_int64s:
        categories: Any = np.asarray(cats_int64s, "int64")
        if x.dtype.kind == "float":
            is_number = ops.expand_dims(ops.equal(x, x), (-1,))
        x = x if str(x.dtype) == "int64" else ops.astype(x, dtype="int64")
    else:
        expect(cats_strings, "OneHotEncoder needs categories")
        categories = string_tensor(cats_strings)
    matches = ops.equal(ops.expand_dims(x, (-1,)), categories)
    if is_number is not None:  # what NaN is as an integer depends on the backend
        matches = ops.logical_and(matches, is_number)
    if not zeros:
        known = ops.all(ops.any(matches, (-1,)))
        known = ops.find("assert")(known, message="OneHotEncoder: not a category")
        matches = ops.logical_and(matches, known)
    return ops.astype(matches, dtype="float32")


# -- maps --------------------------------------------------------------------------


def read_zip_map(
    x: Any, *, classlabels_int64s: Any = None, classlabels_strings: Any = None
) -> Any:
    """A map for each row."""
    expect(classlabels_int64s or classlabels_strings, "ZipMap needs class labels")
    keys: Any = (
        np.asarray(classlabels_int64s, "int64")
        if classlabels_int64s
        else string_tensor(classlabels_strings)
    )
    x = ops.expand_dims(x, (0,)) if rank_of(x) == 1 else x
    return ops.map_rows(keys, x)


def read_dict_vectorizer(
    m: Any, *, int64_vocabulary: Any = None, string_vocabulary: Any = None
) -> Any:
    keys = tuple(int64_vocabulary or string_vocabulary or ())
    row = ops.map_vectorize(m, vocabulary=keys)
    is_known = tensor_type_of(
        row
    ).shape.has_rank  # some files declare no type of values
    return ops.expand_dims(row, (0,)) if is_known else ops.reshape(row, [1, -1])


_CASTS = {"TO_FLOAT": "float32", "TO_INT64": "int64", "TO_STRING": "string"}


def read_cast_map(m: Any, *, cast_to: str = "TO_FLOAT", map_form: str = "DENSE",
                  max_map: int = 1) -> Any:  # fmt: skip
    """The values in one row, by key; SPARSE: each at the index that is its key."""
    expect(
        cast_to in _CASTS and map_form in ("DENSE", "SPARSE"),
        f"unknown cast_to={cast_to} or map_form={map_form}",
    )
    if map_form == "SPARSE":
        row = ops.map_vectorize(m, vocabulary=tuple(range(max_map)))
    else:
        row = ops.map_values(m)
    return read_cast(ops.reshape(row, [1, -1]), to=CODES[DType(_CASTS[cast_to])])


READ: dict[str, Any] = {
    "ai.onnx.ml.ArrayFeatureExtractor": read_array_feature_extractor,
    "ai.onnx.ml.Binarizer": read_binarizer,
    "ai.onnx.ml.CastMap": read_cast_map,
    "ai.onnx.ml.CategoryMapper": read_category_mapper,
    "ai.onnx.ml.DictVectorizer": read_dict_vectorizer,
    "ai.onnx.ml.FeatureVectorizer": read_feature_vectorizer,
    "ai.onnx.ml.Imputer": read_imputer,
    "ai.onnx.ml.LabelEncoder": read_label_encoder,
    "ai.onnx.ml.Normalizer": read_normalizer,
    "ai.onnx.ml.OneHotEncoder": read_one_hot_encoder,
    "ai.onnx.ml.Scaler": read_scaler,
    "ai.onnx.ml.ZipMap": read_zip_map,
}
