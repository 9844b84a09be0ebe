"""Tensors of PyTorch and arrays of NumPy, converted without a copy."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import torch

from amanda.types import DType

__all__ = ["TORCH_DTYPES", "numpy_dtype", "to_numpy", "to_tensor", "torch_dtype"]

_SAME_NAME: Final = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
    "uint64", "float16", "bfloat16", "float32", "float64", "complex64",
    "complex128", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
    "float8_e5m2fnuz", "float8_e8m0fnu",
]  # fmt: skip
TORCH_DTYPES: Final = {DType(name): getattr(torch, name) for name in _SAME_NAME}
"""The dtypes of PyTorch by element type. Its 4-bit integers have no ops."""
_NUMPY: Final = {dtype.numpy: own for dtype, own in TORCH_DTYPES.items()}
_BACK: Final = {own: dtype for dtype, own in _NUMPY.items()}
_FOREIGN: Final = frozenset(
    own for dtype, own in TORCH_DTYPES.items() if dtype.name.startswith(("b", "float8"))
) - {torch.bool}
"""Floats that NumPy has from `ml_dtypes`: they go as integers of their size."""
_BITS: Final = {1: (np.uint8, torch.uint8), 2: (np.int16, torch.int16)}


def torch_dtype(dtype: Any) -> Any:
    """The dtype of PyTorch of an element type, or of a dtype of NumPy."""
    return TORCH_DTYPES[DType.of(dtype)]


def numpy_dtype(tensor: Any) -> Any:
    """The dtype that NumPy has for the elements of a tensor."""
    return _BACK[tensor.dtype]


def to_tensor(value: Any, device: Any) -> Any:
    """Arrays as tensors on a device, also those in containers.

    Those with elements that PyTorch does not have, such as strings, are left alone."""
    if isinstance(value, torch.Tensor):
        return value if value.device == device else value.to(device)
    if isinstance(value, list | tuple):
        return type(value)([to_tensor(each, device) for each in value])
    if isinstance(value, dict):
        return {key: to_tensor(each, device) for key, each in value.items()}
    if not isinstance(value, np.ndarray | np.generic):
        return value
    own = _NUMPY.get(value.dtype)
    if own is None:
        return value
    tensor = _shared_tensor(np.asarray(value), own)
    return tensor if device.type == "cpu" else tensor.to(device)


def _shared_tensor(array: Any, own: Any) -> Any:
    """A tensor over the memory of an array. No kernel writes to its arguments."""
    if any(step < 0 for step in array.strides):
        array = np.ascontiguousarray(array)
    is_foreign = own in _FOREIGN
    if is_foreign:
        array = array.view(_BITS[array.itemsize][0])
    if not array.flags.writeable:
        array = np.asarray(_Writable(array))
    tensor = torch.from_numpy(array)
    return tensor.view(own) if is_foreign else tensor


class _Writable:
    """The memory of a read-only array for `numpy.asarray`, as PyTorch warns of those
    that it cannot write to."""

    def __init__(self, array: Any) -> None:
        self._array = array  # keeps the memory
        interface = array.__array_interface__
        address, _ = interface["data"]
        self.__array_interface__ = {**interface, "data": (address, False)}


def to_numpy(value: Any, *, is_row_major: bool = False) -> Any:
    """Tensors as arrays in host memory, also those in containers.

    `is_row_major`: those with other strides, as of many convolutions, are copied."""
    if isinstance(value, torch.Tensor):
        tensor = value.detach().cpu().resolve_conj().resolve_neg()
        if is_row_major:
            tensor = tensor.contiguous()
        if tensor.dtype not in _FOREIGN:
            return tensor.numpy()
        dtype = _BACK[tensor.dtype]
        return tensor.view(_BITS[dtype.itemsize][1]).numpy().view(dtype)
    if isinstance(value, list | tuple):
        return type(value)([to_numpy(v, is_row_major=is_row_major) for v in value])
    if isinstance(value, dict):
        return {k: to_numpy(v, is_row_major=is_row_major) for k, v in value.items()}
    return value
