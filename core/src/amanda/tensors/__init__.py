"""Tensors with lazily loaded elements, and attribute values.

Importing this does not import numpy; converting a tensor to an array does.
"""

from __future__ import annotations

from amanda.argument_checks import check_arguments
from amanda.tensors.compute_ahead import blocks_ahead
from amanda.tensors.contiguous import contiguous_array
from amanda.tensors.dlpack import as_array
from amanda.tensors.file_map import FileMap
from amanda.tensors.packing import check_shape, packed_size
from amanda.tensors.sharing import dedup
from amanda.tensors.tensor import Tensor
from amanda.tensors.values import (
    AttrValue,
    FunctionRef,
    check_attr,
    same_value,
    value_digest,
)

__all__ = [
    "AttrValue",
    "FileMap",
    "FunctionRef",
    "Tensor",
    "as_array",
    "blocks_ahead",
    "check_attr",
    "check_shape",
    "contiguous_array",
    "dedup",
    "packed_size",
    "same_value",
    "value_digest",
]

check_arguments(globals())
