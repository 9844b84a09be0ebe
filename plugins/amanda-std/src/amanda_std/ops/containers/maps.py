"""Maps from keys to tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.errors import InvalidTypeError, UsageError
from amanda.types import MapType, SequenceType, Shape, Sym, TensorType
from amanda_std.engine.annotations import Anything, Array, Map, Other, Sequence
from amanda_std.engine.operation import primitive
from amanda_std.engine.samples import Sample, Samples, array
from amanda_std.runtime.containers import decode_string, expect_kind, string_array


def _to_keys(array: Any) -> list[Any]:
    items = np.asarray(array).reshape(-1).tolist()
    return [decode_string(k) if isinstance(k, bytes) else k for k in items]


@primitive(numpy_only=True)
def map_make(keys: Other, values: Array) -> Map:
    """Map from keys (integers or strings) to the values at the same positions"""
    names = _to_keys(keys)
    if len(set(names)) != len(names):
        raise UsageError("duplicate key in a map", got=names)
    return dict(zip(names, values, strict=True))


@map_make.infer
def _(keys: Any, values: Any) -> Any:
    return [MapType(_expect_keys(keys), _type_of_row(values))]


def _expect_keys(keys: Any) -> Any:
    if str(keys.dtype) not in ("int64", "string", "unknown"):
        raise InvalidTypeError(
            "keys of a map must be int64 or strings", where="argument 'keys'", got=keys
        )
    return keys.dtype


@primitive(numpy_only=True)
def map_rows(keys: Other, x: Array) -> Sequence:
    """Sequence of maps, one per row: from each key to its value in the row"""
    return [map_make.run([keys, row], {}) for row in x]


@map_rows.infer
def _(keys: Any, x: Any) -> Any:
    return [SequenceType(MapType(_expect_keys(keys), _type_of_row(_type_of_row(x))))]


def _type_of_row(values: Any) -> TensorType:
    """Type of a tensor without its first axis."""
    if not values.shape.has_rank:
        return TensorType(values.dtype)
    if not values.shape.rank:
        raise InvalidTypeError("values of a map need a first axis", got=values)
    return TensorType(values.dtype, values.shape.dims[1:])


@primitive(numpy_only=True)
def map_get(m: Map, key: Other, otherwise: Anything = None) -> Anything:
    """Value of a key, or the other value if the map lacks it"""
    (name,) = _to_keys(key)
    if name not in m and otherwise is None:
        raise UsageError(
            f"the map has no key {name!r}",
            expected=", ".join(map(repr, list(m)[:20])) or "the key is missing",
            hint="pass a default: otherwise=",
        )
    return np.asarray(m.get(name, otherwise))


@map_get.infer
def _(m: Any) -> Any:
    return [expect_kind(MapType, m).value]


@primitive(numpy_only=True)
def map_keys(m: Map) -> Anything:
    """Keys of a map, in insertion order"""
    keys = list(m)
    if any(isinstance(k, str) for k in keys):
        return string_array(keys, [len(keys)])
    return np.array(keys, "int64")


@map_keys.infer
def _(m: Any) -> Any:
    return [TensorType(expect_kind(MapType, m).key, [Sym.unknown()])]


@primitive(numpy_only=True)
def map_vectorize(m: Map, *, vocabulary: Any) -> Anything:
    """Values of a map for each word of a vocabulary, 0 where missing"""
    zero = np.zeros_like(next(iter(m.values()))) if m else np.zeros((), "float32")
    return np.array([m.get(word, zero) for word in vocabulary], zero.dtype)


@map_vectorize.infer
def _(m: Any, vocabulary: Any) -> Any:
    value = expect_kind(MapType, m).value
    dims = value.shape.dims if value.shape.has_rank else ()
    shape = [len(vocabulary), *dims] if value.shape.has_rank else None
    return [TensorType(value.dtype, Shape(shape))]


map_keys.not_differentiable("its results are keys")


@map_make.samples
def _() -> Samples:
    for dtype in ("float32", "int64"):
        keys = array([7, 3], "int64")
        expected = {7: array(1, dtype), 3: array(2, dtype)}
        yield Sample((keys, array([1, 2], dtype)), [expected])
    words = string_array(["a", "b"], [2])
    yield Sample((words, array([1.0, 2.0])), [{"a": array(1.0), "b": array(2.0)}])
    yield Sample((array([], "int64"), array([], "float32")), [{}])


@map_rows.samples
def _() -> Samples:
    for dtype in ("float32", "int64"):
        rows = array([[1, 2], [3, 4]], dtype)
        expected = [
            {7: array(a, dtype), 3: array(b, dtype)} for a, b in ((1, 2), (3, 4))
        ]
        yield Sample((array([7, 3], "int64"), rows), [expected])
    words = string_array(["a", "b"], [2])
    yield Sample((words, array([[1.0, 2.0]])), [[{"a": array(1.0), "b": array(2.0)}]])
    yield Sample((words, np.zeros((0, 2), "float32")), [[]])


for _op in (map_make, map_rows, map_get, map_vectorize):
    _op.not_differentiable("gradients do not go through maps")


def _sample_map(dtype: str = "float32") -> dict[Any, Any]:
    return {7: array(1, dtype), 3: array(2, dtype)}


@map_get.samples
def _() -> Samples:
    for dtype in ("float32", "int64"):
        yield Sample((_sample_map(dtype), array(3, "int64")), array(2, dtype))
        other = array(9, dtype)
        yield Sample((_sample_map(dtype), array(4, "int64"), other), array(9, dtype))


@map_keys.samples
def _() -> Samples:
    yield Sample((_sample_map(),), array([7, 3], "int64"))
    words = {"b": array(1.0), "a": array(2.0)}
    yield Sample((words,), string_array(["b", "a"], [2]))


@map_vectorize.samples
def _() -> Samples:
    for dtype in ("float32", "int64"):
        expected = array([2, 0, 1], dtype)
        yield Sample((_sample_map(dtype),), expected, {"vocabulary": (3, 5, 7)})
    words = {"b": array(1.0), "a": array(2.0)}
    yield Sample((words,), array([2.0, 1.0]), {"vocabulary": ("a", "b")})
