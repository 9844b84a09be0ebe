"""What may be computed before a graph runs: in conversion, inference and folding.

A file of a few bytes can describe arrays of any size. What is computed for it is
bounded by elements touched and bytes made; beyond that, the op stays in the graph and
is computed when the graph runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isqrt, prod
from typing import Any, Final

from amanda.types import Sym, TensorType, Type

__all__ = [
    "Budget",
    "MAX_EAGER_ELEMENTS",
    "count_elements",
    "is_surely_small",
    "work_of",
]

MAX_EAGER_ELEMENTS: Final = 1 << 22
"""The largest array that a call on constants computes while a graph is built."""

_ALWAYS: Final = 1 << 26
_FACTOR: Final = 8


class Budget:
    """What a pass may still compute.

    `stored` is the number of bytes that the constants of the graph have in its file: a
    model with large weights may be prepared in proportion to them.
    """

    __slots__ = ("bytes", "elements")

    def __init__(self, stored: int) -> None:
        self.elements = self.bytes = _ALWAYS + _FACTOR * stored

    def take(self, elements: int, made: int) -> bool:
        """Use some of the budget; False, and nothing is used, where it is too small."""
        if elements > self.elements or made > self.bytes:
            return False
        self.elements -= elements
        self.bytes -= made
        return True


def work_of(operands: Sequence[int], result: int) -> int:
    """The elements that an op touches, from the sizes of its operands and result.

    A product of matrices touches each several times; their geometric mean is the number
    of multiplications.
    """
    most = sum(operands) + result
    if len(operands) < 2:
        return most
    first, second = sorted(operands)[-2:]
    return max(most, isqrt(first * second * max(result, 1)))


def count_elements(types: Iterable[Type]) -> int | None:
    """The number of elements of tensors of these types; None if it is not known."""
    total = 0
    for found in types:
        if not isinstance(found, TensorType) or not found.shape.is_static:
            return None
        total += prod(int(d) for d in found.shape)
    return total


def is_surely_small(args: Iterable[Any], attrs: Mapping[str, Any]) -> bool:
    """Whether a call cannot make a large array, by sizes and integers alone."""
    product = 1
    waiting = [*args, *attrs.values()]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list | tuple):
            waiting += value
            factor = len(value)
        elif isinstance(value, bool | str | bytes | float) or value is None:
            continue
        elif isinstance(value, int):
            factor = abs(value)
        elif isinstance(value, Sym):
            return False
        else:
            factor = getattr(value, "size", 1)
            if not isinstance(factor, int):
                return False
            if factor <= 8 and getattr(value, "dtype", None) is not None:
                kind = getattr(value.dtype, "kind", "")
                waiting += value.reshape(-1).tolist() if kind in ("i", "u") else ()
        product *= max(factor, 1)
        if product > MAX_EAGER_ELEMENTS:
            return False
    return True
