"""Arrays as memory: weights, inputs and results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amanda.errors import BackendError
from amanda.types import DType
from amanda_native.c_interface import code_of_dtype

if TYPE_CHECKING:
    from amanda.tensors import Tensor

__all__ = ["address_of", "array_of_weight", "code_of_array", "row_major"]


def array_of_weight(tensor: Tensor) -> Any:
    """The elements of a weight in row-major order; a view where they are so already."""
    return row_major(tensor.numpy())[0]


def row_major(array: Any) -> tuple[Any, bool]:
    """An array in row-major order and the byte order of the machine; whether copied.

    >>> import numpy as np
    >>> row_major(np.ones((2, 3)).T)[1], row_major(np.ones((2, 3)))[1]
    (True, False)
    """
    import numpy as np

    wanted = array.dtype.newbyteorder("=")
    if array.flags.c_contiguous and array.dtype == wanted and array.flags.aligned:
        return array, False
    return np.array(array, wanted, order="C"), True


def address_of(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def code_of_array(array: Any) -> tuple[int, int]:
    """DLPack's code and bits of the elements of an array."""
    code = code_of_dtype(DType.of(array))
    if code is None:
        raise BackendError(
            f"libraries with a C interface have no arrays of {array.dtype}",
            expected="bool, integers, floats of 16, 32 or 64 bits, or complex numbers",
            hint="run this part on another backend",
        )
    return code
