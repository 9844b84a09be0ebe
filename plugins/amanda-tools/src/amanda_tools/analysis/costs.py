"""Costs of the primitives of the hub: operations as formulas of the sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from amanda.graph import Op, OutputPort
from amanda.types import Dim, TensorType
from amanda_std.backends import Trait, has_trait
from amanda_tools.analysis.layouts import expand_layout

__all__ = ["Cost", "UNCOUNTED", "element_count", "primitive_cost"]


class Cost(NamedTuple):
    """What one execution of an op needs.

    - `macs`: multiply-accumulates of matrix products and convolutions
    - `flops`: floating-point operations, a multiply-accumulate as two
    """

    macs: Dim
    flops: Dim

    def __add__(self, other: object) -> Cost:
        if not isinstance(other, Cost):
            return NotImplemented
        return Cost(self.macs + other.macs, self.flops + other.flops)

    def times(self, count: Dim) -> Cost:
        return Cost(self.macs * count, self.flops * count)


NOTHING: Final = Cost(0, 0)
UNCOUNTED: Final = "its operations depend on the data"


def element_count(port: OutputPort | None) -> Dim:
    """The number of elements of a value; ValueError where it is not known."""
    type_ = None if port is None else port.type
    if not isinstance(type_, TensorType) or not type_.shape.has_rank:
        raise ValueError("sizes are not known")
    return product(type_.shape.dims)


def product(dims: Iterable[Dim]) -> Dim:
    count: Dim = 1
    for dim in dims:
        count = count * dim
    return count


def _dims(port: OutputPort | None) -> tuple[Dim, ...]:
    element_count(port)
    assert port is not None
    assert isinstance(port.type, TensorType)
    return tuple(port.type.shape.dims)


def _multiply_accumulates(count: Dim, bias: Dim = 0) -> Cost:
    return Cost(count, count * 2 + bias)


def _matmul(op: Op) -> Cost:
    """Each element of the result sums over the last axis of the first operand."""
    inner = _dims(op.inputs[0])[-1]
    return _multiply_accumulates(element_count(op.outputs[0]) * inner)


def _kernel_size(op: Op, layout: str, result_letter: str) -> Dim:
    """The elements of the kernel that make one element of the result (or the input)."""
    dims = _dims(op.inputs[1])
    given = op.attrs.get("kernel_layout", layout)
    places = expand_layout(given, len(dims))
    return product(dim for dim, letter in zip(dims, places, strict=True)
                   if letter != result_letter)  # fmt: skip


def _conv(op: Op) -> Cost:
    count = element_count(op.outputs[0])
    bias = count if len(op.inputs) > 2 and op.inputs[2] is not None else 0
    return _multiply_accumulates(count * _kernel_size(op, "OI*", "O"), bias)


def _conv_transpose(op: Op) -> Cost:
    """Each element of the input is multiplied by the kernel of its channel."""
    count = element_count(op.inputs[0]) * _kernel_size(op, "IO*", "I")
    has_bias = len(op.inputs) > 2 and op.inputs[2] is not None
    return _multiply_accumulates(count, element_count(op.outputs[0]) if has_bias else 0)


def _einsum(op: Op) -> Cost:
    """The product of the sizes of all indices, for each operand after the first."""
    operands = str(op.attrs["equation"]).replace(" ", "").partition("->")[0].split(",")
    sizes: dict[str, Dim] = {}
    rest: tuple[Dim, ...] = ()
    for labels, port in zip(operands, op.inputs, strict=True):
        dims = _dims(port)
        head, dots, tail = labels.partition("...")
        sizes |= dict(zip(head, dims, strict=False))
        if dots:
            sizes |= dict(zip(reversed(tail), reversed(dims), strict=False))
            middle = dims[len(head) : len(dims) - len(tail)]
            rest = max(rest, middle, key=len)
    count = product([*sizes.values(), *rest])
    if len(operands) == 1:
        return Cost(0, count)
    return _multiply_accumulates(count * (len(operands) - 1))


def _pool(op: Op) -> Cost:
    window = product(op.attrs["window"])
    return Cost(0, element_count(op.outputs[0]) * window)


def _per_input(op: Op) -> Cost:
    return Cost(0, element_count(op.inputs[0]))


def _fft(op: Op) -> Cost:
    """5 n log2(n) real operations for each transform along the last axes."""
    total = element_count(op.outputs[0])
    if not isinstance(total, int):
        raise ValueError("the cost of a transform of symbolic size is no polynomial")
    return Cost(0, round(5 * total * math.log2(max(total, 2))))


def _cubic(factor: float) -> Callable[[Op], Cost]:
    """`factor` n**3 for each matrix n x n."""

    def cost(op: Op) -> Cost:
        *batch, rows, columns = _dims(op.inputs[0])
        count = product(batch) * rows * columns * columns
        return Cost(0, round(count * factor) if isinstance(count, int) else count)

    return cost


def _solve(op: Op) -> Cost:
    """An LU factorization, and two triangular solutions for each column."""
    n = _dims(op.inputs[0])[-1]
    return _cubic(2 / 3)(op) + Cost(0, element_count(op.outputs[0]) * n * 2)


def _triangular_solve(op: Op) -> Cost:
    return Cost(0, element_count(op.outputs[0]) * _dims(op.inputs[0])[-1])


_RULES: Final[Mapping[str, Callable[[Op], Cost]]] = {
    "matmul": _matmul,
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "einsum": _einsum,
    "avg_pool": _pool,
    "max_pool": _pool,
    "cumulative_sum": _per_input,
    "cumulative_prod": _per_input,
    "cumulative_max": _per_input,
    "cumulative_min": _per_input,
    "cumulative_logsumexp": _per_input,
    "argmax": _per_input,
    "argmin": _per_input,
    "scatter_elements": lambda op: Cost(0, element_count(op.inputs[2])),
    "scatter_nd": lambda op: Cost(0, element_count(op.inputs[2])),
    "fft": _fft,
    "ifft": _fft,
    "rfft": _fft,
    "irfft": _fft,
    "cholesky": _cubic(1 / 3),
    "det": _cubic(2 / 3),
    "slogdet": _cubic(2 / 3),
    "inverse": _cubic(2),
    "lu": _cubic(2 / 3),
    "qr": _cubic(4 / 3),
    "svd": _cubic(4),
    "eigh": _cubic(4 / 3),
    "solve": _solve,
    "triangular_solve": _triangular_solve,
}
"""Costs of primitives that their traits do not say."""

_FREE: Final = frozenset({
    "arange", "astype", "bitcast", "broadcast_to", "concat", "conj", "complex", "dim",
    "expand_dims", "eye", "flip", "full", "gather", "gather_elements", "gather_nd",
    "identity", "imag", "pad", "print", "probe", "read", "real", "reshape", "shape_of",
    "size", "slice", "split", "squeeze", "stack", "stop_gradient", "tile", "transfer",
    "transpose", "tril", "triu", "tuple_get", "tuple_make", "tuple_push", "variable",
    "assign", "optional", "get_element", "sequence_at", "sequence_construct",
    "sequence_empty", "sequence_insert", "sequence_length", "diagonal",
    "next_random_key", "assert", "has_element",
})  # fmt: skip
"""Primitives that only move elements, or make none."""


def primitive_cost(op: Op) -> Cost:
    """The cost of a primitive; ValueError with the reason where it is not known."""
    rule: Any = _RULES.get(op.type or "")
    if rule is not None:
        found: Cost = rule(op)
        return found
    if op.type in _FREE or has_trait(op, Trait.MOVES_ELEMENTS):
        return NOTHING
    if has_trait(op, Trait.POINTWISE):
        return Cost(0, element_count(op.outputs[0]))
    if has_trait(op, Trait.REDUCTION):
        return _per_input(op)
    raise ValueError(UNCOUNTED)
