"""Regions that two models compute by different ops: which op of them is named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import amanda
from amanda_inspect import bisect, match_graphs
from amanda_std import ops

HUB = "amanda/std/1"
RANDOM = np.random.default_rng(3)
WEIGHTS = [RANDOM.normal(size=(8, 8)).astype("float32") for _ in range(4)]
X = RANDOM.normal(size=(2, 5, 8)).astype("float32")


def chain(*, is_split: bool, rounds: bool, faulty: int | None = None) -> amanda.Graph:
    """Four products; in the middle a softmax as one op or as several, at the end a
    rounding, which one of two models may lack."""
    graph = amanda.Graph(HUB)
    y: Any = graph.parameter("float32[2, 5, 8]", "x")
    for i, weight in enumerate(WEIGHTS):
        array = weight.copy()
        if i == faulty:
            array[2, 3] += 4
        y = ops.matmul(y, graph.constant(array).output)
        if i < 3 and is_split:
            high = ops.exp(y - ops.max(y, axes=(-1,), keepdims=True))
            y = high / ops.sum(high, axes=(-1,), keepdims=True)
        elif i < 3:
            y = ops.softmax(y, axes=(-1,))
    if rounds:
        y = ops.astype(ops.astype(y, dtype="float16"), dtype="float32")
    graph.result(ops.tanh(y), "y")
    return graph


def test_ops_between_others_are_matched_by_their_weights() -> None:
    graphs = [
        chain(is_split=is_split, rounds=not is_split) for is_split in (False, True)
    ]
    matching = match_graphs(*graphs)
    products = [[op for op in graph if op.type == "matmul"] for graph in graphs]
    assert [matching.ops.get(op) for op in products[1]] == products[0]


@pytest.mark.parametrize("faulty", range(4))
def test_a_weight_between_ops_that_one_model_has(faulty: int) -> None:
    a = chain(is_split=False, rounds=False)
    b = chain(is_split=True, rounds=False, faulty=faulty)
    found = bisect(a, b, {"x": X}, backend="numpy")
    products = [op for op in b if op.type == "matmul"]
    assert found.first is not None
    assert found.first.op is products[faulty]


def test_the_place_of_a_cast_that_is_missing() -> None:
    a = chain(is_split=False, rounds=True)
    b = chain(is_split=True, rounds=False)
    found = bisect(a, b, {"x": X}, backend="numpy")
    assert found.first is not None
    assert [op.type for op in found.first.missing].count("astype") == 2
    assert [error.op.type for error in found.errors if error.is_made] == ["tanh"]


class Attention:
    """Attention in ONNX: scaled before the product of queries and keys, or after it
    (`late`); the axes of a transposition are those given."""

    heads, depth = 4, 2

    def __init__(self, form: str, **orders: list[int]) -> None:
        self.is_early, self.orders = form == "early", orders
        self.graph = amanda.Graph(
            "amanda/onnx/18" if self.is_early else "amanda/onnx/17"
        )

    def constant(self, value: Any, name: str) -> Any:
        return self.graph.constant(np.asarray(value), name).output

    def add(self, kind: str, name: str, *inputs: Any, **attrs: Any) -> Any:
        return self.graph.add(kind, list(inputs), attrs, name=name).output

    def transpose(self, name: str, value: Any, perm: list[int]) -> Any:
        return self.add("Transpose", name, value, perm=self.orders.get(name, perm))

    def reshape(self, name: str, value: Any, *shape: int) -> Any:
        return self.add("Reshape", name, value, self.constant(shape, f"{name} shape"))

    def split_heads(self, name: str, x: Any, weight: Any) -> Any:
        read = self.constant(weight, f"{name} weight")
        product = self.add("MatMul", f"{name} product", x, read)
        split = self.reshape(f"{name} split", product, 1, 4, self.heads, self.depth)
        return self.transpose(f"{name} heads", split, [0, 2, 1, 3])

    def scores(self, queries: Any, keys: Any) -> Any:
        scale = np.float32(0.5)
        flat = self.reshape("k flat", keys, -1, 4, self.depth)
        turned = self.transpose("k turned", flat, [0, 2, 1])
        keys = self.reshape("keys", turned, 1, self.heads, self.depth, 4)
        if self.is_early:
            root = self.constant(np.sqrt(scale), "root")
            queries = self.add("Mul", "q scaled", queries, root)
            keys = self.add("Mul", "k scaled", keys, root)
        scores = self.add("MatMul", "scores", queries, keys)
        if self.is_early:
            return scores
        return self.add("Mul", "scaled", scores, self.constant(scale, "scale"))

    def build(self) -> amanda.Graph:
        x = self.graph.parameter("float32[1, 4, 8]", "x")
        q, k, v = (
            self.split_heads(name, x, weight)
            for name, weight in zip("qkv", WEIGHTS, strict=False)
        )
        weights = self.add("Softmax", "weights", self.scores(q, k), axis=-1)
        mixed = self.add("MatMul", "mixed", weights, v)
        together = self.transpose("together", mixed, [0, 2, 1, 3])
        merged = self.reshape("merged", together, 1, 4, 8)
        weight = self.constant(WEIGHTS[3], "out weight")
        self.graph.result(self.add("MatMul", "out", merged, weight), "y")
        return self.graph


def attention(form: str, **orders: list[int]) -> amanda.Graph:
    return Attention(form, **orders).build()


IDENTITY = [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("name", "perm"),
    [
        ("q heads", IDENTITY), ("k heads", IDENTITY), ("v heads", IDENTITY),
        ("k turned", [0, 1, 2]), ("k turned", [1, 0, 2]), ("together", IDENTITY),
        ("together", [0, 1, 3, 2]),
    ],
)  # fmt: skip
@pytest.mark.parametrize(("a", "b"), [("late", "early"), ("early", "late")])
def test_a_transposition_of_wrong_axes(
    a: str, b: str, name: str, perm: list[int]
) -> None:
    x = RANDOM.normal(size=(1, 4, 8)).astype("float32")
    faulty = attention(b, **{name: perm})
    found = bisect(attention(a), faulty, {"x": x}, backend="numpy")
    assert found.first is not None
    assert name in (found.first.op.name, *found.first.sources), str(found.first)


@pytest.mark.parametrize(("a", "b"), [("late", "early"), ("early", "late")])
def test_a_scale_at_another_place_is_no_error(a: str, b: str) -> None:
    x = RANDOM.normal(size=(1, 4, 8)).astype("float32")
    found = bisect(attention(a), attention(b), {"x": x}, backend="numpy")
    assert found.first is None
    assert found.equal
