"""To TensorFlow: linear algebra and Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amanda.mapping import Decline
from amanda.types import DType
from amanda_std.mappings import rank_of
from amanda_tf.mapping.operands import int_tensor

__all__ = ["WRITE"]


def write_svd(o: Any, x: Any, *, full: bool = False) -> Any:
    s, u, v = o.Svd(x, full_matrices=full, compute_uv=True)
    rank = rank_of(x)
    order = [*range(rank - 2), rank - 1, rank - 2]
    return u, s, o.Transpose(v, int_tensor(order))


def write_eigh(o: Any, x: Any) -> Any:
    return o.SelfAdjointEigV2(x)


def write_lu(o: Any, x: Any) -> Any:
    matrix, order = o.Lu(x, output_idx_type=DType("int64"))
    return matrix, order


def write_matmul(o: Any, a: Any, b: Any) -> Any:
    """Vectors are matrices of one row or column."""
    ranks = rank_of(a), rank_of(b)
    if ranks[0] == 1:
        a = o.ExpandDims(a, int_tensor(0))
    if ranks[1] == 1:
        b = o.ExpandDims(b, int_tensor(1))
    y = o.BatchMatMulV2(a, b)
    cut = [axis for axis, rank in ((-2, ranks[0]), (-1, ranks[1])) if rank == 1]
    return o.Squeeze(y, squeeze_dims=cut) if cut else y


def _fourier(name: str) -> Callable[..., Any]:
    def write(o: Any, x: Any, sizes: Any = None, axes: Any = (-1,), *,
              norm: str = "backward") -> Any:  # fmt: skip
        axes = list(axes) if isinstance(axes, list | tuple) else None
        rank = rank_of(x)
        if axes is None or sizes is not None or norm != "backward" or len(axes) != 1:
            raise Decline("a transform of several axes, of other sizes, or scaled")
        axis = axes[0] % rank
        order = list(range(rank))
        order[axis], order[-1] = order[-1], order[axis]
        moved = axis != rank - 1
        y = o.Transpose(x, int_tensor(order)) if moved else x
        y = o.op(name, y)
        return o.Transpose(y, int_tensor(order)) if moved else y

    return write


WRITE: dict[str, Any] = {
    "svd": write_svd,
    "eigh": write_eigh,
    "lu": write_lu,
    "matmul": write_matmul,
    "fft": _fourier("FFT"),
    "ifft": _fourier("IFFT"),
}
