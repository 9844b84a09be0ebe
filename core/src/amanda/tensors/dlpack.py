"""Feeds as arrays of numpy; arrays of other libraries are read through DLPack."""

from __future__ import annotations

import ctypes
from typing import Any, Final

from amanda.errors import UsageError

__all__ = ["as_array"]

_PENDING: Final = ("detach", "resolve_conj", "resolve_neg")
"""Methods that return a tensor without the gradient that it records, and with what it
defers: some libraries export memory that is still to be conjugated or negated."""
_FAULTS: Final = (BufferError, RuntimeError, TypeError, ValueError)
"""What libraries and numpy raise for memory that they do not share."""
_UINT, _BFLOAT = 1, 4  # codes of element types in DLPack


def as_array(value: Any, dtype: Any = None) -> Any:
    """A value as an array of numpy, without a copy where possible.

    `dtype` is that of values without one, such as lists of numbers."""
    import numpy as np

    if isinstance(value, np.ndarray):
        return value
    if hasattr(value, "__dlpack__") and not isinstance(value, np.generic):
        return _array_from_dlpack(value)
    has_own = hasattr(value, "dtype") or hasattr(value, "__array__")
    return np.asarray(value, None if has_own else dtype)


def _array_from_dlpack(value: Any) -> Any:
    """The memory of an array of another library, as an array of numpy.

    It is shared, unless the library defers an operation. Numpy itself reads no
    bfloat16."""
    import numpy as np

    for name in _PENDING:
        method = getattr(value, name, None)
        value = method() if callable(method) else value
    try:
        return np.from_dlpack(value)
    except _FAULTS as error:
        first = error
    try:
        return _array_from_bits(value)
    except _FAULTS:
        pass  # memory of another device, for instance
    try:
        return np.asarray(value)
    except _FAULTS as error:
        raise UsageError(
            f"the memory of this {type(value).__name__} cannot be read as an array",
            got=str(first),
            hint="feed an array of numpy",
        ) from error


def _array_from_bits(value: Any) -> Any:
    import numpy as np

    shared = _SharedBits(value)
    array = np.from_dlpack(shared)
    if not shared.is_bfloat16:
        return array
    from ml_dtypes import bfloat16

    return array.view(bfloat16)


class _DataType(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
    )


class _Tensor(ctypes.Structure):
    """The first fields of DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
    )


class _SharedBits:
    """An array of another library whose elements of bfloat16 are given as uint16."""

    def __init__(self, value: Any) -> None:
        self._device = value.__dlpack_device__()
        self._capsule = value.__dlpack__()
        pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
        pointer_of.restype = ctypes.POINTER(_Tensor)
        pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]
        dtype = pointer_of(self._capsule, b"dltensor").contents.dtype
        self.is_bfloat16 = (dtype.code, dtype.bits) == (_BFLOAT, 16)
        if self.is_bfloat16:
            dtype.code = _UINT

    def __dlpack__(self, **_options: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> Any:
        return self._device
