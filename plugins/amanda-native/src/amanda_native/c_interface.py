"""The structs and functions of `amanda_backend.h`, for ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_char,
    c_char_p,
    c_int32,
    c_int64,
    c_size_t,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any, ClassVar, Final

from amanda.types import DType

__all__ = [
    "CANCELLED",
    "OK",
    "VERSION",
    "BackendTable",
    "CompileArgs",
    "DLDataType",
    "DLManagedTensor",
    "DLTensor",
    "ErrorText",
    "HostTable",
    "RunArgs",
    "RunOutput",
    "code_of_dtype",
    "dtype_of_code",
    "fill_tensor",
]

VERSION: Final = 1
"""AMANDA_BACKEND_VERSION of the header in this package."""
OK: Final = 0
CANCELLED: Final = 2

_Fields = Sequence[tuple[str, Any]]
_CPU: Final = 1
_KINDS: Final = {"int": 0, "uint": 1, "float": 2, "complex": 5, "bool": 6}
_BFLOAT: Final = 4
_BYTE: Final = 8


class DLDevice(Structure):
    _fields_: ClassVar[_Fields] = [("device_type", c_int32), ("device_id", c_int32)]


class DLDataType(Structure):
    _fields_: ClassVar[_Fields] = [
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
    ]


class DLTensor(Structure):
    _fields_: ClassVar[_Fields] = [
        ("data", c_void_p),
        ("device", DLDevice),
        ("ndim", c_int32),
        ("dtype", DLDataType),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


class DLManagedTensor(Structure):
    """DLManagedTensorVersioned."""


DELETER: Final = CFUNCTYPE(None, POINTER(DLManagedTensor))

DLManagedTensor._fields_ = [
    ("major", c_uint32),
    ("minor", c_uint32),
    ("manager_ctx", c_void_p),
    ("deleter", DELETER),
    ("flags", c_uint64),
    ("dl_tensor", DLTensor),
]


class ErrorText(Structure):
    """amanda_error."""

    _fields_: ClassVar[_Fields] = [
        ("size", c_size_t),
        ("message", c_char * 512),
        ("where", c_char * 256),
        ("expected", c_char * 256),
        ("got", c_char * 256),
    ]

    def text(self, name: str) -> str:
        """The text of a field; empty if the library did not set it."""
        data: bytes = getattr(self, name)
        return data.decode("utf-8", "replace")


ALLOCATE: Final = CFUNCTYPE(
    c_void_p, c_void_p, c_int32, DLDataType, c_int32, POINTER(c_int64)
)
LOG: Final = CFUNCTYPE(None, c_void_p, c_int32, c_char_p)
IS_CANCELLED: Final = CFUNCTYPE(c_int32, c_void_p)


class HostTable(Structure):
    """amanda_host."""

    _fields_: ClassVar[_Fields] = [
        ("size", c_size_t),
        ("version", c_uint32),
        ("context", c_void_p),
        ("allocate", ALLOCATE),
        ("log", LOG),
        ("cancelled", IS_CANCELLED),
    ]


class CompileArgs(Structure):
    _fields_: ClassVar[_Fields] = [
        ("size", c_size_t),
        ("host", POINTER(HostTable)),
        ("device", c_char_p),
        ("graph", c_char_p),
        ("graph_length", c_size_t),
        ("options", c_char_p),
        ("options_length", c_size_t),
        ("weights", POINTER(POINTER(DLManagedTensor))),
        ("weight_count", c_size_t),
    ]


class RunOutput(Structure):
    """amanda_output."""

    _fields_: ClassVar[_Fields] = [
        ("tensor", DLTensor),
        ("managed", POINTER(DLManagedTensor)),
    ]


class RunArgs(Structure):
    _fields_: ClassVar[_Fields] = [
        ("size", c_size_t),
        ("host", POINTER(HostTable)),
        ("inputs", POINTER(DLTensor)),
        ("input_count", c_size_t),
        ("outputs", POINTER(RunOutput)),
        ("output_count", c_size_t),
        ("stream", c_void_p),
    ]


_ERROR = POINTER(ErrorText)


class BackendTable(Structure):
    """amanda_backend."""

    _fields_: ClassVar[_Fields] = [
        ("size", c_size_t),
        ("version", c_uint32),
        ("name", c_char_p),
        ("library", c_char_p),
        ("graph_namespace", c_char_p),
        ("devices", POINTER(c_char_p)),
        ("takes", CFUNCTYPE(c_int32, c_char_p, c_size_t, _ERROR)),
        (
            "compile",
            CFUNCTYPE(c_int32, POINTER(CompileArgs), POINTER(c_void_p), _ERROR),
        ),
        ("run", CFUNCTYPE(c_int32, c_void_p, POINTER(RunArgs), _ERROR)),
        ("free_executable", CFUNCTYPE(None, c_void_p)),
    ]


def code_of_dtype(dtype: DType) -> tuple[int, int] | None:
    """DLPack's code and bits of an element type; None if it has none.

    >>> code_of_dtype(DType("bfloat16")), code_of_dtype(DType("bool"))
    ((4, 16), (6, 8))
    """
    if dtype.name == "bfloat16":
        return _BFLOAT, dtype.bits
    if dtype.kind == "bool":
        return _KINDS["bool"], _BYTE
    is_plain = dtype.kind in _KINDS and dtype.bits % _BYTE == 0
    if not is_plain or dtype.name.startswith(("float8", "bcomplex")):
        return None
    return _KINDS[dtype.kind], dtype.bits


def dtype_of_code(code: int, bits: int) -> DType | None:
    """The element type of DLPack's code and bits; None if there is none.

    >>> str(dtype_of_code(0, 32)), dtype_of_code(0, 77)
    ('int32', None)
    """
    return _dtypes().get((code, bits))


def _dtypes() -> dict[tuple[int, int], DType]:
    names = (
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
        "uint64", "float16", "bfloat16", "float32", "float64", "complex64",
        "complex128",
    )  # fmt: skip
    dtypes = [DType(name) for name in names]
    return {code: d for d in dtypes if (code := code_of_dtype(d)) is not None}


def fill_tensor(
    tensor: DLTensor, code: tuple[int, int], shape: Sequence[int], data: int | None
) -> Any:
    """Describe row-major memory on the CPU; returns what must live as long."""
    dims = (c_int64 * max(len(shape), 1))(*shape)
    tensor.data = data
    tensor.device = DLDevice(_CPU, 0)
    tensor.ndim = len(shape)
    tensor.dtype = DLDataType(*code, 1)
    tensor.shape = ctypes.cast(dims, POINTER(c_int64))
    tensor.byte_offset = 0
    return dims
