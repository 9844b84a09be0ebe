"""To ONNX: LabelEncoder and maps of ai.onnx.ml, where the graph imports that domain.

Its scalers and other encoders are a few ops of ONNX itself, and are written as such.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.mapping import Decline, constant_of
from amanda.tensors import Tensor
from amanda.types import MapType
from amanda_std.mappings import tensor_type_of

__all__ = ["WRITE", "constant_tensor", "expect_ml_op"]

_ML = "ai.onnx.ml"
_TENSORS_SINCE = 4
"""The version whose LabelEncoder has tensor attributes, and matches NaN keys."""
_SUFFIXES = {"float32": "floats", "int64": "int64s", "string": "strings"}


def expect_ml_op(o: Any, name: str) -> int:
    """The version of the domain; Decline where the graph does not import it."""
    if o.side.signature(f"{_ML}.{name}") is None:
        raise Decline(f"the graph does not import {_ML}, which has {name}")
    return int(o.side.domains[_ML])


def constant_tensor(value: Any, what: str) -> Tensor:
    tensor = constant_of(value)
    if tensor is None:
        raise Decline(f"{what} must be constant")
    return tensor


# -- categories --------------------------------------------------------------------


def write_lookup(o: Any, x: Any, keys: Any, values: Any, otherwise: Any) -> Any:
    """float64 and small integers need tensor attributes."""
    version = expect_ml_op(o, "LabelEncoder")
    tensors = [constant_tensor(v, "categories") for v in (keys, values, otherwise)]
    if tensor_type_of(x).dtype != tensors[0].dtype:
        raise Decline("the data has another dtype than the categories")
    dtypes = [str(t.dtype) for t in tensors[:2]]
    has_nan = dtypes[0] == "float32" and np.isnan(tensors[0].numpy()).any()
    if version < _TENSORS_SINCE and has_nan:
        raise Decline(f"LabelEncoder of {_ML} {version} matches no NaN")
    attrs: dict[str, Any] = {}
    if version >= 2 and all(dtype in _SUFFIXES for dtype in dtypes):
        for part, tensor in zip(("keys", "values"), tensors, strict=False):
            attrs[f"{part}_{_SUFFIXES[str(tensor.dtype)]}"] = _items(tensor)
        name = _SUFFIXES[dtypes[1]].removesuffix("s")
        attrs[f"default_{name}"] = _items(tensors[2])[0]
    elif version >= _TENSORS_SINCE:
        default = Tensor.of(tensors[2].numpy().reshape(1), tensors[2].dtype)
        attrs = {"keys_tensor": tensors[0], "values_tensor": tensors[1]}
        attrs["default_tensor"] = default
    else:
        raise Decline(
            f"LabelEncoder of {_ML} {version} from {dtypes[0]} to {dtypes[1]}"
        )
    return o.op(f"{_ML}.LabelEncoder", x, **attrs)


def write_equal(o: Any, a: Any, b: Any) -> Any:
    """Of strings and constant ones: encoded as integers, in opsets before 19. Of
    floats before 11: neither less nor greater, and no NaN."""
    if tensor_type_of(a).dtype.kind == "float":
        return _equal_floats(o, a, b)
    if str(tensor_type_of(a).dtype) != "string" or expect_ml_op(o, "LabelEncoder") < 2:
        raise Decline("Equal of this opset does not support this dtype")
    constant = next((v for v in (b, a) if constant_of(v) is not None), None)
    if constant is None:
        raise Decline("Equal of strings in this opset needs a constant operand")
    words = sorted(set(_items(constant_tensor(constant, "strings"))))
    attrs = {"keys_strings": words, "values_int64s": list(range(1, len(words) + 1))}
    one, other = (
        o.op(
            f"{_ML}.LabelEncoder", v, default_int64=-1 if v is constant else 0, **attrs
        )
        for v in (a, b)
    )
    return o.Equal(one, other)


def _equal_floats(o: Any, a: Any, b: Any) -> Any:
    below = Tensor.of(np.asarray(-1, tensor_type_of(a).dtype.numpy))
    numbers = (o.Greater(o.Abs(v), below) for v in (a, b))  # false for NaN
    differ = o.Or(o.Less(a, b), o.Greater(a, b))
    return o.And(o.Not(differ), o.And(*numbers))


def _items(tensor: Tensor) -> list[Any]:
    flat = np.asarray(tensor.numpy()).reshape(-1).tolist()
    return [v.decode() if isinstance(v, bytes) else v for v in flat]


# -- maps --------------------------------------------------------------------------


def write_map_rows(o: Any, keys: Any, x: Any) -> Any:
    expect_ml_op(o, "ZipMap")
    tensor = constant_tensor(keys, "keys of maps")
    if str(tensor_type_of(x).dtype) != "float32":
        raise Decline("ZipMap has values of float32 only")
    suffix = "strings" if str(tensor.dtype) == "string" else "int64s"
    return o.op(f"{_ML}.ZipMap", x, **{f"classlabels_{suffix}": _items(tensor)})


def write_map_vectorize(o: Any, m: Any, *, vocabulary: Any) -> Any:
    expect_ml_op(o, "DictVectorizer")
    is_string = bool(vocabulary) and isinstance(vocabulary[0], str | bytes)
    name = "string_vocabulary" if is_string else "int64_vocabulary"
    row = o.op(f"{_ML}.DictVectorizer", m, **{name: list(vocabulary)})
    return o.Reshape(row, [-1])


def write_map_values(o: Any, m: Any) -> Any:
    """CastMap orders by key, integers, and returns one row."""
    expect_ml_op(o, "CastMap")
    type = m.type
    if not isinstance(type, MapType) or str(type.key) != "int64":
        raise Decline("CastMap needs maps with integer keys")
    targets = {"float32": "TO_FLOAT", "string": "TO_STRING"}
    value = str(getattr(type.value, "dtype", None))
    if value not in targets:
        raise Decline(f"CastMap does not support values of {value}")
    row = o.op(f"{_ML}.CastMap", m, cast_to=targets[value])
    return o.Reshape(row, [-1])


WRITE: dict[str, Any] = {
    "equal": write_equal,
    "lookup": write_lookup,
    "map_rows": write_map_rows,
    "map_values": write_map_values,
    "map_vectorize": write_map_vectorize,
}
