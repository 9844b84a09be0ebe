"""Decision trees and tree ensembles: gradient boosting, random forests."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from amanda.errors import InvalidTypeError
from amanda.types import DType
from amanda_std.engine.annotations import (
    Index,
    Logical,
    RealFloating,
)
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, array, ramp
from amanda_std.engine.traits import Trait
from amanda_std.ops._late import late
from amanda_std.ops.math.arithmetic import clip, divide, where
from amanda_std.ops.math.comparison import equal, isnan
from amanda_std.ops.math.logic import logical_and, logical_or
from amanda_std.ops.math.reduction import max_, min_, sum_
from amanda_std.ops.tensor.creation import scalar_like
from amanda_std.ops.tensor.index_arithmetic import dtype_of
from amanda_std.ops.tensor.indexing import gather, gather_elements
from amanda_std.ops.tensor.manipulation import concat
from amanda_std.ops.tensor.shape import astype, broadcast_to, dim, reshape, shape_of

_INT64 = DType("int64")


_PIECEWISE_CONSTANT = "it is piecewise constant"


COMPARISONS = (
    "less_equal", "less", "greater_equal", "greater", "equal", "not_equal",
)  # fmt: skip
"""The comparisons of tree nodes, by number."""


@composite
def tree_leaves(
    x: RealFloating, roots: Index, feature: Index, split: RealFloating, yes: Index,
    no: Index, asks: Index | None = None, lost: Logical | None = None, *, depth: int,
    compare: str = "less_equal",
) -> Index:  # fmt: skip
    """Index of the leaf that each row reaches in each tree: [rows, trees]

    The nodes of all trees are stored in vectors. In each of `depth` steps a node
    compares a feature with its split and continues at `yes` or `no`; a leaf continues
    at itself. `asks` is the comparison of each node, by number, where they differ;
    `lost`: where NaN continues at `yes`."""
    count = reshape(dim(x, axis=0), [1])
    at = astype(roots, dtype=_INT64)
    shape = concat(count, shape_of(at), axis=0)
    at = broadcast_to(at, shape)
    for _ in range(depth):
        number = gather_elements(x, gather(feature, at, 0), axis=1)
        result = _compare(number, gather(split, at, 0), asks, at, compare)
        if lost is not None:
            away = logical_and(isnan(number), gather(lost, at, 0))
            result = logical_or(result, away)
        at = where(result, gather(yes, at, 0), gather(no, at, 0))
    return at


def _compare(x: Any, split: Any, asks: Any, at: Any, compare: str) -> Any:
    if compare not in COMPARISONS:
        raise InvalidTypeError(
            "unknown comparison of a tree node",
            expected=", ".join(COMPARISONS),
            got=compare,
        )
    if asks is None:
        return getattr(late, compare)(x, split)
    own = gather(asks, at, 0)
    result = None
    for code, name in enumerate(COMPARISONS):
        here = logical_and(equal(own, code), getattr(late, name)(x, split))
        result = here if result is None else logical_or(result, here)
    return result


tree_leaves.not_differentiable(_PIECEWISE_CONSTANT)


JOINS = ("sum", "average", "min", "max")
"""Aggregations of the results of several trees."""


@composite
def tree_ensemble(
    x: RealFloating, roots: Index, feature: Index, split: RealFloating, yes: Index,
    no: Index, says: RealFloating, asks: Index | None = None,
    lost: Logical | None = None, *, depth: int, compare: str = "less_equal",
    join: str = "sum",
) -> RealFloating:  # fmt: skip
    """Aggregated prediction of a tree ensemble for each row: [rows, targets]

    `says` [nodes, targets] is the contribution of each leaf to each target; for min and
    max, infinity where it has none. The rest is as in `tree_leaves`."""
    if join not in JOINS:
        raise InvalidTypeError(
            "unknown aggregation of trees", expected=", ".join(JOINS), got=join
        )
    at = tree_leaves(
        x, roots, feature, split, yes, no, asks, lost, depth=depth, compare=compare
    )
    said = gather(says, at, 0)
    if join in ("min", "max"):
        result = min_(said, (1,)) if join == "min" else max_(said, (1,))
        most = float(np.finfo(str(x.dtype)).max)
        return clip(result, scalar_like(-most, x), scalar_like(most, x))
    total = sum_(said, (1,))
    if join == "sum":
        return total
    count = astype(dim(roots, axis=0), dtype=dtype_of(x))
    return divide(total, count)


tree_ensemble.trait(Trait.EXACT_DTYPES)


tree_ensemble.not_differentiable(_PIECEWISE_CONSTANT)


def _walk(row: list[float], at: int, tree: Any, compare: str) -> int:
    feature, split, yes, no = tree
    comparisons = {"less_equal": lambda a, b: a <= b, "less": lambda a, b: a < b,
             "greater_equal": lambda a, b: a >= b, "greater": lambda a, b: a > b,
             "equal": lambda a, b: a == b,
             "not_equal": lambda a, b: a != b}  # fmt: skip
    while yes[at] != at:
        at = yes[at] if comparisons[compare](row[feature[at]], split[at]) else no[at]
    return at


@tree_leaves.samples
def _() -> Samples:
    # node 0 tests feature 1, node 1 feature 0; 5 is a tree of two leaves
    tree = ([1, 0, 0, 0, 0, 1, 0, 0], [0.25, -0.5, 0, 0, 0, 0.75, 0, 0],
            [1, 2, 2, 3, 4, 6, 6, 7], [4, 3, 2, 3, 4, 7, 6, 7])  # fmt: skip
    for dtype in ("float32", "float64"):
        x = array([[-1, 0.25], [0, 0.0], [0, 3], [-0.5, -2]], dtype)
        fixed = [array(tree[0], "int64"), array(tree[1], dtype),
                 *(array(t, "int64") for t in tree[2:])]  # fmt: skip
        for compare in COMPARISONS:
            y = [[_walk(row, root, tree, compare) for root in (0, 5)]
                 for row in x.tolist()]  # fmt: skip
            args = (x, array([0, 5], "int64"), *fixed)
            attrs: dict[str, Any] = {"depth": 3, "compare": compare}
            yield Sample(args, array(y, "int64"), attrs)
    holes = array([[math.nan, 1], [2, math.nan]], "float64")
    lost = array([False, True, False, False, False, True, False, False], "bool")
    comparisons = array([0, 2, 0, 0, 0, 1, 0, 0], "int64")
    # comparisons with NaN are false: only a node marked in `lost` continues at yes
    y = array([[4, 7], [4, 6]], "int64")
    yield Sample((holes, *args[1:], comparisons, lost), y, {"depth": 2})
    yield Sample((x[:0], *args[1:]), np.zeros((0, 2), "int64"), {"depth": 2})


@tree_ensemble.samples
def _() -> Samples:
    # two trees: one tests feature 0 then 1, the other feature 1
    tree = ([0, 1, 0, 0, 0, 1, 0, 0], [0.25, -0.5, 0, 0, 0, 0.75, 0, 0],
            [1, 2, 2, 3, 4, 6, 6, 7], [4, 3, 2, 3, 4, 7, 6, 7])  # fmt: skip
    heard: dict[str, Any] = {
        "sum": sum,
        "average": lambda v: sum(v) / len(v),
        "min": min,
        "max": max,
    }
    for dtype in ("float32", "float64"):
        x = array([[-1, 0.25], [0, 0.0], [0, 3], [0.5, -2]], dtype)
        says = (ramp(8, 2, dtype=dtype, start=0.3)).astype(dtype)
        rows = [array(t, dtype if i == 1 else "int64") for i, t in enumerate(tree)]
        args = (x, array([0, 5], "int64"), *rows, says)
        for join, rule in heard.items():
            at = [[_walk(row, root, tree, "less") for root in (0, 5)]
                  for row in x.tolist()]  # fmt: skip
            y = [[rule([float(says[i, k]) for i in leaves]) for k in range(2)]
                 for leaves in at]  # fmt: skip
            attrs: dict[str, Any] = {"depth": 2, "compare": "less", "join": join}
            yield Sample(args, array(y, dtype), attrs)
        silent = np.full((8, 2), -math.inf, dtype)
        lowest = np.full((4, 2), np.finfo(dtype).min, dtype)
        yield Sample((*args[:-1], silent), lowest, {"depth": 2, "join": "max"})
    yield Sample((x[:0], *args[1:]), np.zeros((0, 2)), {"depth": 2})
