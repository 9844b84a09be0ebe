"""Repeated blocks: one program for all that are alike, and only for these."""

from __future__ import annotations

import numpy as np
import pytest

import amanda
from amanda.types import parse_type
from amanda_jax.compile import block_reuse
from amanda_std import ops, trace

WIDTH = 8


@pytest.fixture(autouse=True)
def blocks_of_few_layers(monkeypatch):
    """The fewest layers that are worth it are few here, so that tests are quick."""
    monkeypatch.setattr(block_reuse, "MIN_REPEATS", 6)


def weight(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32") / 3


def layer(x, seed: int, factor: float = 0.5):
    """An attention of one head, and a layer behind it, with weights of their own."""
    q, k, v = (ops.matmul(x, weight(3 * seed + i, WIDTH, WIDTH)) for i in range(3))
    scores = ops.softmax(ops.matmul(q, ops.transpose(k, perm=(0, 2, 1))) * factor)
    x = ops.layer_norm(x + ops.matmul(scores, v))
    inner = ops.gelu(ops.matmul(x, weight(seed + 90, WIDTH, 24)) + weight(seed, 24))
    return x + ops.matmul(inner, weight(seed + 190, 24, WIDTH))


def graph_of(function):
    return trace(function, [parse_type(f"float32[n, 5, {WIDTH}]")], names=["x"])


def x_of(n: int) -> np.ndarray:
    return weight(7, n, 5, WIDTH)


def run_both(graph, n: int = 2, **options):
    compiled = amanda.compile(graph, "jax", **options)
    wanted = amanda.run(graph, [x_of(n)], backend="numpy")
    got = compiled([x_of(n)])
    for key, value in wanted.items():
        np.testing.assert_allclose(got[key], value, rtol=2e-4, atol=2e-5)
    return compiled.executable.report()


def deep(depth: int, **others: float):
    def network(x):
        x = ops.tanh(x * 1.5)
        for i in range(depth):
            x = layer(x, i, others.get(f"at{i}", 0.5))
        return ops.sum(x, (-1,))

    return graph_of(network)


def test_one_program_for_all_layers():
    report = run_both(deep(12))
    assert report.pieces >= 12
    assert report.compilations == report.programs <= 3  # before, a layer, behind
    assert report.outside == {}


def test_notes_of_another_format_do_not_tell_layers_apart():
    """What was read from a file knows how each weight was called there."""
    graph = deep(12)
    for op in graph:
        op.output.attrs["onnx:notes"] = {"metadata_props": {"name": f"p_{op.label}"}}
    assert run_both(graph).programs <= 3


def test_how_deep_it_is_does_not_matter():
    few, many = (run_both(deep(depth)).compilations for depth in (8, 20))
    assert few == many


def test_other_shapes_are_one_more_compilation_of_each():
    graph = deep(10)
    compiled = amanda.compile(graph, "jax")
    counts = []
    for n in (1, 2, 1):
        compiled([x_of(n)])
        counts.append(compiled.executable.report().compilations)
    assert counts[1] == counts[2] == 2 * counts[0]


def test_it_can_be_left_out():
    report = run_both(deep(12), without="blocks")
    assert report.pieces == report.programs == 1


def test_a_layer_with_another_number_has_a_program_of_its_own():
    alike = run_both(deep(12)).programs
    report = run_both(deep(12, at4=0.25))
    assert report.programs > alike


def test_bodies_that_read_the_same_values_in_another_order():
    """Every other layer has the same ops in its choice, on the other values."""

    def chosen(x, go, i: int):
        h = ops.tanh(ops.matmul(x, weight(i, WIDTH, WIDTH)) * 2.0)
        u, v = ops.exp(ops.tanh(h)), ops.exp(ops.negative(h))

        def then():
            if i % 2:
                q = ops.cos(u)
                return ops.subtract(ops.sin(v), q)
            p = ops.sin(u)
            return ops.subtract(p, ops.cos(v))

        return ops.tanh(ops.if_(go, then, lambda: ops.add(u, v))[0]) + h

    def network(x):
        go = ops.all(ops.less(x, 100.0))
        for i in range(12):
            x = chosen(x, go, i)
        return x

    report = run_both(graph_of(network))
    assert report.pieces >= 6
    assert report.programs <= 4  # one for each kind of layer, before and behind


def test_values_inside_that_others_read():
    def network(x):
        kept = []
        for i in range(9):
            x = layer(x, i)
            if i in (3, 8):
                kept.append(ops.sum(x, (1,)))
        return x, *kept

    run_both(graph_of(network))


def test_what_all_layers_read_is_handed_to_each():
    def network(x):
        mask = ops.tanh(ops.sum(x, (-1,), keepdims=True))
        for i in range(9):
            x = layer(x, i) * mask
        return x

    report = run_both(graph_of(network))
    assert report.programs < 5


@pytest.mark.parametrize("depth", [1, 5])
def test_a_few_layers_are_one_program(depth):
    assert run_both(deep(depth)).pieces == 1
