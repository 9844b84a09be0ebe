"""Einstein summation (einsum)."""

from __future__ import annotations

import math
import string
from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from amanda.errors import InvalidTypeError
from amanda.types import Shape, TensorType
from amanda_std.engine.annotations import Number
from amanda_std.engine.arrays import xp
from amanda_std.engine.operation import primitive
from amanda_std.engine.samples import Sample, Samples, array, ramp
from amanda_std.engine.traits import Trait
from amanda_std.inference import shapes
from amanda_std.ops._oracles.matrices import matmul_by_loops
from amanda_std.ops.linalg.accumulation import accumulate_wide
from amanda_std.ops.math.reduction import sum_to
from amanda_std.ops.tensor.creation import eye, full, zeros_like


def _einsum_shape(*xs: TensorType, equation: str) -> Shape:
    terms, right = _split_equation(equation, len(xs))
    known: dict[str, Any] = {}
    ellipses = []
    for term, x in zip(terms, xs, strict=True):
        before, dots, after = term.partition("...")
        dims = x.shape.dims
        mean = len(dims) - len(before) - len(after)
        if mean < 0 or (mean and not dots):
            raise InvalidTypeError(
                "the equation does not fit the rank of an operand",
                expected=term,
                got=x.shape,
            )
        letters = list(before) + [None] * mean + list(after)
        for letter, dim in zip(letters, dims, strict=True):
            if letter is not None:
                old = known.get(letter, dim)
                known[letter] = _broadcast_dim(old, dim, letter)
        ellipses.append(Shape(dims[len(before) : len(before) + mean]))
    before, dots, after = right.partition("...")
    middle_dims = shapes.broadcast(*ellipses).dims if dots else ()
    return Shape(
        [*(known[c] for c in before), *middle_dims, *(known[c] for c in after)]
    )


def _broadcast_dim(a: Any, b: Any, letter: str) -> Any:
    if isinstance(a, int) and a == 1:
        return b
    if isinstance(b, int) and b == 1:
        return a
    return shapes.expect_same(a, b, f"the dims of {letter!r} differ")


@primitive(shape=_einsum_shape)
def einsum(*xs: Number, equation: str) -> Number:
    """Einstein summation of products, given by an equation of subscripts"""
    np_ = xp(*xs)
    return accumulate_wide(partial(np_.einsum, equation.replace(" ", "")), np_, *xs)


einsum.trait(Trait.MATRIX_PRODUCT)


@einsum.gradient
def _(g: Any, *xs: Any, equation: str) -> Any:
    """For each operand, the equation with the result in its position.

    An axis that is of size 1 elsewhere is broadcast. A subscript repeated in a term is
    a diagonal: the rest gets zero. One that no other term has was summed: its gradient
    is broadcast."""
    terms, right = _replace_ellipsis(
        *_split_equation(equation, len(xs)), [x.ndim for x in xs]
    )
    letters = _free_letters({*right, *"".join(terms)})
    result = []
    for i, (term, x) in enumerate(zip(terms, xs, strict=True)):
        others = [t for j, t in enumerate(terms) if j != i]
        operands = [v for j, v in enumerate(xs) if j != i]
        known = set(right).union(*others)
        out = ""
        for axis, letter in enumerate(term):
            if letter in out:
                out += next(letters)
                others.append(letter + out[-1])
                operands.append(eye(x.shape[axis], dtype=x.dtype))
                continue
            out += letter
            if letter not in known:
                others.append(letter)
                ones = full([x.shape[axis]], np.ones((), x.dtype.numpy))
                operands.append(ones)
        text = f"{','.join([right, *others])}->{out}"
        found = einsum(g, *operands, equation=text)
        if found.type.shape != x.type.shape:
            found = found + zeros_like(x)
        result.append(sum_to(found, x))
    return result


def _replace_ellipsis(
    terms: list[str], right: str, ranks: list[int]
) -> tuple[list[str], str]:  # fmt: skip
    """Terms with letters in place of `...`, aligned at the last axes."""
    dots = [
        rank - len(term.replace("...", "")) if "..." in term else 0
        for term, rank in zip(terms, ranks, strict=True)
    ]
    free = _free_letters({*right, *"".join(terms)})
    names = "".join(next(free) for _ in range(max(dots)))
    whole = right.replace("...", names)
    cut = [names[len(names) - n :] for n in dots]
    return [t.replace("...", c) for t, c in zip(terms, cut, strict=True)], whole


def _free_letters(letters: set[str]) -> Iterator[str]:
    return (c for c in string.ascii_letters if c not in letters)


def _einsum_by_loops(equation: str, *xs: Any) -> Any:
    """Evaluate an equation by loops over every subscript."""
    terms, right = _split_equation(equation, len(xs))
    sizes = {
        c: n
        for t, x in zip(terms, xs, strict=True)
        for c, n in zip(t, x.shape, strict=True)
    }
    out = np.zeros([sizes[c] for c in right], "float64")
    for numbers in product(*(range(n) for n in sizes.values())):
        at = dict(zip(sizes, numbers, strict=True))
        factors = [
            float(x[tuple(at[c] for c in t)]) for t, x in zip(terms, xs, strict=True)
        ]
        out[tuple(at[c] for c in right)] += math.prod(factors)
    return out.astype(xs[0].dtype)


@einsum.samples
def _() -> Samples:
    forms: list[Any] = [("ij,jk->ik", (2, 3), (3, 4)),
             ("bij,bkj->bik", (2, 2, 3), (2, 4, 3)),
             ("ij->ji", (2, 3)), ("ij->i", (2, 3)), ("i,j->ij", (2,), (3,)),
             ("i,i", (3,), (3,)), ("ij,jk", (2, 0), (0, 2))]  # fmt: skip
    for equation, *dims in forms:
        xs = [ramp(*d, start=0.3 * i - 1) for i, d in enumerate(dims)]
        smooth = all(x.size for x in xs)
        yield Sample(
            tuple(xs),
            _einsum_by_loops(equation, *xs),
            {"equation": equation},
            smooth=smooth,
        )
    for dtype in ("float16", "bfloat16"):
        xs = [ramp(2, 3, dtype=dtype), ramp(3, 2, start=0.5, dtype=dtype)]
        yield Sample(
            tuple(xs), _einsum_by_loops("ij,jk->ik", *xs), {"equation": "ij, jk -> ik"}
        )
    x = ramp(3, 3, dtype="float32")
    diagonal = array([x[i, i] for i in range(3)], "float32")
    yield Sample((x,), diagonal, {"equation": "ii->i"})
    x = ramp(3, 3)
    diagonal = array([x[i, i] for i in range(3)])
    yield Sample((x,), diagonal, {"equation": "ii->i"})
    yield Sample((x,), array(math.fsum(diagonal)), {"equation": "ii"})
    a, b = ramp(2, 3, 2), ramp(2, 4)
    expected = np.stack([matmul_by_loops(m, b) for m in a])
    yield Sample((a, b), expected, {"equation": "...ij,jk->...ik"})
    c = ramp(1, 2, 4, start=0.3)
    expected = np.stack([matmul_by_loops(m, n) for m in a for n in c]).reshape(2, 3, 4)
    yield Sample((a, c), expected, {"equation": "...ij,...jk->...ik"})
    for dtype in ("float16", "bfloat16", "float8_e4m3fn", "int32"):
        a, b = (
            array([[1, 2, 3], [4, 0, 6]], dtype),
            array([[2, 1], [0, 3], [1, 1]], dtype),
        )
        expected = array([[5, 10], [14, 10]], dtype)
        yield Sample((a, b), expected, {"equation": "ij,jk->ik"}, tolerance=1e-9)
    many = array([1] * 4096, "bfloat16")  # longer sums need a wider accumulator
    yield Sample((many, many), array(4096, "bfloat16"), {"equation": "i,i->"})


def _split_equation(equation: str, count: int) -> tuple[list[str], str]:
    """Subscripts of each operand and of the result, `...` included."""
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != count:
        raise InvalidTypeError(
            "the equation has another number of operands",
            expected=f"{count} terms", got=equation,
        )  # fmt: skip
    if not arrow:
        letters = left.replace("...", "").replace(",", "")
        once = "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
        right = ("..." if "..." in left else "") + once
    return terms, right
