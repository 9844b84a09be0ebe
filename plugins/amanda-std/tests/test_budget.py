"""What folding and inference compute is bounded by elements and bytes, not results."""

from __future__ import annotations

import numpy as np
import pytest

from amanda.graph import Graph
from amanda.tensors import Tensor
from amanda.types import TensorType
from amanda_std import ops, trace
from amanda_std.engine.budget import (
    MAX_EAGER_ELEMENTS,
    Budget,
    is_surely_small,
    work_of,
)
from amanda_std.passes.fold import fold
from amanda_std.passes.infer import infer


def made_bytes(graph: Graph) -> int:
    found = {id(t): t for op in graph if op.is_constant and (t := op.attrs["value"])}
    return sum(0 if t.stores_one_element else t.nbytes for t in found.values())


def doubling(steps: int, *, alternate: bool) -> Graph:
    """Concatenations of the last result with itself, or with the one before."""
    graph = Graph("amanda/std/1")
    last = before = graph.constant(Tensor.of(np.arange(8, dtype="float32"))).output
    if alternate:
        last = graph.constant(Tensor.of(np.arange(9, dtype="float32"))).output
    for _ in range(steps):
        joined = graph.add("concat", [last, before if alternate else last], {"axis": 0})
        before, last = last, joined.output
    graph.result(last)
    infer(graph)
    return graph


@pytest.mark.parametrize("alternate", [False, True])
def test_growth_is_bounded_over_all_ops_and_runs(alternate: bool) -> None:
    graph = doubling(44, alternate=alternate)
    for _ in range(3):
        fold(graph)
    assert made_bytes(graph) <= 1 << 28
    assert any(op.type == "concat" for op in graph)


@pytest.mark.parametrize("size", [1 << 40, 1 << 28])
def test_elements_of_operands_count(size: int) -> None:
    graph = Graph("amanda/std/1")
    x = graph.constant(Tensor.splat("float32", (size,), 1.0)).output
    graph.result(graph.add("max", [x]).output)
    infer(graph)
    assert fold(graph) == 0


def test_products_count_their_multiplications() -> None:
    assert work_of([10**6, 10**6], 10**6) == 10**9
    assert work_of([100], 50) == 150
    graph = Graph("amanda/std/1")
    x = graph.constant(Tensor.splat("float32", (1 << 13, 1 << 13), 1.0)).output
    product = graph.add("matmul", [x, x]).output
    graph.result(graph.add("max", [product]).output)
    infer(graph)
    assert fold(graph) == 0


def test_weights_are_prepared_in_proportion_to_their_size() -> None:
    graph = Graph("amanda/std/1")
    w = graph.constant(Tensor.of(np.ones((2048, 2048), "float32"))).output
    graph.result(graph.add("transpose", [w], {"perm": (1, 0)}).output)
    infer(graph)
    assert fold(graph) == 1


def test_a_budget_is_used_up() -> None:
    budget = Budget(0)
    assert budget.take(1 << 25, 0)
    assert budget.take(1 << 25, 1 << 26)
    assert not budget.take(1, 0)
    assert not budget.take(0, 1)
    assert Budget(1 << 30).take(1 << 33, 1 << 33)


CALLS = {
    "eye": lambda: ops.eye(20000, 20000, dtype="float32"),
    "arange": lambda: ops.arange(0, 1 << 40),
    "full": lambda: ops.full((1 << 40,), np.float32(0)),
    "hann_window": lambda: ops.hann_window(1 << 31),
    "one_hot": lambda: ops.one_hot(np.array([0]), 1 << 31, np.int64(1), np.int64(0)),
    "random_uniform": lambda: ops.random_uniform(
        np.zeros(2, "uint32"), (1 << 31,), dtype="float32"
    ),
    "tile": lambda: ops.tile(np.ones(4, "float32"), (1 << 40,)),
    "mel_weights": lambda: ops.mel_weights(
        1 << 14, 1 << 17, rate=8000, low=0.0, high=1.0
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_large_call_on_constants_becomes_an_op(name: str) -> None:
    graph = trace(lambda x: (x, CALLS[name]()), [TensorType("float32", [2])])
    assert [op.type for op in graph if not op.is_constant] == [name]
    found = graph.results[1].type
    assert isinstance(found, TensorType)
    assert int(found.shape.size) > MAX_EAGER_ELEMENTS


def test_a_small_one_becomes_a_constant() -> None:
    graph = trace(lambda x: (x, ops.arange(0, 1000)), [TensorType("float32", [2])])
    assert [op.is_constant for op in graph] == [True]


@pytest.mark.parametrize(
    ("args", "small"),
    [
        ((3, (4, 5)), True), ((1 << 40,), False), (((1 << 12), (1 << 12)), False),
        ((np.ones(1 << 23),), False), ((np.array([1 << 40]),), False),
        ((np.array([5]),), True), ((None, "text", 1e30, True), True),
        ((np.ones(1 << 12), np.ones(1 << 12)), False), (([[1 << 30]],), False),
    ],
)  # fmt: skip
def test_sizes_are_seen_without_inference(args: tuple, small: bool) -> None:
    assert is_surely_small(args, {}) is small
