"""From PyTorch: products of matrices and vectors, fully connected layers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from amanda_std import ops
from amanda_std.mappings import cast_to, expect, rank_of
from amanda_torch.mapping.calls import torch_functions
from amanda_torch.mapping.shape_arguments import axis_of
from amanda_torch.mapping.type_promotion import INT, as_value, number, promote

__all__ = ["READ", "read_matmul"]


def read_matmul(a: Any, b: Any) -> Any:
    return ops.matmul(a, b)


def read_linear(x: Any, weight: Any, bias: Any = None) -> Any:
    y = ops.matmul(x, ops.transpose(weight) if rank_of(weight) == 2 else weight)
    return y if bias is None else y + bias


def _multiply_by(x: Any, factor: Any) -> Any:
    if isinstance(factor, int | float) and factor == 1:
        return x
    if x.dtype.kind in ("int", "uint") and isinstance(factor, float):
        factor = int(factor)
    return x * as_value(factor, x.dtype)


def read_addmm(x: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """`beta` times x plus `alpha` times the product; x does not count if beta is 0."""
    product = _multiply_by(ops.matmul(a, b), alpha)
    return product if beta == 0 else _multiply_by(x, beta) + product


def read_addbmm(x: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    product = _multiply_by(ops.sum(ops.matmul(a, b), [0]), alpha)
    return product if beta == 0 else _multiply_by(x, beta) + product


def read_addr(x: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    product = _multiply_by(read_outer(a, b), alpha)
    return product if beta == 0 else _multiply_by(x, beta) + product


def read_outer(a: Any, b: Any) -> Any:
    a, b = promote(a, b)
    return ops.expand_dims(a, [1]) * ops.expand_dims(b, [0])


def read_vdot(a: Any, b: Any) -> Any:
    return ops.matmul(ops.conj(a) if a.dtype.kind == "complex" else a, b)


def read_vecdot(a: Any, b: Any, *, dim: int = -1) -> Any:
    a = ops.conj(a) if a.dtype.kind == "complex" else a
    product = a * b
    return ops.sum(product, [axis_of(dim, product)])


def read_inner(a: Any, b: Any) -> Any:
    """The sum of products along the last axes."""
    if not rank_of(a) or not rank_of(b):
        return a * b
    return read_tensordot(a, b, [-1], [-1])


def read_tensordot(a: Any, b: Any, dims_self: Sequence[int],
                   dims_other: Sequence[int]) -> Any:  # fmt: skip
    left, right = ([axis_of(d, x) for d in dims]
                   for x, dims in ((a, dims_self), (b, dims_other)))  # fmt: skip
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    first = [next(letters) for _ in range(rank_of(a))]
    second = [
        first[left[right.index(i)]] if i in right else next(letters)
        for i in range(rank_of(b))
    ]
    kept = [c for i, c in enumerate(first) if i not in left]
    kept += [c for i, c in enumerate(second) if i not in right]
    equation = f"{''.join(first)},{''.join(second)}->{''.join(kept)}"
    return ops.einsum(a, b, equation=equation)


def read_einsum(equation: str, tensors: Sequence[Any], *, path: Any = None) -> Any:
    del path
    return ops.einsum(*tensors, equation=_complete(equation.replace(" ", "")))


def _complete(equation: str) -> str:
    """An equation with its result: letters that occur once, in order."""
    if "->" in equation:
        return equation
    letters = equation.replace(".", "").replace(",", "")
    once = "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    return f"{equation}->{'...' if '...' in equation else ''}{once}"


def read_multi_dot(tensors: Sequence[Any]) -> Any:
    return reduce(ops.matmul, tensors)


def read_kron(a: Any, b: Any) -> Any:
    """Each element of a times all of b."""
    rank = max(rank_of(a), rank_of(b))
    a, b = (ops.expand_dims(x, list(range(rank - rank_of(x))))
            if rank_of(x) < rank else x for x in promote(a, b))  # fmt: skip
    product = ops.expand_dims(a, [2 * i + 1 for i in range(rank)]) * ops.expand_dims(
        b, [2 * i for i in range(rank)]
    )
    return ops.reshape(product, ops.shape_of(a) * ops.shape_of(b))


def read_cross(a: Any, b: Any, dim: int | None = None) -> Any:
    """The vector product along an axis of three elements."""
    a, b = promote(a, b)
    if dim is None:  # the first axis of which the program knows that it has three
        dims = a.type.shape.dims
        axis = next(i for i, d in enumerate(dims) if isinstance(d, int) and d == 3)
    else:
        axis = axis_of(dim, a)

    def turn(x: Any, by: int) -> Any:
        return ops.roll(x, [by], axes=(axis,))

    shape = ops.shape_of(a + ops.zeros_like(b))
    a, b = ops.broadcast_to(a, shape), ops.broadcast_to(b, shape)
    return turn(a, -1) * turn(b, 1) - turn(a, 1) * turn(b, -1)


def read_linalg_cross(a: Any, b: Any, *, dim: int = -1) -> Any:
    return read_cross(a, b, dim)


def read_bilinear(a: Any, b: Any, weight: Any, bias: Any = None) -> Any:
    y = ops.einsum(a, weight, b, equation="...i,oij,...j->...o")
    return y if bias is None else y + bias


def read_cosine_similarity(a: Any, b: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    a, b = promote(a, b)
    product = a * b
    axes = [axis_of(dim, product)] if rank_of(product) else None
    limit = number(eps, a.dtype)

    def length(x: Any) -> Any:
        x = x + ops.zeros_like(product)
        return ops.maximum(ops.sqrt(ops.sum(x * x, axes, keepdims=True)), limit)

    return ops.sum(a / length(a) * (b / length(b)), axes)


def read_trilinear(a: Any, b: Any, c: Any, expand1: Sequence[int],
                   expand2: Sequence[int], expand3: Sequence[int],
                   sumdim: Sequence[int], unroll_dim: int = 1) -> Any:  # fmt: skip
    del unroll_dim
    product = (ops.expand_dims(a, list(expand1)) * ops.expand_dims(b, list(expand2))
               * ops.expand_dims(c, list(expand3)))  # fmt: skip
    return ops.sum(product, list(sumdim))


def read_grouped_mm(a: Any, b: Any, offs: Any = None, bias: Any = None, *,
                    out_dtype: Any = None) -> Any:  # fmt: skip
    """Products of groups of rows, which end at the offsets, or of matrices."""
    expect(bias is None, "a bias of grouped products")
    if offs is None:
        y = ops.matmul(a, b)
    else:
        expect((rank_of(a), rank_of(b)) == (2, 3), "the groups are not of rows")
        y = ops.grouped_matmul(a, b, cast_to(offs, INT))
    return y if out_dtype is None else cast_to(y, out_dtype)


def read_grouped_mm_fallback(a: Any, b: Any, offs: Any) -> Any:
    """The op of `transformers` for mixtures of experts."""
    return read_grouped_mm(a, b, offs)


READ = torch_functions(
    {
        "matmul mm bmm mv dot linalg_matmul": read_matmul,
        "linear": read_linear,
        "addmm addmv baddbmm": read_addmm,
        "addbmm": read_addbmm,
        "addr": read_addr,
        "outer ger": read_outer,
        "vdot": read_vdot,
        "linalg_vecdot": read_vecdot,
        "inner": read_inner,
        "tensordot": read_tensordot,
        "einsum": read_einsum,
        "linalg_multi_dot chain_matmul": read_multi_dot,
        "kron": read_kron,
        "cross": read_cross,
        "linalg_cross": read_linalg_cross,
        "bilinear": read_bilinear,
        "_trilinear": read_trilinear,
        "cosine_similarity": read_cosine_similarity,
        "_grouped_mm": read_grouped_mm,
        "_int_mm": ops.matmul_integer,
    }
) | {"transformers.grouped_mm_fallback.default": read_grouped_mm_fallback}
