"""Values in and out of a session: arrays, and lists and dicts of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from amanda.errors import BackendError
from amanda.types import DType

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

__all__ = ["Slot"]

# Element types as the runtime calls them, where its name is not one of ours.
_NAMES: Final = {
    "float": "float32",
    "double": "float64",
    "float8e8m0": "float8_e8m0fnu",
}
# Those that numpy does not know: the number that ONNX has for each. Arrays of ml_dtypes
# go in and out as the bits that they are.
_BITS: Final = {
    "bfloat16": 16,
    "float8e4m3fn": 17,
    "float8e4m3fnuz": 18,
    "float8e5m2": 19,
    "float8e5m2fnuz": 20,
    "float8e8m0": 24,
}
# Tensors in sequences and optionals; what these hold is one array or a list of them.
_INSIDE: Final = re.compile(r"(?:(?:seq|optional)\()+tensor\((\w+)\)+")


class Slot:
    """An input or an output of a session."""

    def __init__(self, told: Any) -> None:
        self.name: str = told.name
        kind: str = told.type
        self._element = kind[7:-1] if kind.startswith("tensor(") else ""
        self.is_plain = not any(f"({name})" in kind for name in _BITS)
        self._kind = kind
        self.is_bound = self.is_plain and bool(self._element) and "string" not in kind
        """Can results be written where they are wanted?"""
        inside = _INSIDE.fullmatch(kind)
        self._inside = inside[1] if inside else self._element

    def array(self, value: Any) -> Any:
        """What the session takes; a list where it is a sequence."""
        import numpy as np

        if not self._inside or value is None:
            return value
        if isinstance(value, list | tuple) and not self._element:
            return [self.array(each) for each in value]  # the runtime takes no scalars
        if hasattr(value, "dtype"):
            return np.asarray(value)
        return np.asarray(value, self._dtype())

    def held(self, value: Any) -> Any:
        """The same as a value of the runtime."""
        import numpy as np
        from onnxruntime import OrtValue

        array = self.array(value)
        code = _BITS.get(self._element)
        if not self._element:
            raise BackendError(
                f"onnxruntime takes no {self._kind} beside numbers unknown to numpy"
            )
        if code is None:
            return OrtValue.ortvalue_from_numpy(array)
        bits = np.asarray(array, order="C").view(f"u{array.dtype.itemsize}")
        return OrtValue.ortvalue_from_numpy_with_onnx_type(bits, code)

    def taken(self, value: Any) -> Any:
        """An array of a value of the runtime."""
        if self._element not in _BITS:
            return value.numpy()
        if value.device_name().lower() != "cpu":
            raise BackendError(f"{self._element} stays on {value.device_name()}")
        return _copied(value, self._dtype())

    def _dtype(self) -> Any:
        name = _NAMES.get(self._inside, self._inside)
        return DType(name).numpy


def _copied(value: Any, dtype: Any) -> Array:
    """The bytes of a value whose element type the runtime gives no array of."""
    import ctypes

    import numpy as np

    shape = tuple(value.shape())
    array = np.empty(shape, dtype)
    if array.nbytes:
        ctypes.memmove(array.ctypes.data, value.data_ptr(), array.nbytes)
    return array
