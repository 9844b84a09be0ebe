"""Device layout of weights where it differs from the graph's.

Weights are permuted either in the graph, as another constant, or on their way to the
device, where the graph is not changed and only the kernel that reads a weight knows its
layout (see `cpu_tuning.convolution_weights`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from amanda.graph import Graph, Op, OutputPort, Provenance
from amanda.tensors import Tensor
from amanda.types import DType
from amanda_jax.weights.memory import aligned_copy, is_memory_mapped, release_pages
from amanda_std.backends import (
    MAX_FOLDED_BYTES,
    Trait,
    full_permutation,
    has_trait,
    op_arguments,
)

__all__ = [
    "DeviceLayout",
    "add_constant",
    "derived_tensor",
    "is_in_mapped_file",
    "permutation_of",
    "permuted_tensor",
    "transpose_at_transfer",
    "transposed_constant",
]


class DeviceLayout(NamedTuple):
    """A layout that a weight has on the device, and the weight in it."""

    key: str
    """What identifies it among the layouts of one weight."""
    convert: Callable[[], Tensor]
    wrap: Callable[[Any], Any] | None = None
    """What kernels are given for the array, if not the array itself."""


def permuted_tensor(tensor: Tensor, order: Sequence[int]) -> Tensor:
    """A weight with its axes permuted, where the device reads it in place."""
    shape = [tensor.shape[axis] for axis in order]
    return derived_tensor(
        tensor, shape, lambda array: aligned_copy(array.transpose(order))
    )


def derived_tensor(
    tensor: Tensor, shape: Sequence[int], convert: Callable[[Any], Any]
) -> Tensor:
    """A weight computed from another: lazily, if that is in a mapped file.

    It then takes no memory before it is transferred, and the pages of the other are
    released. Others would have to be retained for it, so these are computed at once."""

    def compute() -> Any:
        array = tensor.numpy()
        converted = convert(array)
        release_pages(array)
        return converted

    if not is_in_mapped_file(tensor):
        return Tensor.of(compute())
    return Tensor.lazy(compute, DType.of(tensor.numpy().dtype), shape)


def is_in_mapped_file(tensor: Tensor) -> bool:
    """Whether its elements are pages of a mapped file, loaded when they are read."""
    return not tensor.is_lazy and is_memory_mapped(tensor.numpy())


# -- transposes of constants in a graph ------------------------------------------------


def transpose_at_transfer(graph: Graph) -> int:
    """Replace transposes of weights in files by weights transposed when transferred.

    Constant folding would transpose them now, and hold them twice in memory."""
    permuted: dict[tuple[int, tuple[int, ...]], tuple[Tensor, Tensor]] = {}
    count = 0
    for part in graph.graphs():
        for op in list(part):
            weight = transposed_constant(op)
            if weight is None:
                continue
            tensor: Tensor = weight.op.attrs["value"]
            if tensor.nbytes <= MAX_FOLDED_BYTES or not is_in_mapped_file(tensor):
                continue
            key = id(tensor), permutation_of(op, tensor)
            if key not in permuted:
                permuted[key] = tensor, permuted_tensor(tensor, key[1])
            constant = add_constant(part, op, weight, permuted[key][1])
            name, constant.name = op.name, op.output.name
            part.replace(op, [constant], "layout")
            if name is not None:
                part.rename(constant.op, name)
            count += 1
    return count


def transposed_constant(op: Op) -> OutputPort | None:
    """The constant of which this op is a transpose, if it is one."""
    weight = op.inputs[0] if has_trait(op, Trait.PERMUTES_AXES) else None
    return weight if weight is not None and weight.op.is_constant else None


def permutation_of(op: Op, tensor: Tensor) -> tuple[int, ...]:
    """The order of axes of a `transpose` of a tensor."""
    perm = op_arguments(op, lambda port: port)[1]["perm"]
    return full_permutation(perm, len(tensor.shape))


def add_constant(
    graph: Graph, op: Op, weight: OutputPort, tensor: Tensor
) -> OutputPort:
    """Add a weight in another layout as a constant before an op."""
    with graph.before(op):
        constant = graph.constant(tensor)
    constant.provenance = Provenance((weight.op.name or "a weight",), "layout")
    constant.output.type = tensor.type_with_content()
    return constant.output
