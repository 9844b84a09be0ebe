"""Primitives without a kernel in C, by ops that have one; loops are unrolled."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from amanda.errors import LimitError
from amanda.mapping import Decline
from amanda_std import ops
from amanda_std.backends import inline_body, per_tensor

__all__ = ["DEFINITIONS"]

MOST_STEPS: Final = 1024
"""Iterations of a loop that are unrolled."""
MOST_FACTORS: Final = 2


def split(x: Any, sizes: Any = None, *, axis: int = 0, outputs: int = 0) -> Any:
    """Slices of x."""
    size = _static(x.shape[axis])
    if sizes is None:
        step = -(-size // outputs)
        sizes = [min(step, size - step * i) for i in range(outputs)]
    ends = [int(each) for each in np.cumsum([0, *sizes])]
    return tuple(
        ops.slice(x, [start], [stop], [axis]) for start, stop in pairwise(ends)
    )


def tile(x: Any, repeats: Any) -> Any:
    """x with an axis before each of its own, broadcast, and joined."""
    sizes = [(int(r), _static(n)) for r, n in zip(repeats, x.shape, strict=True)]
    rows = ops.reshape(x, [d for _, n in sizes for d in (1, n)])
    wide = ops.broadcast_to(rows, [d for r, n in sizes for d in (r, n)])
    return ops.reshape(wide, [r * n for r, n in sizes])


def logaddexp(a: Any, b: Any) -> Any:
    largest = ops.maximum(a, b)
    return largest + ops.log1p(ops.exp(-ops.abs(a - b)))


def einsum(*xs: Any, equation: str) -> Any:
    """A product of two tensors, or a sum and permutation of one, without repeated
    labels in a tensor."""
    left, result = equation.replace(" ", "").split("->")
    labels = left.split(",")
    if "." in equation or len(xs) > MOST_FACTORS or any(map(_repeats, labels)):
        raise Decline("only einsum of two tensors, each label once in each")
    rows = [
        _sum_others(x, own, labels, result) for x, own in zip(xs, labels, strict=True)
    ]
    if len(rows) == 1:
        ((x, own),) = rows
        return _permute(x, own, result)
    return _product(*rows[0], *rows[1], result)


def _repeats(labels: str) -> bool:
    return len(set(labels)) < len(labels)


def _sum_others(
    x: Any, own: str, labels: Sequence[str], result: str
) -> tuple[Any, str]:
    """A tensor summed over the labels that are nowhere else."""
    count = {label: sum(label in each for each in labels) for label in own}
    gone = [i for i, n in enumerate(own) if n not in result and count[n] == 1]
    kept = "".join(n for i, n in enumerate(own) if i not in gone)
    return (ops.sum(x, gone) if gone else x), kept


def _permute(x: Any, own: str, wanted: str) -> Any:
    perm = tuple(own.index(label) for label in wanted)
    return x if perm == tuple(range(len(perm))) else ops.transpose(x, perm=perm)


def _product(a: Any, one: str, b: Any, other: str, result: str) -> Any:
    """One matrix product: batch labels, then rows, columns and what is summed."""
    batch = [n for n in one if n in other and n in result]
    summed = [n for n in one if n in other and n not in result]
    rows = [n for n in one if n not in other]
    columns = [n for n in other if n not in one]
    sizes = dict(zip(one + other, [*map(_static, (*a.shape, *b.shape))], strict=True))

    def join(names: Sequence[str]) -> int:
        return math.prod(sizes[n] for n in names)

    a = _permute(a, one, "".join([*batch, *rows, *summed]))
    b = _permute(b, other, "".join([*batch, *summed, *columns]))
    a = ops.reshape(a, [join(batch), join(rows), join(summed)])
    b = ops.reshape(b, [join(batch), join(summed), join(columns)])
    names = [*batch, *rows, *columns]
    y = ops.reshape(ops.matmul(a, b), [sizes[n] for n in names])
    return _permute(y, "".join(names), result)


def scan(
    body: Any, length: Any = None, *values: Any, carried: int, axes: Any = None,
    reverse: Any = None, out_axes: Any = None, out_reverse: Any = None,
) -> Any:  # fmt: skip
    """One copy of the body for each step."""
    now, xs = values[:carried], values[carried:]
    at, back = per_tensor(axes, len(xs), 0), per_tensor(reverse, len(xs), False)
    count = _steps(_static(length if not xs else xs[0].shape[at[0]]))
    rows: list[Sequence[Any]] = []
    for i in range(count):
        places = [count - 1 - i if turned else i for turned in back]
        read = [
            ops.squeeze(ops.slice(x, [place], [place + 1], [axis]), [axis])
            for x, place, axis in zip(xs, places, at, strict=True)
        ]
        found = inline_body(body, (*now, *read))
        now = found[:carried]
        rows.append(found[carried:])
    outputs = len(rows[0])
    to, turns = (
        per_tensor(out_axes, outputs, 0),
        per_tensor(out_reverse, outputs, False),
    )
    stacks = [
        ops.stack(*[row[k] for row in (rows[::-1] if turns[k] else rows)], axis=to[k])
        for k in range(outputs)
    ]
    return (*now, *stacks)


def _steps(count: int) -> int:
    if not 0 < count <= MOST_STEPS:
        raise LimitError(
            "a loop of this length is not written as C",
            expected=f"1 to {MOST_STEPS} iterations",
            got=count,
        )
    return count


def _static(size: Any) -> int:
    if not isinstance(size, int):
        raise Decline("a size is known only when the graph runs")
    return size


DEFINITIONS: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        "split": split,
        "tile": tile,
        "logaddexp": logaddexp,
        "scan": scan,
        "einsum": einsum,
        "stop_gradient": ops.identity,
    }
)
