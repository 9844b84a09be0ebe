"""Weights of matrix products, stored transposed where the CPU reads them faster so."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod
from typing import Final

from amanda.graph import Graph, Op, OutputPort
from amanda.tensors import Tensor
from amanda.types import TensorType
from amanda_jax.cpu_tuning import few_row_products
from amanda_jax.weights.layout import (
    add_constant,
    permutation_of,
    permuted_tensor,
    transposed_constant,
)
from amanda_std.backends import Trait, has_trait, is_std

__all__ = ["read_stored_transpose", "transpose_product_weights"]

LONG_ROW: Final = 4096
VECTOR: Final = 16


def read_stored_transpose(graph: Graph, enabled: Collection[str]) -> int:
    """Read weights that the graph transposes as they are stored, where that is faster.

    This precedes constant folding, which would transpose them: they would be transposed
    twice, and held twice in memory where something else reads the original, as where
    one weight embeds tokens and computes their logits. Products whose result is scaled
    are left to `fold_norms`."""
    if "algebra" not in enabled:  # nothing is folded
        return 0
    products = [
        (part, op, weight)
        for part in graph.graphs()
        for op in part
        if (weight := _stored_transpose(op)) is not None
        and not any(has_trait(user, Trait.SCALING) for user in op.output.user_ops)
    ]
    for part, op, weight in products:
        _multiply_transposed(part, op, weight)
    return len(products)


def _stored_transpose(op: Op) -> OutputPort | None:
    """The constant that a product reads transposed, if it is faster as it is stored."""
    right = op.inputs[1] if op.type == "matmul" and is_std(op) else None
    weight = None if right is None else transposed_constant(right.op)
    if right is None or weight is None or weight.graph is not op.graph:
        return None
    tensor = weight.op.attrs["value"]
    if permutation_of(right.op, tensor) != (1, 0):
        return None
    is_faster = _is_faster_transposed(op, str(tensor.dtype), tensor.shape[::-1])
    return weight if is_faster else None


def transpose_product_weights(graph: Graph, enabled: Collection[str]) -> None:
    """Store large weights of products transposed, where XLA reads them faster so.

    These are weights for up to a thousand rows, see `few_row_products`, and those whose
    rows are no whole number of vectors: their rows are not aligned, and XLA reads
    columns instead if the product is written so. A weight that another op reads is
    stored both ways."""
    del enabled
    transposed: dict[int, tuple[Tensor, Tensor]] = {}
    for part in graph.graphs():
        _transpose_weights_of(part, transposed)


def _transpose_weights_of(
    graph: Graph, transposed: dict[int, tuple[Tensor, Tensor]]
) -> None:
    """`transposed`: original and transposed tensors, by the original's identity."""
    constants: dict[int, OutputPort] = {}
    for op in list(graph):
        weight = op.inputs[1] if op.type == "matmul" and is_std(op) else None
        if weight is None or not weight.op.is_constant:
            continue
        tensor = weight.op.attrs["value"]
        key = id(tensor)
        if not _is_faster_transposed(op, str(tensor.dtype), tensor.shape):
            continue
        if key not in transposed:
            transposed[key] = tensor, permuted_tensor(tensor, (1, 0))
        if key not in constants:
            constants[key] = add_constant(graph, op, weight, transposed[key][1])
        _multiply_transposed(graph, op, constants[key])
        owner = weight.graph  # a body may read weights of graphs around it
        if owner is not None and not weight.user_ops:
            owner.remove(weight.op)


def _multiply_transposed(graph: Graph, op: Op, transposed: OutputPort) -> None:
    """Replace a product by one with the transposed weight."""
    with graph.before(op):
        product = graph.add(
            "einsum",
            [op.inputs[0], transposed],
            {"equation": few_row_products.EQUATION},
        ).output
    product.type = op.output.type
    graph.replace(op, [product], "weights")


def _is_faster_transposed(op: Op, dtype: str, shape: Sequence[int]) -> bool:
    """Whether a product with a weight like this is faster with it transposed."""
    if len(shape) != 2:
        return False
    is_unaligned = shape[1] >= LONG_ROW and shape[1] % VECTOR != 0
    return is_unaligned or _has_such_rows(op, dtype, shape)


def _has_such_rows(op: Op, dtype: str, shape: Sequence[int]) -> bool:
    """Whether the type of the product has a number of rows for which it is faster."""
    result = op.output.type
    if not isinstance(result, TensorType) or not result.shape.is_static:
        return False
    if {dtype, str(result.dtype)} != {"float32"}:
        return False
    rows = prod(map(int, result.shape[:-1]))
    return few_row_products.is_faster_stored_transposed(rows, *shape)
