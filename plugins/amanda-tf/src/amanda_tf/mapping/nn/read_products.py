"""From TensorFlow: products of matrices, and losses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from amanda_std import ops
from amanda_std.mappings import cast_to, expect, rank_of

__all__ = ["READ", "add_bias", "adjoint", "apply_fused"]


def adjoint(x: Any) -> Any:
    """Matrices transposed, complex numbers conjugated."""
    return ops.swap_last(ops.conj(x) if x.dtype.kind == "complex" else x)


def read_batch_matmul(
    a: Any, b: Any, *, adj_x: bool = False, adj_y: bool = False, **_: Any
) -> Any:
    """BatchMatMul and BatchMatMulV2 to `matmul`."""
    return ops.matmul(adjoint(a) if adj_x else a, adjoint(b) if adj_y else b)


def read_matmul(
    a: Any, b: Any, *, transpose_a: bool = False, transpose_b: bool = False, **_: Any
) -> Any:
    """MatMul to `matmul`."""
    a, b = (
        ops.swap_last(x) if flip else x
        for x, flip in ((a, transpose_a), (b, transpose_b))
    )
    return ops.matmul(a, b)


def read_batch_matmul_v3(a: Any, b: Any, *, Tout: Any, **attrs: Any) -> Any:  # noqa: N803
    """BatchMatMulV3 to `matmul`."""
    return read_batch_matmul(cast_to(a, Tout), cast_to(b, Tout), **attrs)


def read_sparse_matmul(a: Any, b: Any, **attrs: Any) -> Any:
    """A product of dense matrices that have many zeros."""
    return read_matmul(
        ops.astype(a, dtype="float32"), ops.astype(b, dtype="float32"), **attrs
    )


def add_bias(x: Any, bias: Any, data_format: str) -> Any:
    """A bias added along the axis of channels."""
    if data_format.startswith("NC") and rank_of(x) > 2:
        bias = ops.reshape(bias, [-1, *(1,) * (rank_of(x) - 2)])
    return x + bias


def read_bias_add(x: Any, bias: Any, *, data_format: str = "NHWC") -> Any:
    """BiasAdd to a sum along the channels."""
    return add_bias(x, bias, data_format)


def read_softmax_cross_entropy(x: Any, labels: Any) -> Any:
    """The losses, and the gradients of the logits."""
    loss = ops.negative(ops.sum(labels * ops.log_softmax(x), [-1]))
    return loss, ops.softmax(x) - labels


def read_sparse_softmax_cross_entropy(x: Any, labels: Any) -> Any:
    """SparseSoftmaxCrossEntropyWithLogits to `log_softmax`, and its gradient."""
    shares = ops.log_softmax(x)
    at = ops.expand_dims(ops.astype(labels, dtype="int64"), [-1])
    loss = ops.negative(ops.squeeze(ops.gather_elements(shares, at, axis=1), [1]))
    expect(rank_of(x) == 2, "logits of rank 2 are expected")
    one, zero = ops.number_like(x, value=1), ops.number_like(x, value=0)
    hits = ops.one_hot(ops.astype(labels, dtype="int64"), x.shape[1], one, zero)
    return loss, ops.softmax(x) - hits


_ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "Relu": ops.relu, "Relu6": lambda x: ops.clip(x, 0, 6), "Elu": ops.elu,
    "Tanh": ops.tanh, "Sigmoid": ops.sigmoid, "GeluExact": ops.gelu,
    "GeluApproximate": lambda x: ops.gelu(x, approximate=True),
}  # fmt: skip


def apply_fused(
    x: Any, fused: Any, args: Sequence[Any], *, leakyrelu_alpha: float = 0.2,
    data_format: str = "NHWC",
) -> Any:  # fmt: skip
    """A bias, a sum and an activation, as the names of fused ops say."""
    rest = iter(args)
    for name in map(_as_text, fused):
        if name == "BiasAdd":
            x = add_bias(x, next(rest), data_format)
        elif name == "Add":
            x = x + next(rest)
        elif name == "LeakyRelu":
            x = ops.leaky_relu(x, slope=leakyrelu_alpha)
        else:
            expect(name in _ACTIVATIONS, f"fused_ops has {name}")
            x = _ACTIVATIONS[name](x)
    return x


def _as_text(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)


def read_fused_matmul(
    a: Any, b: Any, *args: Any, fused_ops: Any = (), leakyrelu_alpha: float = 0.2,
    transpose_a: bool = False, transpose_b: bool = False, **_: Any,
) -> Any:  # fmt: skip
    """_FusedMatMul to `matmul`, a bias and an activation."""
    y = read_matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
    return apply_fused(y, fused_ops, args, leakyrelu_alpha=leakyrelu_alpha)


READ: dict[str, Any] = {
    "MatMul": read_matmul,
    "BatchMatMul": read_batch_matmul,
    "BatchMatMulV2": read_batch_matmul,
    "BatchMatMulV3": read_batch_matmul_v3,
    "_FusedMatMul": read_fused_matmul,
    "SparseMatMul": read_sparse_matmul,
    "BiasAdd": read_bias_add,
    "SoftmaxCrossEntropyWithLogits": read_softmax_cross_entropy,
    "SparseSoftmaxCrossEntropyWithLogits": read_sparse_softmax_cross_entropy,
}
