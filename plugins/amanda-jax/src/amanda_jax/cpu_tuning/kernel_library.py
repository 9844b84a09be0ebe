"""A library of kernels for XLA on the CPU, which another plug-in may bring."""

from __future__ import annotations

from functools import cache
from typing import Any, Protocol

import jax

from amanda.errors import AmandaError
from amanda.host import default_host

__all__ = ["LayerDivision", "XlaKernels", "xla_kernels"]


class LayerDivision(Protocol):
    """How a layer is divided into tasks, and its weights packed."""

    format: int
    rows: int
    panel: int
    size: int
    """The size of the packed weights, in floats."""


class XlaKernels(Protocol):
    """A plug-in of the group `amanda.kernels` whose manifest has `backend = "jax"`.

    The custom call computes a convolution of channels-last data or a product, in
    float32. Its arguments are the data, the weights, a bias and an addend, where
    attributes say so, and its attributes:

    - `layer`: elements of the batch, groups, channels of the data and of the result,
      and the panel; then for each spatial axis its size, kernel, stride, dilation, and
      padding before and after;
    - `format` and `rows`, of the division;
    - `has_bias`, `has_addend`, `has_relu`.
    """

    target: str
    """The name of the custom call."""
    handler: Any
    """Its function, from `ctypes`."""
    plain_format: int
    """The format of weights of a product that are not packed: outputs, inputs."""

    def divide(self, layer: tuple[int, ...], format: int = 0) -> LayerDivision | None:
        """The division of a layer whose weights have a format, or any; None where
        there is no fast kernel."""

    def pack(
        self, layer: tuple[int, ...], division: Any, weights: Any, packed: Any
    ) -> None:
        """Pack weights, whose axes are outputs, inputs of a group and kernel."""


@cache
def xla_kernels() -> XlaKernels | None:
    """The installed library; None if there is none, or it cannot be loaded.

    The host keeps the fault of one that cannot be loaded: `amanda plugins` shows it."""
    host = default_host()
    for entry in host.entries("kernels"):
        if entry.manifest.get("backend") != "jax":
            continue
        try:
            kernels: XlaKernels = host.load(entry)
        except AmandaError:
            continue
        handler = jax.ffi.pycapsule(kernels.handler)
        jax.ffi.register_ffi_target(kernels.target, handler, platform="cpu")
        return kernels
    return None
