"""From TensorFlow: sparse tensors, which are indices, values and a shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda_std import ops
from amanda_std.mappings import (
    cast_to,
    expect,
    known_content,
    known_or_value,
    rank_of,
    required_content,
)
from amanda_tf.mapping.nn.read_products import adjoint
from amanda_tf.mapping.reductions.read_reductions import axes_of

__all__ = ["READ"]


def to_dense(indices: Any, values: Any, shape: Any, fill: Any = 0) -> Any:
    """A tensor with the values at the indices, and a number elsewhere."""
    base = ops.full(known_or_value(shape), ops.number_like(values, value=fill))
    return ops.scatter_nd(base, indices, values)


def read_sparse_matmul(
    indices: Any, values: Any, shape: Any, dense: Any, *,
    adjoint_a: bool = False, adjoint_b: bool = False,
) -> Any:  # fmt: skip
    """SparseTensorDenseMatMul to `matmul` of a dense matrix."""
    a = ops.scatter_nd(
        ops.full(known_or_value(shape), ops.number_like(values, value=0)),
        indices, values, reduction="add",
    )  # fmt: skip
    return ops.matmul(adjoint(a) if adjoint_a else a,
                      adjoint(dense) if adjoint_b else dense)  # fmt: skip


def _with_dense(op: Any) -> Any:
    """The values of a sparse tensor, each combined with an element of a dense one."""

    def read(indices: Any, values: Any, shape: Any, dense: Any) -> Any:
        whole = ops.broadcast_to(dense, known_or_value(shape))
        return op(values, ops.gather_nd(whole, indices))

    return read


def _reduction(op: Any, fill: Any) -> Any:
    """A reduction to a dense tensor; 0 where there is no value."""

    def read(
        indices: Any, values: Any, shape: Any, axes: Any, *, keep_dims: bool = False
    ) -> Any:
        along = axes_of(axes)
        if not along:
            along = list(range(int(indices.type.shape.dims[1])))
        y = op(to_dense(indices, values, shape, fill), along, keepdims=keep_dims)
        ones = ops.ones_like(ops.astype(values, dtype="int32"))
        count = ops.sum(to_dense(indices, ones, shape), along, keepdims=keep_dims)
        zero = ops.number_like(y, value=0)
        return ops.where(ops.equal(count, np.int32(0)), zero, y)

    return read


def _places(indices: Any, shape: Any) -> Any:
    """The row-major place of each index."""
    columns = ops.transpose(indices, perm=(1, 0))
    return ops.ravel_index(columns, known_or_value(shape))


def read_sparse_reorder(indices: Any, values: Any, shape: Any) -> Any:
    """Indices and values in row-major order."""
    order = ops.argsort(_places(indices, shape))
    return ops.gather(indices, order), ops.gather(values, order)


def read_sparse_reshape(indices: Any, shape: Any, new: Any) -> Any:
    """The indices of the same elements in another shape, and that shape."""
    old, wanted = (required_content(v, "a shape") for v in (shape, new))
    count = int(np.prod(old, dtype="int64"))
    rest = int(np.prod([n for n in wanted if n >= 0], dtype="int64"))
    sizes = [count // rest if n < 0 else n for n in wanted]
    at = ops.unravel_index(_places(indices, shape), sizes)
    return ops.transpose(at, perm=(1, 0)), np.array(sizes, "int64")


def read_sparse_softmax(indices: Any, values: Any, shape: Any) -> Any:
    """The softmax of the values of each row."""
    least = -np.inf
    dense = to_dense(indices, values, shape, least)
    return ops.gather_nd(ops.softmax(dense), indices)


def read_sparse_concat(*xs: Any, concat_dim: int) -> Any:
    """Sparse tensors one after the other along an axis, in row-major order."""
    count = len(xs) // 3
    indices, values, shapes = xs[:count], xs[count : 2 * count], xs[2 * count :]
    sizes = np.array([required_content(shape, "a shape") for shape in shapes])
    axis = concat_dim % sizes.shape[1]
    starts = np.cumsum(sizes[:, axis]) - sizes[:, axis]
    step = np.eye(sizes.shape[1], dtype="int64")[axis]
    moved = [at + step * int(n) for at, n in zip(indices, starts, strict=True)]
    whole = sizes[0].copy()
    whole[axis] = sizes[:, axis].sum()
    at, joined = ops.concat(*moved, axis=0), ops.concat(*values, axis=0)
    order = ops.argsort(ops.ravel_index(ops.transpose(at, perm=(1, 0)), whole.tolist()))
    return ops.gather(at, order), ops.gather(joined, order), whole


def _segment_grad(reduction: str) -> Any:
    """The gradient of a reduction of slices at indices, for `count` slices."""

    def read(g: Any, indices: Any, segments: Any, count: Any) -> Any:
        total = known_content(count)
        expect(total is not None, "output_dim0 is not constant")
        ids = ops.astype(segments, dtype="int64")
        rows = ops.gather(g, ids, axis=0)
        if reduction != "sum":
            ones = ops.ones_like(ids)
            number = ops.segment_reduce(ones, ids, g.shape[0], reduction="sum")
            size = cast_to(ops.gather(number, ids), g.dtype)
            size = ops.sqrt(size) if reduction == "sqrt_n" else size
            rows = rows / ops.reshape(size, [-1, *(1,) * (rank_of(g) - 1)])
        return ops.segment_reduce(rows, indices, int(total), reduction="sum")

    return read


READ: dict[str, Any] = {
    "SparseTensorDenseMatMul": read_sparse_matmul,
    "SparseDenseCwiseAdd": _with_dense(ops.add),
    "SparseDenseCwiseMul": _with_dense(ops.multiply),
    "SparseDenseCwiseDiv": _with_dense(ops.divide),
    "SparseReduceSum": _reduction(ops.sum, 0),
    "SparseReduceMax": _reduction(ops.max, -np.inf),
    "SparseReorder": read_sparse_reorder,
    "SparseReshape": read_sparse_reshape,
    "SparseSoftmax": read_sparse_softmax,
    "SparseConcat": read_sparse_concat,
    "SparseSegmentSumGrad": _segment_grad("sum"),
    "SparseSegmentMeanGrad": _segment_grad("mean"),
    "SparseSegmentSqrtNGrad": _segment_grad("sqrt_n"),
}
