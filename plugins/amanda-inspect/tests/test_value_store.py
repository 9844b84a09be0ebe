"""Values beyond a number of bytes are in files, and few files are open."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import amanda
from amanda.graph import OutputPort
from amanda_inspect import bisect
from amanda_inspect.value_store import MemoryBudget, ValueStore
from amanda_inspect.windows import windows_of
from amanda_std import ops

RANDOM = np.random.default_rng(0)
OPEN = Path("/proc/self/fd")


def ports(count: int) -> list[OutputPort]:
    graph = amanda.Graph("amanda/std/1")
    return [graph.parameter() for _ in range(count)]


def is_in_file(array: Any) -> bool:
    """Whether the memory of an array is that of a file."""
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(getattr(array, "obj", array), mmap.mmap)


def bytes_in_memory(value: Any) -> int:
    if isinstance(value, list | tuple):
        return sum(map(bytes_in_memory, value))
    return 0 if is_in_file(value) else int(value.nbytes)


ARRAYS = [
    RANDOM.normal(size=(10, 10)).astype("float32"),
    RANDOM.normal(size=(3, 0)),
    np.asfortranarray(RANDOM.normal(size=(7, 9))),
    np.arange(5, dtype="int64")[::-1],
    RANDOM.normal(size=33).astype(ml_dtypes.bfloat16),
    np.array(2.5, "float16"),
    RANDOM.normal(size=4) + 1j,
    np.array([True, False, True]),
]


def test_arrays_of_files_are_as_before() -> None:
    budget = MemoryBudget(0)
    store, keys = ValueStore(budget), ports(len(ARRAYS) + 1)
    store.update(zip(keys, ARRAYS, strict=False))
    store[keys[-1]] = [ARRAYS[0], (ARRAYS[3], ARRAYS[4])]
    for key, array in zip(keys, ARRAYS, strict=False):
        found = store[key]
        assert (found.dtype, found.shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(found, array)
        assert is_in_file(found) == bool(array.size)
    first, (second, third) = store[keys[-1]]
    np.testing.assert_array_equal(first, ARRAYS[0])
    np.testing.assert_array_equal(third, ARRAYS[4])
    assert second.tolist() == [4, 3, 2, 1, 0]
    assert budget.used == 0
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 1


def test_bytes_are_counted() -> None:
    budget = MemoryBudget(1000)
    stores, keys = [ValueStore(budget), ValueStore(budget)], ports(40)
    for i, key in enumerate(keys):
        stores[i % 2][key] = np.full(10, i, "float32")
        held = sum(bytes_in_memory(v) for each in stores for v in each.values())
        assert held == budget.used <= 1000
    assert budget.used == 1000  # 25 of them
    for i, key in enumerate(keys[:30]):
        del stores[i % 2][key]
    assert budget.used == 0
    last = stores[0][keys[38]]
    del stores[0][keys[38]]
    stores[0][keys[0]] = np.full(10, -1, "float32")
    assert last.tolist() == [38] * 10  # what left the store is not overwritten


def test_strings_stay_in_memory() -> None:
    budget = MemoryBudget(10)
    store, (key,) = ValueStore(budget), ports(1)
    store[key] = np.array(["a", "b", "c"], object)
    assert store[key].tolist() == ["a", "b", "c"]
    assert budget.used == store[key].nbytes


def long_lived(count: int, size: int, step: float) -> amanda.Graph:
    """A chain of values all of which are read again at the end."""
    graph = amanda.Graph("amanda/std/1")
    x = graph.parameter(f"float32[{size}]", "x")
    values = [ops.tanh(x)]
    for i in range(1, count):
        values.append(ops.add(values[-1], np.float32(step if i == count // 2 else 0.5)))
    total = values[0]
    for value in values[1:]:
        total = ops.add(total, value)
    graph.result(total, "y")
    return graph


class Counted:
    """The most bytes that all stores hold at a time, and the most open files."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stores: list[ValueStore] = []
        self.held = self.files = 0
        for name in ("__init__", "__setitem__"):
            method = getattr(ValueStore, name)
            monkeypatch.setattr(ValueStore, name, self.counting(method))

    def counting(self, method: Callable[..., None]) -> Callable[..., None]:
        def call(store: ValueStore, *args: Any) -> None:
            method(store, *args)
            if not any(each is store for each in self.stores):
                self.stores.append(store)
            arrays = (v for each in self.stores for v in vars(each)["_arrays"].values())
            self.held = max(self.held, sum(map(bytes_in_memory, arrays)))
            self.files = max(self.files, open_files())

        return call


def open_files() -> int:
    """The number of open files, where the system tells it."""
    return len(list(OPEN.iterdir())) if OPEN.is_dir() else 0


@pytest.mark.parametrize("memory", [1 << 15, 1 << 17])
def test_a_bisection_holds_no_more_than_it_may(
    memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the memory is for values that are read later."""
    size, count = 1 << 9, 60  # values of 2 KiB
    x = np.linspace(-1, 1, size, dtype="float32")
    graphs = [long_lived(count, size, step) for step in (0.5, 0.75)]
    before = open_files()
    counted = Counted(monkeypatch)
    found = bisect(*graphs, [x], backend="numpy", max_memory=memory)
    assert found.first is not None
    adds = [op for op in graphs[1] if op.type == "add"]
    assert found.first.op is adds[count // 2 - 1]
    assert len(counted.stores) == 3
    assert memory // 4 < counted.held <= memory // 2
    assert counted.files <= before + 4  # however many values are in files


@pytest.mark.parametrize("limit", [1 << 11, 5000, 1 << 14, 1 << 30])
def test_windows_compute_no_more_than_a_limit(limit: int) -> None:
    graph = long_lived(20, 512, 0.5)
    windows = windows_of(graph, {}, limit)
    assert [op for ops_ in windows for op in ops_] == [
        op for op in graph if not op.is_constant
    ]
    for window in windows[:-1]:
        size = 2048 * len(window)
        assert size <= limit
        assert size + 2048 > limit  # no window ends before it has to
