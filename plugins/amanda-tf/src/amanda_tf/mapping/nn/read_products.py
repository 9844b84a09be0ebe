"""From TensorFlow: products of matrices, and losses."""

from __future__ import annotations

from typing import Any

from amanda_std import ops
from amanda_tf.mapping.static_values import expect, rank_of

__all__ = ["READ", "add_bias"]


def _flip_last(x: Any, *, flip: bool, conjugate: bool) -> Any:
    if not flip:
        return x
    if conjugate and x.dtype.kind == "complex":
        x = ops.conj(x)
    return ops.swap_last(x)


def read_batch_matmul(
    a: Any, b: Any, *, adj_x: bool = False, adj_y: bool = False,
    grad_x: bool = False, grad_y: bool = False,
) -> Any:  # fmt: skip
    del grad_x, grad_y
    a = _flip_last(a, flip=adj_x, conjugate=True)
    return ops.matmul(a, _flip_last(b, flip=adj_y, conjugate=True))


def read_matmul(
    a: Any, b: Any, *, transpose_a: bool = False, transpose_b: bool = False,
    grad_a: bool = False, grad_b: bool = False,
) -> Any:  # fmt: skip
    del grad_a, grad_b
    a = _flip_last(a, flip=transpose_a, conjugate=False)
    return ops.matmul(a, _flip_last(b, flip=transpose_b, conjugate=False))


def read_sparse_matmul(
    a: Any, b: Any, *, transpose_a: bool = False, transpose_b: bool = False,
    a_is_sparse: bool = False, b_is_sparse: bool = False,
) -> Any:  # fmt: skip
    del a_is_sparse, b_is_sparse
    y = read_matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
    return ops.astype(y, dtype="float32")


def add_bias(x: Any, bias: Any, data_format: str) -> Any:
    """A bias added along the axis of channels."""
    if data_format.startswith("NC") and rank_of(x) > 2:
        bias = ops.reshape(bias, [-1, *(1,) * (rank_of(x) - 2)])
    return x + bias


def read_bias_add(x: Any, bias: Any, *, data_format: str = "NHWC") -> Any:
    return add_bias(x, bias, data_format)


def read_bias_add_v1(x: Any, bias: Any) -> Any:
    return x + bias


def read_softmax_cross_entropy(x: Any, labels: Any) -> Any:
    """The losses, and the gradients of the logits."""
    loss = ops.negative(ops.sum(labels * ops.log_softmax(x), [-1]))
    return loss, ops.softmax(x) - labels


def read_sparse_softmax_cross_entropy(x: Any, labels: Any) -> Any:
    shares = ops.log_softmax(x)
    at = ops.expand_dims(ops.astype(labels, dtype="int64"), [-1])
    loss = ops.negative(ops.squeeze(ops.gather_elements(shares, at, axis=1), [1]))
    expect(rank_of(x) == 2, "logits of rank 2 are expected")
    one, zero = ops.number_like(x, value=1), ops.number_like(x, value=0)
    hits = ops.one_hot(ops.astype(labels, dtype="int64"), x.shape[1], one, zero)
    return loss, ops.softmax(x) - hits


READ: dict[str, Any] = {
    "MatMul": read_matmul,
    "BatchMatMul": read_batch_matmul,
    "BatchMatMulV2": read_batch_matmul,
    "SparseMatMul": read_sparse_matmul,
    "BiasAdd": read_bias_add,
    "BiasAddV1": read_bias_add_v1,
    "SoftmaxCrossEntropyWithLogits": read_softmax_cross_entropy,
    "SparseSoftmaxCrossEntropyWithLogits": read_sparse_softmax_cross_entropy,
}
