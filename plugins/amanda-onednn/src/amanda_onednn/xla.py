"""Convolutions and products of oneDNN as custom calls of XLA on the CPU.

The library is loaded with `ctypes`, and needs no JAX: whoever compiles with XLA
registers `XlaKernels.handler` for the target `XlaKernels.target`."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from amanda.errors import AmandaError
from amanda_onednn.libraries import find_library

__all__ = ["Division", "XlaKernels", "load_library"]

_Int64 = ctypes.c_int64
_Numbers = ctypes.POINTER(_Int64)
_Floats = ctypes.c_void_p


class Division(NamedTuple):
    """How a layer is divided into tasks, and its weights packed."""

    format: int
    """The number of a memory format of oneDNN."""
    rows: int
    """Rows of results, along the first spatial axis, that a task computes."""
    panel: int
    """Outputs whose weights are packed together."""
    size: int
    """The size of the packed weights, in floats."""


class XlaKernels:
    """The library with the custom call, and what its weights need.

    A layer is a sequence of numbers: elements of the batch, groups, channels of the
    data and of the result, and the panel, or 0 to choose one; then for each spatial
    axis its size, kernel, stride, dilation, and padding before and after. Without
    spatial axes it is a product of as many rows as the batch has elements."""

    target: Final = "amanda_onednn_layer"
    plain_format: Final = 3
    """The format of weights of a product that are not packed: outputs, inputs."""

    def __init__(self) -> None:
        library = load_library(find_library("libonednn_xla.so"))
        self.handler: Any = library.amanda_onednn_layer
        self._divide = library.amanda_onednn_divide
        self._divide.restype = _Int64
        self._divide.argtypes = [_Numbers, ctypes.c_size_t, _Numbers]
        self._pack = library.amanda_onednn_pack
        self._pack.restype = _Int64
        self._pack.argtypes = [
            _Numbers, ctypes.c_size_t, _Int64, _Floats, _Numbers, _Floats,
        ]  # fmt: skip
        self._divide_cached = cache(self._find_division)

    def divide(self, layer: tuple[int, ...], format: int = 0) -> Division | None:
        """The division of a layer, or None where oneDNN has no fast kernel.

        `format`: that of weights that are packed already."""
        return self._divide_cached(layer, format)

    def _find_division(self, layer: tuple[int, ...], format: int) -> Division | None:
        found = (_Int64 * 4)(format, 0, 0, 0)
        has_kernel = self._divide(_numbers(layer), len(layer), found) == 1
        return Division(*found) if has_kernel else None

    def pack(
        self, layer: Sequence[int], division: Division, weights: Any, packed: Any
    ) -> None:
        """Pack weights into an array; both are of float32.

        The axes of `weights` are outputs, inputs of a group, kernel; those of a
        convolution are contiguous in this order."""
        numbers = _numbers([*layer[:4], division.panel, *layer[5:]])
        strides = _numbers([step // weights.itemsize for step in weights.strides])
        source, target = weights.ctypes.data, packed.ctypes.data
        if self._pack(numbers, len(layer), division.format, source, strides, target):
            raise AmandaError(
                "oneDNN cannot pack weights",
                where=str([*layer]),
                got=f"format {division.format}",
            )


def _numbers(values: Sequence[int]) -> Any:
    return (_Int64 * len(values))(*values)


def load_library(path: Path) -> ctypes.CDLL:
    """The library; an error that says how to install it if that is not possible."""
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise AmandaError(
            "the library with the kernels of oneDNN cannot be loaded",
            who="amanda-onednn",
            got=str(error),
            hint="pip install --force-reinstall amanda-onednn onednn-cpu-gomp",
        ) from error
