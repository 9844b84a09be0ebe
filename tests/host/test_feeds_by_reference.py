"""Inputs of type `ref<>`: arrays of the caller, read and updated in place."""

from __future__ import annotations

import numpy as np
import pytest

import amanda
from amanda.errors import UsageError

pytest.importorskip("amanda_std")


def counter() -> amanda.Graph:
    """Reads a reference, adds to it twice, and reads it again."""
    from amanda_std import Value, ops, tracing

    graph = amanda.Graph("amanda/std/1")
    pointer = Value(graph.parameter("ref<float32[2]>", "p"))
    step = Value(graph.parameter("float32[2]", "step"))
    with tracing(graph):
        before = ops.read(pointer)
        ops.assign_add(pointer, step)
        ops.assign_add(pointer, step * 2.0)
        after = ops.read(pointer)
    graph.result(before, "before")
    graph.result(after, "after")
    return graph


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_an_array_is_updated_in_place(backend: str) -> None:
    if backend == "jax":
        pytest.importorskip("amanda_jax")
    run = amanda.compile(counter(), backend)
    array = np.float32([1, 2])
    for i in range(3):
        start = array.copy()
        found = run({"p": array, "step": np.float32([i, 10])})
        assert np.asarray(found["before"]).tolist() == start.tolist()
        assert array.tolist() == [start[0] + 3 * i, start[1] + 30]
        assert np.asarray(found["after"]).tolist() == array.tolist()


def test_a_read_only_array_is_refused() -> None:
    array = np.float32([1, 2])
    array.flags.writeable = False
    with pytest.raises(UsageError, match="read-only"):
        amanda.run(counter(), [array, np.ones(2, "float32")], backend="numpy")


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_a_cell_of_a_state_is_updated(backend: str) -> None:
    if backend == "jax":
        pytest.importorskip("amanda_jax")
    from amanda_std import ops, trace

    def reading() -> object:
        return ops.read(ops.variable(np.zeros(2, "float32"), key="w"))

    reader = amanda.compile(trace(reading, []), backend)
    reader([])
    step = np.float32([1, 2])
    amanda.run(counter(), [reader.state.cell("w"), step], backend=backend)
    assert np.asarray(reader.state["w"]).tolist() == [3, 6]


def test_other_values_are_refused() -> None:
    with pytest.raises(UsageError) as caught:
        amanda.run(counter(), ["w", np.ones(2, "float32")], backend="numpy")
    assert caught.value.got == "str"
