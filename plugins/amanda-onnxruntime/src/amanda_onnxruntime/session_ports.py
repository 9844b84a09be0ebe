"""Inputs and outputs of sessions, converted from and to what onnxruntime accepts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from amanda.errors import BackendError
from amanda.tensors import as_array
from amanda.types import DType

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

__all__ = ["SessionPort"]

_NAMES: Final = {
    "float": "float32",
    "double": "float64",
    "float8e8m0": "float8_e8m0fnu",
}
"""onnxruntime's names of dtypes, where they differ."""
_BITS: Final = {
    "bfloat16": 16,
    "float8e4m3fn": 17,
    "float8e4m3fnuz": 18,
    "float8e5m2": 19,
    "float8e5m2fnuz": 20,
    "float8e8m0": 24,
}
"""ONNX's codes of dtypes that numpy lacks; arrays of ml_dtypes are passed as bits."""
_NESTED: Final = re.compile(r"(?:(?:seq|optional)\()+tensor\((\w+)\)+")
"""A sequence or optional of tensors: a list of arrays, or one array."""


class SessionPort:
    """An input or an output of a session."""

    def __init__(self, port: Any) -> None:
        self.name: str = port.name
        self._type: str = port.type
        is_tensor = self._type.startswith("tensor(")
        self._element = self._type[7:-1] if is_tensor else ""
        nested = _NESTED.fullmatch(self._type)
        self._nested_element = nested[1] if nested else self._element
        self.has_numpy_dtype = not any(f"({name})" in self._type for name in _BITS)
        self.is_bindable = (
            self.has_numpy_dtype and is_tensor and "string" not in self._type
        )
        """Whether the session can write results to a given array."""

    def to_array(self, value: Any) -> Any:
        """A feed as an array; a list of arrays for a sequence."""
        import numpy as np

        if not self._nested_element or value is None:
            return value
        if isinstance(value, list | tuple) and not self._element:
            return [self.to_array(each) for each in value]
        if isinstance(value, np.ndarray):
            return value
        return as_array(value, self._numpy_dtype())

    def to_ort_value(self, value: Any) -> Any:
        import numpy as np
        from onnxruntime import OrtValue

        array = self.to_array(value)
        code = _BITS.get(self._element)
        if not self._element:
            raise BackendError(
                f"onnxruntime does not accept {self._type} together with dtypes "
                "that numpy lacks"
            )
        if code is None:
            return OrtValue.ortvalue_from_numpy(array)
        bits = np.asarray(array, order="C").view(f"u{array.dtype.itemsize}")
        return OrtValue.ortvalue_from_numpy_with_onnx_type(bits, code)

    def from_ort_value(self, value: Any) -> Any:
        if self._element not in _BITS:
            return value.numpy()
        if value.device_name().lower() != "cpu":
            raise BackendError(
                f"results of {self._element} on {value.device_name()} cannot be copied"
            )
        return _copy_to_array(value, self._numpy_dtype())

    def _numpy_dtype(self) -> Any:
        name = _NAMES.get(self._nested_element, self._nested_element)
        return DType(name).numpy


def _copy_to_array(value: Any, dtype: Any) -> Array:
    """Copy the bytes of a value of which onnxruntime returns no array."""
    import ctypes

    import numpy as np

    shape = tuple(value.shape())
    array = np.empty(shape, dtype)
    if array.nbytes:
        ctypes.memmove(array.ctypes.data, value.data_ptr(), array.nbytes)
    return array
