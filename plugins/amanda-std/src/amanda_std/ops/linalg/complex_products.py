"""Products of complex matrices and convolutions by those of their parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amanda_std.ops._complex_parts import ComplexParts
from amanda_std.ops._late import late as ops
from amanda_std.ops.linalg.einsum import einsum
from amanda_std.ops.linalg.matmul import matmul
from amanda_std.ops.linalg.matrices import inverse, solve
from amanda_std.ops.nn.convolution import conv, conv_transpose

Parts = ComplexParts


def _product_of_parts(operation: Callable[..., Any]) -> Callable[..., Any]:
    """A product of two operands, with an optional third one that is added."""

    def rule(a: Parts, b: Parts, bias: Parts | None = None, **attrs: Any) -> Parts:
        more = [] if bias is None else [[bias.real], [bias.imag]]
        real, imag = more or ([], [])
        if a.is_real and b.is_real:
            y = operation(a.real, b.real, *real, **attrs)
            return Parts(y) if bias is None else Parts(y, imag[0])
        low = operation(a.real, b.real, *real, **attrs)
        high = operation(a.real, b.imag, *imag, **attrs)
        if a.is_real:
            return Parts(low, high)
        if not b.is_real:
            low = low - operation(a.imag, b.imag, **attrs)
            return Parts(low, high + operation(a.imag, b.real, **attrs))
        return Parts(low, operation(a.imag, b.real, *imag, **attrs))

    return rule


matmul.on_complex_parts(_product_of_parts(matmul))
conv.on_complex_parts(_product_of_parts(conv))
conv_transpose.on_complex_parts(_product_of_parts(conv_transpose))


@einsum.on_complex_parts
def einsum_of_parts(*xs: Parts, equation: str) -> Parts:
    """The sum of the products of all choices of a part of each operand."""
    choices: list[tuple[list[Any], int]] = [([], 0)]
    for x in xs:
        picked = [([*row, x.real], power) for row, power in choices]
        if not x.is_real:
            picked += [([*row, x.imag], power + 1) for row, power in choices]
        choices = picked
    sums: list[Any] = [None, None]
    for row, power in choices:
        y = ops.einsum(*row, equation=equation)
        y = -y if power % 4 >= 2 else y
        known = sums[power % 2]
        sums[power % 2] = y if known is None else known + y
    return Parts(*sums)


@solve.on_complex_parts
def solve_by_real_system(a: Parts, b: Parts) -> Parts:
    """The real system of twice the size: [[A, -B], [B, A]]."""
    y = ops.solve(_as_real_matrix(a), ops.concat(*b.parts, axis=-2))
    return Parts(*ops.split(y, axis=-2, outputs=2))


@inverse.on_complex_parts
def inverse_by_real_matrix(x: Parts) -> Parts:
    """The left column of the inverse of the real matrix of twice the size."""
    left, _ = ops.split(ops.inverse(_as_real_matrix(x)), axis=-1, outputs=2)
    return Parts(*ops.split(left, axis=-2, outputs=2))


def _as_real_matrix(x: Parts) -> Any:
    top = ops.concat(x.real, -x.imag, axis=-1)
    return ops.concat(top, ops.concat(x.imag, x.real, axis=-1), axis=-2)
