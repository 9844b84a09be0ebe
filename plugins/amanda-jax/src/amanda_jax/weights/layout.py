"""How weights lie on the device where that is not how the graph has them.

The graph keeps saying what it says; only what reads a weight knows of it. So far that
is convolutions in tiles: see `kernels.tiles`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Final

import numpy as np

from amanda.graph import Op, OutputPort
from amanda.tensors import Tensor
from amanda.types import DType, TensorType
from amanda_jax.cpu_tuning import winograd
from amanda_jax.weights.memory import aligned, is_in_file, let_go, room_for
from amanda_std.backends import (
    channels_first_permutation,
    is_std,
    op_arguments,
    permute,
)

__all__ = [
    "form_along_rows",
    "in_order",
    "layout_in_tiles",
    "lies_in_file",
    "turned",
]

CHANNELS: Final = 32
"""Channels, inside and behind, from which the products are what takes the time."""
ROWS: Final = 32
"""Tiles from which their products are large enough to be worth it."""
LARGE: Final = 1 << 17
"""Results from which XLA has several cores make them."""
PART: Final = 32
"""Channels behind whose kernels are turned at once."""
AT_ONCE: Final = 10
"""Rows that XLA's library for products keeps in registers."""
_RESULTS: Final = (4, 3, 2)
_FLOATS: Final = ("float32", "float64")


def layout_in_tiles(op: Op, *, symbolic: bool = False) -> str | None:
    """The layout of a constant, if all that read it want it turned for tiles.

    `symbolic`: sizes that types leave open are no numbers when it is traced, either, so
    that nobody can count the tiles."""
    graph, port = op.graph, op.output
    if graph is None or port in graph.results:
        return None
    users = set(port.user_ops)
    if not users or not all(u.graph is graph and _in_tiles(u, port) for u in users):
        return None
    if symbolic and not all(map(_is_counted, users)):
        return None
    layouts = {str(_attrs(user)["kernel_layout"]) for user in users}
    return layouts.pop() if len(layouts) == 1 else None


def form_along_rows(op: Op) -> winograd.Form:
    """How tiles along rows take the kernel that this constant is."""
    sizes = [_sizes(user) for user in op.output.user_ops]
    if not all(sizes):
        return winograd.Form(winograd.MOST)
    results = min(_RESULTS, key=lambda n: sum(_work(n, *size[:3]) for size in sizes))
    return winograd.Form(results, apart=all(prod(size) >= LARGE for size in sizes))


def _sizes(op: Op) -> list[int]:
    """Those of what a convolution gives, a batch that nobody knows as one; nothing if
    there are others that nobody knows."""
    found = op.output.type
    if not isinstance(found, TensorType) or not found.shape.has_rank:
        return []
    batch, *others = found.shape
    if not all(isinstance(n, int) for n in others):
        return []
    return [batch if isinstance(batch, int) else 1, *map(int, others)]


def _work(results: int, batch: int, rows: int, columns: int) -> int:
    """How much products of tiles of so many results do, in rows of registers."""
    places = batch * -(-rows // results) * columns
    return winograd.products_of(results) * -(-places // AT_ONCE)


def turned(tensor: Tensor, layout: str, form: winograd.Form) -> Tensor:
    """The kernel for tiles, where the device can read it without another copy."""
    order = channels_first_permutation(layout, len(tensor.shape))
    out, *others = permute(tensor.shape, order)
    one = winograd.turned(np.zeros((1, *others), tensor.dtype.numpy), form)
    shape = (*one.shape[:-1], one.shape[-1] * out)

    def make(array: Any) -> Any:
        kernel, made = array.transpose(order), room_for(shape, array.dtype)
        behind = made.reshape(-1, out)  # a few at a time: it is done in float64
        for first in range(0, out, PART):
            part = winograd.turned(kernel[first : first + PART], form)
            behind[:, first : first + PART] = part.reshape(len(behind), -1)
        return made

    return _made_of(tensor, shape, make)


def in_order(tensor: Tensor, order: Sequence[int]) -> Tensor:
    """A weight with its axes in this order, where the device can read it in place."""
    shape = [tensor.shape[axis] for axis in order]
    return _made_of(tensor, shape, lambda array: aligned(array.transpose(order)))


def _made_of(
    tensor: Tensor, shape: Sequence[int], make: Callable[[Any], Any]
) -> Tensor:
    """A weight that is made of another: when it is asked for, if that lies in a file.

    It takes no memory before it goes to the device then, and what it is made of leaves
    again. What lies elsewhere would have to stay, so that it is made at once."""

    def made() -> Any:
        array = tensor.numpy()
        found = make(array)
        let_go(array)
        return found

    if not lies_in_file(tensor):
        return Tensor.of(made())
    return Tensor.lazy(made, DType.of(tensor.numpy().dtype), shape)


def lies_in_file(tensor: Tensor) -> bool:
    """Whether its elements are pages of a file, which come when they are read."""
    return not tensor.is_lazy and is_in_file(tensor.numpy())


def _in_tiles(op: Op, kernel: OutputPort) -> bool:
    """Whether this is a convolution of data with channels behind that goes in tiles."""
    if op.type != "conv" or not is_std(op):
        return False
    if [i for i, port in enumerate(op.inputs) if port is kernel] != [1]:
        return False
    attrs, tensor = _attrs(op), kernel.op.attrs["value"]
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
        and min(out, inner) >= CHANNELS
        and _are_many(op)
    )


def _attrs(op: Op) -> dict[str, Any]:
    return op_arguments(op, lambda port: port)[1]


def _is_counted(op: Op) -> bool:
    """Whether its type tells how many tiles there are of each element of the batch."""
    found = op.output.type
    if not isinstance(found, TensorType) or not found.shape.has_rank:
        return False
    return all(isinstance(n, int) for n in found.shape[1:-1])


def _are_many(op: Op) -> bool:
    """Whether there are many tiles, or nobody knows."""
    found = op.output.type
    if not isinstance(found, TensorType) or not found.shape.is_static:
        return True
    batch, *size, _ = map(int, found.shape)
    return batch * prod(-(-n // winograd.TILE) for n in size) >= ROWS
