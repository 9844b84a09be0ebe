"""Sharding policies: which inputs and weights are sharded over an axis of a mesh."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from amanda.graph import Graph, Op, OutputPort, Parameter
from amanda.types import TensorType
from amanda_jax.shapes.static_values import analyze_static_values
from amanda_jax.weights.device_weights import is_weight
from amanda_std.backends import Trait, has_trait, is_std

__all__ = [
    "POLICIES",
    "ShardingChoice",
    "ShardingPolicy",
    "is_constant_value",
    "shape_of",
]

CanShard = Callable[[OutputPort, int], bool]
"""Whether an axis of a value can still be sharded, evenly."""


class ShardingChoice(NamedTuple):
    """The axis along which something is sharded, or why it is not."""

    axis: int | None
    why: str = ""


class ShardingPolicy(NamedTuple):
    """A policy, and the axis of the mesh that it shards over by default."""

    axis: str
    choices: Callable[[Graph, CanShard], dict[OutputPort, ShardingChoice]]


def shape_of(port: OutputPort) -> tuple[Any, ...] | None:
    """The shape of a value, with symbolic dims; None for an unknown rank."""
    if is_constant_value(port):
        return tuple(port.op.attrs["value"].shape)
    own = port.type
    if not isinstance(own, TensorType) or not own.shape.has_rank:
        return None
    return tuple(own.shape.dims)


def is_constant_value(port: OutputPort) -> bool:
    """Whether a value is a constant."""
    return type(port) is not Parameter and port.op.is_constant


# -- inputs --------------------------------------------------------------------------


def batch(graph: Graph, can_shard: CanShard) -> dict[OutputPort, ShardingChoice]:
    """The first axis of the first input that has one, and of inputs that share it."""
    del can_shard  # what cannot be sharded is an error, not silently whole
    static = set(analyze_static_values(graph).data)
    chosen: dict[OutputPort, ShardingChoice] = {}
    batch_size: Any = None
    for port in graph.parameters:
        shape = shape_of(port)
        if not shape or port in static:
            continue
        size = getattr(shape[0], "key", shape[0])  # symbols compare by their key
        batch_size = size if batch_size is None else batch_size
        if size == batch_size:
            chosen[port] = ShardingChoice(0)
    return chosen


# -- weights -------------------------------------------------------------------------


def largest(graph: Graph, can_shard: CanShard) -> dict[OutputPort, ShardingChoice]:
    """Every weight along its largest axis that can be sharded."""
    chosen = {}
    for port in _weights(graph):
        shape = shape_of(port) or ()
        order = [i for _, i in sorted((-size, i) for i, size in enumerate(shape))]
        axis = next((i for i in order if can_shard(port, i)), None)
        why = "" if axis is not None else "no axis of it can be sharded evenly"
        chosen[port] = ShardingChoice(axis, why)
    return chosen


def _weights(graph: Graph) -> Iterator[OutputPort]:
    static = analyze_static_values(graph).constants
    for op in graph:
        if is_weight(op) and op.output not in static:
            yield op.output


def alternating(graph: Graph, can_shard: CanShard) -> dict[OutputPort, ShardingChoice]:
    """Weights of products by columns, then by rows, alternating along the graph
    (Megatron).

    The result of a product by columns is sharded along its last axis, and so is what is
    computed from it, until a product by rows adds the parts up. No data is exchanged in
    between."""
    chosen: dict[OutputPort, ShardingChoice] = {}
    sharded: set[OutputPort] = set()
    column_counts: dict[OutputPort, int] = {}
    weights = set(_weights(graph))
    for op in graph:
        product = _product(op) if is_std(op) else None
        if product is not None and product.weight in weights:
            by_rows = product.x in sharded
            axis = product.rows if by_rows else product.columns
            if not can_shard(product.weight, axis):
                why = f"its {'rows' if by_rows else 'columns'} cannot be sharded evenly"
                chosen.setdefault(product.weight, ShardingChoice(None, why))
                continue
            chosen.setdefault(product.weight, ShardingChoice(axis))
            if not by_rows:
                sharded.update(op.outputs)
                shape = shape_of(product.weight) or ()
                column_counts[op.output] = shape[product.columns]
                if product.bias in weights and can_shard(product.bias, 0):
                    chosen.setdefault(product.bias, ShardingChoice(0))
        elif any(v in sharded for v in op.inputs):
            sharded.update(op.outputs)
            for bias, size in _biases(op, column_counts):
                axis = len(shape_of(bias) or ()) - 1
                if bias in weights and can_shard(bias, axis):
                    chosen.setdefault(bias, ShardingChoice(axis))
                    column_counts[op.output] = size
    return chosen


class _MatrixProduct(NamedTuple):
    x: OutputPort
    weight: OutputPort
    rows: int
    columns: int
    bias: Any = None


def _product(op: Op) -> _MatrixProduct | None:
    """A product with a constant matrix, and its axes."""
    if not has_trait(op, Trait.MATRIX_PRODUCT):
        return None
    inputs: list[OutputPort | None] = [*op.inputs, None, None]
    x, weight, *rest = inputs
    if x is None or weight is None or not is_constant_value(weight):
        return None
    if len(shape_of(weight) or ()) != 2:
        return None
    if has_trait(op, Trait.LINEAR_LAYER):
        return _MatrixProduct(x, weight, 0, 1, rest[0])
    axes = _einsum_axes(str(op.attrs["equation"])) if len(op.inputs) == 2 else None
    return None if axes is None else _MatrixProduct(x, weight, *axes)


def _einsum_axes(equation: str) -> tuple[int, int] | None:
    """The axis of the second operand that is summed over, and the one that is the last
    of the result; None if it is no product with a matrix."""
    terms, _, result = equation.replace(" ", "").partition("->")
    _, _, matrix = terms.partition(",")
    if len(matrix) != 2 or not result or result[-1] not in matrix:
        return None
    columns = matrix.index(result[-1])
    rows = 1 - columns
    return None if matrix[rows] in result else (rows, columns)


def _biases(
    op: Op, column_counts: dict[OutputPort, int]
) -> Iterator[tuple[OutputPort, int]]:
    """Constants added to the columns of a product, with their size."""
    sizes = [
        column_counts[v] for v in op.inputs if v is not None and v in column_counts
    ]
    if op.type != "add" or len(sizes) != 1:
        return
    for value in op.inputs:
        if value is None or value in column_counts or not is_constant_value(value):
            continue
        shape = shape_of(value)
        if shape and shape[-1] == sizes[0] and all(n == 1 for n in shape[:-1]):
            yield value, sizes[0]


POLICIES: Final = {
    "batch": ShardingPolicy("data", batch),
    "megatron": ShardingPolicy("model", alternating),
    "fsdp": ShardingPolicy("data", largest),
}
