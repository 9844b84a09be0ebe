"""Weights packed for oneDNN, and the convolutions and products that read them.

The kernels are those of the distribution amanda-onednn: custom calls of XLA, whose
tasks run on XLA's own threads. A packed weight is an array of one axis; kernels are
given a `PackedWeights`, which knows what it was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from math import prod
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from amanda.errors import BackendError
from amanda.graph import Op, OutputPort
from amanda.tensors import Tensor
from amanda.types import TensorType
from amanda_jax.cpu_tuning import few_row_products
from amanda_jax.cpu_tuning.kernel_library import LayerDivision, XlaKernels, xla_kernels
from amanda_jax.weights.layout import DeviceLayout, derived_tensor
from amanda_jax.weights.memory import empty_aligned
from amanda_std.backends import (
    channels_first_permutation,
    explicit_padding,
    is_std,
    op_arguments,
    per_axis,
    permute,
)

__all__ = [
    "PackedWeights",
    "convolve_packed",
    "is_available",
    "is_like_result",
    "multiply_packed",
    "multiply_plain",
    "packed_layout",
]

MIN_PRODUCTS: Final = 1 << 17
"""Multiplications from which a custom call is worth it."""
MIN_ROWS: Final = 4
"""Rows from which a product is faster by oneDNN; a vector is by XLA."""


def is_available() -> bool:
    """Whether a library is installed that has kernels for packed weights."""
    return xla_kernels() is not None


def _kernels() -> XlaKernels:
    found = xla_kernels()
    assert found is not None
    return found


class _Window(NamedTuple):
    """What a convolution does along a spatial axis."""

    size: int
    kernel: int
    stride: int
    dilation: int
    low: int
    high: int

    @property
    def result_size(self) -> int:
        reach = self.dilation * (self.kernel - 1) + 1
        return (self.size + self.low + self.high - reach) // self.stride + 1


class _Layer(NamedTuple):
    """A convolution, or a product, which has no windows."""

    batch: int
    groups: int
    inputs: int
    outputs: int
    panel: int
    windows: tuple[_Window, ...] = ()

    @property
    def numbers(self) -> tuple[int, ...]:
        return (*self[:5], *chain.from_iterable(self.windows))

    @property
    def result_shape(self) -> tuple[int, ...]:
        """The shape of the result of a convolution."""
        sizes = (window.result_size for window in self.windows)
        return (self.batch, *sizes, self.outputs)

    @property
    def products(self) -> int:
        """The number of multiplications."""
        positions = self.batch * prod(w.result_size for w in self.windows)
        kernel = prod(w.kernel for w in self.windows)
        return positions * self.outputs * self.inputs // self.groups * kernel


class PackedWeights:
    """An array of packed weights, as kernels are given it.

    `shape`: outputs, inputs of a group, kernel. `format`, `panel`: how it is packed."""

    def __init__(
        self, array: Any, shape: Sequence[int], format: int, panel: int
    ) -> None:
        self.array = array
        self.shape, self.format, self.panel = tuple(shape), format, panel

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def _flatten(self) -> tuple[tuple[Any], tuple[Any, ...]]:
        return (self.array,), (self.shape, self.format, self.panel)


jax.tree_util.register_pytree_node(
    PackedWeights,
    PackedWeights._flatten,
    lambda facts, arrays: PackedWeights(arrays[0], *facts),
)


# -- layouts of weights ----------------------------------------------------------------


class _Use(NamedTuple):
    """How an op reads a weight: as which layer, with its axes in which order."""

    layer: _Layer
    order: tuple[int, ...]
    """The axes of the weight that are outputs, inputs and kernel."""


def packed_layout(op: Op, *, symbolic: bool = False) -> DeviceLayout | None:
    """A weight packed for oneDNN, if all its readers are layers that oneDNN has."""
    graph, port, tensor = op.graph, op.output, op.attrs["value"]
    if symbolic or graph is None or port in graph.results:
        return None
    if str(tensor.dtype) != "float32" or not is_available():
        return None
    users = set(port.user_ops)
    uses = [_use_of(user, port) if user.graph is graph else None for user in users]
    known = [use for use in uses if use is not None]
    if not known or len(known) < len(uses) or len({use.order for use in known}) > 1:
        return None
    if any(use.layer.products < MIN_PRODUCTS for use in known):
        return None
    found = _common_division([use.layer for use in known])
    return None if found is None else _layout(tensor, known[0], found)


def _common_division(layers: Sequence[_Layer]) -> LayerDivision | None:
    """A division for layers that read one weight: the smallest panel of theirs."""
    own = [_kernels().divide(layer.numbers) for layer in layers]
    panel = min(division.panel if division else 0 for division in own)
    if not panel:
        return None
    same = [_kernels().divide(each._replace(panel=panel).numbers) for each in layers]
    packings = {each and (each.format, each.panel, each.size) for each in same}
    return same[0] if len(packings) == 1 else None


def _layout(tensor: Tensor, use: _Use, division: LayerDivision) -> DeviceLayout:
    layer, order = use
    shape = permute(tensor.shape, order)

    def convert(array: Any) -> Any:
        ordered = array.transpose(order)
        if layer.windows:
            ordered = np.ascontiguousarray(ordered)
        packed = empty_aligned((division.size,), ordered.dtype)
        _kernels().pack(layer.numbers, division, ordered, packed)
        return packed

    facts = shape, division.format, division.panel
    return DeviceLayout(
        f"onednn {facts}",
        lambda: derived_tensor(tensor, (division.size,), convert),
        partial(_wrap, facts),
    )


def _wrap(facts: tuple[Any, ...], array: Any) -> PackedWeights:
    if array.ndim != 1:
        raise BackendError("weights are not packed", got=f"shape {array.shape}")
    return PackedWeights(array, *facts)


def _use_of(op: Op, weight: OutputPort) -> _Use | None:
    """How an op reads a weight; None if not as a layer with static sizes."""
    if not is_std(op) or op.type not in _USES:
        return None
    if [i for i, port in enumerate(op.inputs) if port is weight] != [1]:
        return None
    x, y = op.inputs[0], op.output.type
    data = None if x is None else x.type
    if not isinstance(data, TensorType) or not isinstance(y, TensorType):
        return None
    if not data.shape.has_rank or not y.shape.has_rank:
        return None
    if str(data.dtype) != "float32":
        return None
    return _USES[op.type](op, weight.op.attrs["value"], list(data.shape))


def _convolution_use(op: Op, tensor: Tensor, sizes: list[Any]) -> _Use | None:
    attrs = op_arguments(op, lambda port: port)[1]
    batch, *spatial, _ = sizes
    if attrs["layout"] != "N*C" or not all(isinstance(n, int) for n in spatial):
        return None
    order = channels_first_permutation(attrs["kernel_layout"], len(tensor.shape))
    batch = batch if isinstance(batch, int) else 1
    layer = _convolution(batch, spatial, permute(tensor.shape, order), attrs)
    return layer and _Use(layer, tuple(order))


def _product_use(op: Op, tensor: Tensor, sizes: list[Any]) -> _Use | None:
    equation = op_arguments(op, lambda port: port)[1].get("equation")
    if len(tensor.shape) != 2 or equation not in (None, few_row_products.EQUATION):
        return None
    order = (1, 0) if equation is None else (0, 1)
    layer = _product(sizes, *permute(tensor.shape, order))
    return layer and _Use(layer, order)


_USES: Final[dict[str, Callable[[Op, Tensor, list[Any]], _Use | None]]] = {
    "conv": _convolution_use,
    "matmul": _product_use,
    "linear": _product_use,
    "einsum": _product_use,
}


def _convolution(
    batch: int, spatial: Sequence[int], kernel: Sequence[int], attrs: dict[str, Any]
) -> _Layer | None:
    """A convolution with a kernel in OI*, if oneDNN computes such ones."""
    outputs, inputs, *window = kernel
    rank, groups = len(window), int(attrs["groups"])
    strides = per_axis(attrs["strides"], rank)
    dilations = per_axis(attrs["dilations"], rank)
    pads = explicit_padding(attrs["padding"], spatial, window, strides, dilations)
    rows = zip(spatial, window, strides, dilations, pads, strict=True)
    windows = tuple(_Window(n, k, s, d, *pair) for n, k, s, d, pair in rows)
    numbers = chain.from_iterable(windows)
    if not 1 <= rank <= 3 or min(batch, outputs, inputs) < 1 or min(numbers) < 0:
        return None
    layer = _Layer(batch, groups, inputs * groups, outputs, 0, windows)
    return layer if min(layer.result_shape) > 0 else None


def _product(sizes: Sequence[Any], outputs: int, inputs: int) -> _Layer | None:
    """A product of so many rows as the sizes before the last one say."""
    if not all(isinstance(n, int) for n in sizes) or sizes[-1] != inputs:
        return None
    rows = prod(sizes[:-1])
    if rows < MIN_ROWS or min(outputs, inputs) < 1:
        return None
    return _Layer(rows, 1, inputs, outputs, 0)


# -- kernels ---------------------------------------------------------------------------


def convolve_packed(
    x: Any, w: PackedWeights, b: Any, addend: Any, relu: bool, attrs: dict[str, Any]
) -> Any:
    """A channels-last convolution, then a sum and ReLU where these are asked for."""
    layer = _layer_of(x, w, attrs)
    return _call(layer, w, x, layer.result_shape, b, addend, relu=relu)


def is_like_result(y: Any, x: Any, w: PackedWeights, attrs: dict[str, Any]) -> bool:
    """Whether a value has the shape and type of the result of a convolution."""
    has_shape = tuple(y.shape) == _layer_of(x, w, attrs).result_shape
    return has_shape and str(y.dtype) == "float32"


def _layer_of(x: Any, w: PackedWeights, attrs: dict[str, Any]) -> _Layer:
    batch, *spatial, _ = x.shape
    layer = _convolution(batch, spatial, w.shape, attrs)
    if layer is None:
        raise _no_kernel_error(x.shape, w)
    return layer


def multiply_packed(x: Any, w: PackedWeights, b: Any = None) -> Any:
    """A product with packed weights, and a bias."""
    layer = _product(x.shape, *w.shape)
    if layer is None:
        raise _no_kernel_error(x.shape, w)
    return _call(layer, w, x, (*x.shape[:-1], layer.outputs), b)


def multiply_plain(equation: str, *xs: Any) -> Any:
    """A product with a weight that is stored transposed, or None where XLA is faster.

    The weight is read as it is: something else may read it, too."""
    if equation != few_row_products.EQUATION or not is_available():
        return None
    x, weight = xs
    if isinstance(weight, PackedWeights):
        return multiply_packed(x, weight)
    if weight.ndim != 2 or not str(x.dtype) == str(weight.dtype) == "float32":
        return None
    layer = _product(x.shape, *weight.shape)
    if layer is None or layer.products < MIN_PRODUCTS:
        return None
    division = _kernels().divide(layer.numbers, _kernels().plain_format)
    if division is None:
        return None
    plain = PackedWeights(weight, weight.shape, division.format, division.panel)
    return _call(layer, plain, x, (*x.shape[:-1], layer.outputs))


def _call(
    layer: _Layer,
    w: PackedWeights,
    x: Any,
    shape: Sequence[int],
    b: Any = None,
    addend: Any = None,
    *,
    relu: bool = False,
) -> Any:
    layer = layer._replace(panel=w.panel)
    division = _kernels().divide(layer.numbers, w.format)
    if division is None:
        raise _no_kernel_error(x.shape, w)
    more = [jnp.asarray(each) for each in (b, addend) if each is not None]
    call = jax.ffi.ffi_call(
        _kernels().target, jax.ShapeDtypeStruct(tuple(shape), np.float32)
    )
    return call(
        jnp.asarray(x),
        w.array,
        *more,
        layer=np.array(layer.numbers, np.int64),
        format=np.int64(w.format),
        rows=np.int64(division.rows),
        has_bias=b is not None,
        has_addend=addend is not None,
        has_relu=relu,
    )


def _no_kernel_error(shape: Sequence[int], w: PackedWeights) -> BackendError:
    return BackendError(
        "oneDNN has no kernel for packed weights",
        got=f"data of shape {[*shape]}, weights of shape {[*w.shape]}",
        hint="amanda.compile(graph, 'jax', without='onednn')",
    )
