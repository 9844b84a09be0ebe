"""Several implementations of one op, chosen by element types and attributes."""

from __future__ import annotations

import numpy as np

from amanda.types import parse_type
from amanda_std import ops, trace
from amanda_std.engine.arrays import Kernels
from amanda_std.engine.kernel_dispatch import KernelDispatch, dispatch, when
from amanda_std.runtime.step_runner import StepRunner


def told(name, log):
    def kernel(x, **attrs):
        log.append(name)
        return np.square(x)

    return kernel


def program(kernel, type_, log, **attrs):
    """Runs `square` on two numbers, by a table in which it is this kernel."""
    graph = trace(ops.square, [parse_type(type_)])
    made = StepRunner(graph, Kernels("mine", {"square": kernel}))
    log.clear()
    return made


def test_by_element_type():
    log = []
    kernel = dispatch(
        when(told("bytes", log), dtype=("int8", "uint8")),
        when(told("single", log), dtype="float32"),
        otherwise=told("other", log),
    )
    for dtype, name in (("int8", "bytes"), ("uint8", "bytes"), ("float32", "single"),
                        ("float64", "other")):  # fmt: skip
        x = np.array([2, 3], dtype)
        made = program(kernel, f"{dtype}[2]", log)
        np.testing.assert_array_equal(made.run([x])[0], [4, 9])
        assert log == [name]


def test_by_attributes():
    log = []
    graph = trace(lambda x: (ops.sort(x), ops.sort(x, descending=True)),
                  [parse_type("float32[3]")])  # fmt: skip
    up = told("up", log)
    kernel = dispatch(
        when(up, descending=False, dtype="float32"), otherwise=told("down", log)
    )
    StepRunner(graph, Kernels("mine", {"sort": kernel})).run([np.ones(3, "float32")])
    assert log == ["up", "down"]


def test_it_is_chosen_once_where_the_graph_tells():
    asked = []

    class Counted(KernelDispatch):
        def of(self, dtype, attrs):
            asked.append(str(dtype))
            return super().of(dtype, attrs)

    kernel = Counted([when(np.square, dtype="float32")], np.square)
    x = np.float32([1, 2])
    made = program(kernel, "float32[2]", asked)
    asked[:] = []
    for _ in range(3):
        made.run([x])
    assert asked == []
    made = program(kernel, "?[2]", asked)
    assert asked == []
    made.run([x])
    made.run([x.astype("int8")])
    assert asked == ["float32", "int8"]
