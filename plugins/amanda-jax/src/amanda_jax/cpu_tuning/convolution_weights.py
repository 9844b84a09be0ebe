"""Device layouts of convolution kernels on the CPU: channels-last, and Winograd."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from math import prod
from typing import Any, Final

import numpy as np

from amanda.graph import Graph, Op, OutputPort
from amanda.tensors import Tensor
from amanda.types import TensorType
from amanda_jax.cpu_tuning import winograd
from amanda_jax.weights.layout import (
    DeviceLayout,
    add_constant,
    derived_tensor,
    permuted_tensor,
)
from amanda_jax.weights.memory import empty_aligned
from amanda_std import passes
from amanda_std.backends import (
    channels_first_permutation,
    is_std,
    op_arguments,
    permute,
)

__all__ = [
    "channels_last_kernels",
    "kernels_to_channels_last",
    "winograd_along_rows",
    "winograd_every_axis",
    "winograd_kernel",
    "winograd_pairs_of_rows",
]

MIN_CHANNELS: Final = 32
"""Input and output channels from which the products dominate the time."""
MIN_TILES: Final = 32
"""Tiles from which their products are large enough to be worth it."""
PAIRS_CHANNELS: Final = 128
PAIRS_POSITIONS: Final = 196
"""Input and output channels, and positions of the result, from which tiles that are
pairs of rows are faster on several cores than pairs along both axes."""
SERIAL_PRODUCT: Final = 10_000_000
"""Multiplications below which XLA's library runs a product on one core."""
PARALLEL_SIZE: Final = 1 << 17
"""Elements of a result from which XLA computes it on several cores."""
CHUNK: Final = 32
"""Output channels whose kernels are transformed at once."""
REGISTER_ROWS: Final = 10
"""Rows that XLA's library for products keeps in registers."""
_ROW_RESULTS: Final = (4, 3, 2)
_FLOATS: Final = ("float32", "float64")


# -- channels-last kernels -------------------------------------------------------------


def channels_last_kernels(graph: Graph, enabled: Collection[str]) -> None:
    """Convert convolutions to channels-last layout, with their constant kernels."""
    if not any(_is_convolution(op) for op in graph.walk()):
        return
    passes.channels_last(graph)
    for part in graph.graphs():
        kernels_to_channels_last(
            part,
            use_winograd=part is graph and "tiles" in enabled,
            output_first="transposed" in enabled,
        )
    passes.fold(graph)
    passes.drop(graph)


def kernels_to_channels_last(
    graph: Graph,
    *,
    use_winograd: bool,
    symbolic: bool = False,
    output_first: bool = False,
) -> None:
    """Constant kernels in the order that XLA's convolutions on the CPU read
    contiguously.

    Others would be transposed in every call. `use_winograd`: leave out those that are
    transformed for Winograd when they are transferred; kernels in bodies come from
    outside there, as those of any convolution. `output_first`: leave kernels of one
    element as they are, which products read with the outputs first."""
    permuted: dict[int, OutputPort] = {}
    for op in list(graph):
        kernel = op.inputs[1] if _is_convolution(op) else None
        if kernel is None or not kernel.op.is_constant:
            continue
        attrs = _attributes(op)
        if attrs["layout"] != "N*C" or attrs["kernel_layout"] != "OI*":
            continue
        if use_winograd and _winograd_layout(kernel.op, symbolic) is not None:
            continue
        tensor = kernel.op.attrs["value"]
        if output_first and _is_product(tensor, attrs):
            continue
        if id(tensor) not in permuted:
            order = (*range(2, len(tensor.shape)), 1, 0)
            constant = add_constant(graph, op, kernel, permuted_tensor(tensor, order))
            permuted[id(tensor)] = constant
        op.input_ports[1].connect(permuted[id(tensor)])
        op.attrs["kernel_layout"] = "*IO"


def _is_product(kernel: Tensor, attrs: Mapping[str, Any]) -> bool:
    """Whether a convolution is computed as one product of its data and its kernel."""
    padding = attrs["padding"]
    is_padded = padding is not None and any(map(any, padding))
    return attrs["groups"] == 1 and set(kernel.shape[2:]) == {1} and not is_padded


def _is_convolution(op: Op) -> bool:
    return op.type == "conv" and is_std(op)


# -- Winograd kernels ------------------------------------------------------------------


def winograd_every_axis(op: Op, *, symbolic: bool = False) -> DeviceLayout | None:
    """A kernel transformed for Winograd tiles along every axis."""
    layout = _winograd_layout(op, symbolic)
    if layout is None:
        return None
    tensor = op.attrs["value"]
    return DeviceLayout(layout, partial(winograd_kernel, tensor, layout))


def winograd_pairs_of_rows(op: Op, *, symbolic: bool = False) -> DeviceLayout | None:
    """A kernel transformed for Winograd in pairs of rows, where that is faster."""
    layout = _winograd_layout(op, symbolic)
    tensor, form = op.attrs["value"], winograd.WinogradForm(winograd.TILE)
    users = op.output.user_ops
    if layout is None or not all(_gains_from_pairs(user, tensor) for user in users):
        return None
    return DeviceLayout(layout, partial(winograd_kernel, tensor, layout, form))


def winograd_along_rows(op: Op, *, symbolic: bool = False) -> DeviceLayout | None:
    """A kernel transformed for Winograd tiles along rows alone."""
    layout = _winograd_layout(op, symbolic)
    if layout is None:
        return None
    tensor, form = op.attrs["value"], _form_along_rows(op)
    return DeviceLayout(layout, partial(winograd_kernel, tensor, layout, form))


def winograd_kernel(
    tensor: Tensor, layout: str, form: winograd.WinogradForm = winograd.EVERY_AXIS
) -> Tensor:
    """The transformed kernel, where the device reads it without another copy."""
    order = channels_first_permutation(layout, len(tensor.shape))
    out, *others = permute(tensor.shape, order)
    one = winograd.transform_kernel(np.zeros((1, *others), tensor.dtype.numpy), form)
    shape = (*one.shape[:-1], one.shape[-1] * out)

    def convert(array: Any) -> Any:
        kernel, result = array.transpose(order), empty_aligned(shape, array.dtype)
        rows = result.reshape(-1, out)
        for first in range(0, out, CHUNK):  # the transform is computed in float64
            part = winograd.transform_kernel(kernel[first : first + CHUNK], form)
            rows[:, first : first + CHUNK] = part.reshape(len(rows), -1)
        return result

    return derived_tensor(tensor, shape, convert)


def _winograd_layout(op: Op, symbolic: bool) -> str | None:
    """The kernel layout of a constant, if all its readers are Winograd convolutions.

    `symbolic`: open dims have no number during tracing either, so that tiles cannot be
    counted."""
    graph, port = op.graph, op.output
    if graph is None or port in graph.results:
        return None
    users = set(port.user_ops)
    if not users or not all(
        user.graph is graph and _uses_winograd(user, port) for user in users
    ):
        return None
    if symbolic and not all(map(_has_known_tiles, users)):
        return None
    layouts = {str(_attributes(user)["kernel_layout"]) for user in users}
    return layouts.pop() if len(layouts) == 1 else None


def _uses_winograd(op: Op, kernel: OutputPort) -> bool:
    """Whether this is a channels-last convolution that Winograd is used for."""
    if not _is_convolution(op):
        return False
    if [i for i, port in enumerate(op.inputs) if port is kernel] != [1]:
        return False
    attrs, tensor = _attributes(op), kernel.op.attrs["value"]
    if str(tensor.dtype) not in _FLOATS or len(tensor.shape) != 4:
        return False
    steps = [n for key in ("strides", "dilations") for n in attrs[key] or ()]
    order = channels_first_permutation(attrs["kernel_layout"], 4)
    out, inner, *window = permute(tensor.shape, order)
    return (
        attrs["layout"] == "N*C"
        and attrs["groups"] == 1
        and set(steps) <= {1}
        and set(window) == {winograd.KERNEL}
        and min(out, inner) >= MIN_CHANNELS
        and _has_many_tiles(op)
    )


def _attributes(op: Op) -> dict[str, Any]:
    return op_arguments(op, lambda port: port)[1]


def _has_known_tiles(op: Op) -> bool:
    """Whether its type has the number of tiles of each element of the batch."""
    own = op.output.type
    if not isinstance(own, TensorType) or not own.shape.has_rank:
        return False
    return all(isinstance(n, int) for n in own.shape[1:-1])


def _has_many_tiles(op: Op) -> bool:
    """Whether there are many tiles, or their number is unknown."""
    own = op.output.type
    if not isinstance(own, TensorType) or not own.shape.is_static:
        return True
    batch, *size, _ = map(int, own.shape)
    return batch * prod(-(-n // winograd.TILE) for n in size) >= MIN_TILES


# -- tiles along rows ------------------------------------------------------------------


def _gains_from_pairs(op: Op, kernel: Tensor) -> bool:
    """Whether products over three kernel elements are faster than over one.

    They run on several cores, which XLA's library gives no product of fewer than
    `SERIAL_PRODUCT` multiplications; but their data is three times as large."""
    *size, out = _result_dims(op) or [0]
    tiles = prod(-(-n // winograd.TILE) for n in size[1:])
    weights = prod(kernel.shape) // winograd.KERNEL**2
    return (
        min(out, weights // max(out, 1)) >= PAIRS_CHANNELS
        and prod(size) >= PAIRS_POSITIONS
        and size[0] * tiles * weights < SERIAL_PRODUCT
    )


def _form_along_rows(op: Op) -> winograd.WinogradForm:
    """The form with the least work for all readers of a kernel."""
    sizes = [_result_dims(user) for user in op.output.user_ops]
    if not all(sizes):
        return winograd.WinogradForm(winograd.MAX_ROWS)
    results = min(
        _ROW_RESULTS, key=lambda n: sum(_products_work(n, *size[:3]) for size in sizes)
    )
    sum_after = all(prod(size) >= PARALLEL_SIZE for size in sizes)
    return winograd.WinogradForm(results, sum_after=sum_after)


def _result_dims(op: Op) -> list[int]:
    """The dims of the result, an unknown batch as 1; empty if others are unknown."""
    own = op.output.type
    if not isinstance(own, TensorType) or not own.shape.has_rank:
        return []
    batch, *others = own.shape
    if not all(isinstance(n, int) for n in others):
        return []
    return [batch if isinstance(batch, int) else 1, *map(int, others)]


def _products_work(results: int, batch: int, rows: int, columns: int) -> int:
    """The work of the products of tiles with so many results, in rows of registers."""
    positions = batch * -(-rows // results) * columns
    return winograd.product_count(results) * -(-positions // REGISTER_ROWS)
