"""Inputs of type `ref<>`: arrays of the caller, read and updated in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import amanda
from amanda.errors import BackendError, UsageError

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


def compile_reader(backend: str) -> Any:
    """An executable that ran once, whose result is the variable `w` of its state."""
    from amanda_std import ops, trace

    def read_variable() -> object:
        return ops.read(ops.variable(np.zeros(2, "float32"), key="w"))

    reader = amanda.compile(trace(read_variable, []), backend)
    reader([])
    return reader


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
    reader = compile_reader(backend)
    step = np.float32([1, 2])
    amanda.run(counter(), [reader.state.cell("w"), step], backend=backend)
    assert np.asarray(reader.state["w"]).tolist() == [3, 6]


@pytest.mark.parametrize("reader_backend", ["numpy", "jax"])
@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_a_key_of_the_state_is_updated(backend: str, reader_backend: str) -> None:
    if "jax" in (backend, reader_backend):
        pytest.importorskip("amanda_jax")
    reader = compile_reader(reader_backend)
    step = np.float32([1, 2])
    run = amanda.compile(counter(), backend, state=reader.state)
    for i in (1, 2):
        found = run({"p": "w", "step": step})
        assert np.asarray(found["after"]).tolist() == [3 * i, 6 * i]
        assert np.asarray(reader([])[0]).tolist() == [3 * i, 6 * i]
    amanda.run(counter(), ["w", step], backend=backend, state=reader.state)
    assert np.asarray(reader.state["w"]).tolist() == [9, 18]


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_a_key_of_the_own_state_is_updated(backend: str) -> None:
    if backend == "jax":
        pytest.importorskip("amanda_jax")
    run = amanda.compile(counter(), backend)
    step = np.float32([1, 2])
    with pytest.raises(UsageError, match="'w' that is fed for 'p' is not in the state"):
        run(["w", step])
    run.state["w"] = np.float32([5, 5])
    run.state["other"] = np.float32([1, 1])
    found = run(["w", step])
    assert np.asarray(found["before"]).tolist() == [5, 5]
    assert run.state["w"].tolist() == [8, 11]
    assert run.state["other"].tolist() == [1, 1]
    with pytest.raises(UsageError) as caught:
        run(["v", step])
    assert caught.value.expected == "a key of its state: 'w', 'other'"


@pytest.mark.parametrize("value", [np.float32([1, 2, 3]), np.float64([1, 2])])
def test_a_variable_or_an_array_of_another_type_is_refused(value: np.ndarray) -> None:
    run = amanda.compile(counter(), "numpy")
    run.state["w"] = value
    for fed in ("w", value):
        with pytest.raises(UsageError, match=r"cannot be fed for 'p', which is ref<"):
            run([fed, np.ones(2, "float32")])
    np.testing.assert_array_equal(run.state["w"], value)


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_other_states_are_refused(backend: str) -> None:
    if backend == "jax":
        pytest.importorskip("amanda_jax")
    with pytest.raises(BackendError, match="option 'state'"):
        amanda.compile(counter(), backend, state={"w": 1})


def test_other_values_are_refused() -> None:
    with pytest.raises(UsageError) as caught:
        amanda.run(counter(), [b"w", np.ones(2, "float32")], backend="numpy")
    assert caught.value.got == "bytes"


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_a_session_updates_the_array_that_was_fed(backend: str) -> None:
    if backend == "jax":
        pytest.importorskip("amanda_jax")
    session = amanda.Session(counter(), backend)
    array = np.float32([1, 2])
    step = np.float32([1, 10])
    for feeds in ({"p": array, "step": step}, {}, {"step": step}):
        start = array.copy()
        found = session.run(["before", "after"], feeds)
        np.testing.assert_array_equal(found["before"], start)
        np.testing.assert_array_equal(array, start + 3 * step)
        np.testing.assert_array_equal(found["after"], array)
        array += 1  # the caller writes to it between runs
