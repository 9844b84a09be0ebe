"""What models before networks are made of: trees, categories, n-grams, kernels."""

from __future__ import annotations

import math
from typing import Annotated, Any, TypeAlias

import numpy as np

from amanda.errors import InvalidTypeError
from amanda.types import DType, MapType, Shape, Sym, TensorType
from amanda_std.engine.annotations import (
    Anything,
    Array,
    Cast,
    Index,
    Kind,
    Logical,
    Map,
    RealFloating,
)
from amanda_std.engine.operation import composite, primitive
from amanda_std.engine.samples import Sample, Samples, array, ramp
from amanda_std.ops._late import late
from amanda_std.ops.tensor.creation import number
from amanda_std.ops.tensor.interpolation import own_dtype
from amanda_std.runtime.containers import expect_kind

_FLOAT32, _INT64 = DType("float32"), DType("int64")
_STEPS = "its results are steps"
Key: TypeAlias = Annotated[Any, Kind(shared=False)]

COMPARISONS = (
    "less_equal", "less", "greater_equal", "greater", "equal", "not_equal",
)  # fmt: skip
"""What a node of a tree may ask, by number."""


# -- trees ---------------------------------------------------------------------------


@composite
def tree_leaves(
    x: RealFloating, roots: Index, feature: Index, split: RealFloating, yes: Index,
    no: Index, asks: Index | None = None, lost: Logical | None = None, *, depth: int,
    compare: str = "less_equal",
) -> Index:  # fmt: skip
    """The node at which each row ends in each tree: [rows, trees]

    Nodes of all trees stand in rows. At each of `depth` steps a node compares the
    number of its feature with its split and goes on to `yes` or `no`; a leaf goes to
    itself. `asks` is the comparison of each node where they differ, by its number;
    `lost`, where NaN goes to `yes`."""
    count = late.reshape(late.dim(x, axis=0), [1])
    at = late.astype(roots, dtype=_INT64)
    shape = late.concat(count, late.shape_of(at), axis=0)
    at = late.broadcast_to(at, shape)
    for _ in range(depth):
        number = late.gather_elements(x, late.gather(feature, at, 0), axis=1)
        found = _asked(number, late.gather(split, at, 0), asks, at, compare)
        if lost is not None:
            away = late.logical_and(late.isnan(number), late.gather(lost, at, 0))
            found = late.logical_or(found, away)
        at = late.where(found, late.gather(yes, at, 0), late.gather(no, at, 0))
    return at


def _asked(x: Any, split: Any, asks: Any, at: Any, compare: str) -> Any:
    if compare not in COMPARISONS:
        raise InvalidTypeError(
            "a node compares", expected=", ".join(COMPARISONS), got=compare
        )
    if asks is None:
        return getattr(late, compare)(x, split)
    own = late.gather(asks, at, 0)
    found = None
    for code, name in enumerate(COMPARISONS):
        here = late.logical_and(late.equal(own, code), getattr(late, name)(x, split))
        found = here if found is None else late.logical_or(found, here)
    return found


tree_leaves.not_differentiable(_STEPS)


JOINS = ("sum", "average", "min", "max")
"""How what several trees say becomes one number."""


@composite
def tree_ensemble(
    x: RealFloating, roots: Index, feature: Index, split: RealFloating, yes: Index,
    no: Index, says: RealFloating, asks: Index | None = None,
    lost: Logical | None = None, *, depth: int, compare: str = "less_equal",
    join: str = "sum",
) -> RealFloating:  # fmt: skip
    """What trees say together of each row: [rows, targets]

    `says` [nodes, targets] is what each leaf says to each target; infinity where it
    says nothing that the least or the largest could be. All else is as `tree_leaves`
    has it."""
    if join not in JOINS:
        raise InvalidTypeError("trees are joined", expected=", ".join(JOINS), got=join)
    at = late.tree_leaves(
        x, roots, feature, split, yes, no, asks, lost, depth=depth, compare=compare
    )
    said = late.gather(says, at, 0)
    if join in ("min", "max"):
        found = late.min(said, (1,)) if join == "min" else late.max(said, (1,))
        most = float(np.finfo(str(x.dtype)).max)
        return late.clip(found, number(-most, x), number(most, x))
    total = late.sum(said, (1,))
    if join == "sum":
        return total
    count = late.astype(late.dim(roots, axis=0), dtype=own_dtype(x))
    return late.divide(total, count)


tree_ensemble.minds_types = True
tree_ensemble.not_differentiable(_STEPS)


# -- categories ------------------------------------------------------------------------


@composite
def lookup(x: Key, keys: Key, values: Array, otherwise: Array) -> Array:
    """The value beside the key that each element is, another one where it is none

    NaN is a key like others."""
    own = late.expand_dims(x, (-1,))
    same = late.equal(own, keys)
    if str(x.dtype) in ("float16", "bfloat16", "float32", "float64"):
        both = late.logical_and(late.isnan(own), late.isnan(keys))
        same = late.logical_or(same, both)
    at = late.argmax(late.astype(same, dtype=DType("int32")), -1)
    return late.where(late.any(same, (-1,)), late.gather(values, at, 0), otherwise)


lookup.minds_types = True
lookup.not_differentiable("its results are picked")


@composite
def ngram_counts(
    x: Array, grams: Array, *, length: int, step: int = 1, dtype: Any = _FLOAT32
) -> Cast:
    """How often each row of grams, of `length` parts, stands along the last axis

    `step`: how far apart the parts are in x."""
    width = late.dim(x, axis=-1)
    starts = late.maximum(late.subtract(width, (length - 1) * step), 0)
    found = None
    for k in range(length):
        first = late.full((1,), np.int64(k * step))
        stop = late.add(first, starts)
        piece = late.slice(x, first, stop, (-1,))
        part = late.gather(grams, np.asarray(k), 1)
        here = late.equal(late.expand_dims(piece, (-1,)), part)
        found = here if found is None else late.logical_and(found, here)
    return late.sum(late.astype(found, dtype=dtype), (-2,))


ngram_counts.not_differentiable(_STEPS)


@primitive(numpy_only=True)
def map_values(m: Map) -> Anything:
    """The values of a map in a row, in the order of its keys"""
    rows = [m[key] for key in sorted(m)]
    return np.stack(rows) if rows else np.zeros((0,), "float32")


@map_values.infer
def _(m: Any) -> Any:
    value = expect_kind(MapType, m).value
    shape = Shape([Sym.unknown(), *value.shape.dims] if value.shape.has_rank else None)
    return [TensorType(value.dtype, shape)]


map_values.not_differentiable("gradients do not go through maps")


@map_values.samples
def _() -> Samples:
    for dtype in ("float32", "int64"):
        held = {7: array(1, dtype), 3: array(2, dtype)}
        yield Sample((held,), array([2, 1], dtype))
    yield Sample(({"b": array([1.0]), "a": array([2.0])},), array([[2.0], [1.0]]))


# -- kernels ---------------------------------------------------------------------------


@composite
def kernel_product(
    x: RealFloating, y: RealFloating, *, kernel: str = "linear", gamma: float = 0.0,
    base: float = 0.0, degree: float = 0.0,
) -> RealFloating:  # fmt: skip
    """How alike each row of x is to each row of y, as support vector machines have it

    linear: x . y; poly: (gamma * x . y + base) ** degree; sigmoid: the hyperbolic
    tangent of gamma * x . y + base; rbf: exp(-gamma * |x - y| ** 2)."""
    if kernel == "rbf":
        apart = late.expand_dims(x, (1,)) - late.expand_dims(y, (0,))
        far = late.sum(late.square(apart), (-1,))
        return late.exp(late.multiply(far, -gamma))
    near = late.matmul(x, late.transpose(y, perm=(1, 0)))
    if kernel == "linear":
        return near
    near = late.add(late.multiply(near, gamma), base)
    if kernel == "sigmoid":
        return late.tanh(near)
    if kernel != "poly":
        raise InvalidTypeError(
            "no such kernel", expected="linear, poly, sigmoid, rbf", got=kernel
        )
    return late.pow(near, float(degree))


# -- samples: loops over numbers -------------------------------------------------------


def _walk(row: list[float], at: int, tree: Any, compare: str) -> int:
    feature, split, yes, no = tree
    asked = {"less_equal": lambda a, b: a <= b, "less": lambda a, b: a < b,
             "greater_equal": lambda a, b: a >= b, "greater": lambda a, b: a > b,
             "equal": lambda a, b: a == b,
             "not_equal": lambda a, b: a != b}  # fmt: skip
    while yes[at] != at:
        at = yes[at] if asked[compare](row[feature[at]], split[at]) else no[at]
    return at


@tree_leaves.samples
def _() -> Samples:
    # 0 asks feature 1, 1 asks feature 0; 5 is a tree of two leaves; others are leaves
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
    asks = array([0, 2, 0, 0, 0, 1, 0, 0], "int64")
    # NaN is less than nothing: only a node that says so lets it go to yes
    y = array([[4, 7], [4, 6]], "int64")
    yield Sample((holes, *args[1:], asks, lost), y, {"depth": 2})
    yield Sample((x[:0], *args[1:]), np.zeros((0, 2), "int64"), {"depth": 2})


@tree_ensemble.samples
def _() -> Samples:
    # two trees: one asks feature 0 and then feature 1, the other feature 1
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


@lookup.samples
def _() -> Samples:
    for dtype in ("float32", "int64"):
        keys, values = array([3, 1], "int64"), array([30, 10], dtype)
        x = array([[1, 2], [3, 3]], "int64")
        y = array([[10, -1], [30, 30]], dtype)
        yield Sample((x, keys, values, array(-1, dtype)), y)
    reals = array([math.nan, 0.5, 2], "float32")
    keys = array([0.5, math.nan], "float32")
    yield Sample(
        (reals, keys, values, array(-1, "int64")), array([10, 30, -1], "int64")
    )
    yield Sample((reals[:0], keys, values, array(-1, "int64")), array([], "int64"))
    yield Sample(
        (array(0.5, "float32"), keys, values, array(-1, "int64")), array(30, "int64")
    )


def _counted(row: list[Any], gram: list[Any], step: int) -> int:
    starts = range(max(len(row) - (len(gram) - 1) * step, 0))
    return sum(
        all(row[s + k * step] == part for k, part in enumerate(gram)) for s in starts
    )


@ngram_counts.samples
def _() -> Samples:
    x = array([[1, 2, 1, 2, 3], [2, 2, 2, 2, 1]], "int32")
    for grams in ([[1], [2]], [[1, 2], [2, 2], [2, 1]], [[2, 2, 2]], [[1] * 6]):
        x = x.astype("int64" if len(grams) == 1 else "int32")
        for step in (1, 2):
            y = [[_counted(row, g, step) for g in grams] for row in x.tolist()]
            own: dict[str, Any] = {"step": step, "length": len(grams[0])}
            yield Sample((x, array(grams, str(x.dtype))), array(y, "float32"), own)
    row = [_counted(x[0].tolist(), g, 1) for g in ([1, 2], [2, 3])]
    grams = array([[1, 2], [2, 3]], "int64")
    attrs: dict[str, Any] = {"dtype": _INT64, "length": 2}
    x = x.astype("int64")
    yield Sample((x[0], grams), array(row, "int64"), attrs)
    yield Sample((x[:0], grams), np.zeros((0, 2), "float32"), {"length": 2})


@kernel_product.samples
def _() -> Samples:
    x, y = ramp(3, 2), ramp(2, 2, start=0.5)
    rows: list[tuple[dict[str, Any], Any]] = [
        ({}, lambda dot, _: dot),
        ({"kernel": "rbf", "gamma": 0.5}, lambda _, far: math.exp(-0.5 * far)),
        ({"kernel": "poly", "gamma": 0.5, "base": 2.0, "degree": 3.0},
         lambda dot, _: (0.5 * dot + 2) ** 3),
        ({"kernel": "sigmoid", "gamma": 0.5, "base": 0.25},
         lambda dot, _: math.tanh(0.5 * dot + 0.25)),
    ]  # fmt: skip
    for attrs, rule in rows:
        z = [[rule(sum(a * b for a, b in zip(u, v, strict=True)),
                   sum((a - b) ** 2 for a, b in zip(u, v, strict=True)))
              for v in y.tolist()] for u in x.tolist()]  # fmt: skip
        for dtype in ("float64", "float32"):
            yield Sample((x.astype(dtype), y.astype(dtype)), array(z, dtype), attrs)
        yield Sample((x[:0], y), np.zeros((0, 2)), attrs, smooth=False)
