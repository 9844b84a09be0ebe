"""Functions that call each other twice: 40 of them stand for a trillion ops."""

from __future__ import annotations

import numpy as np
import pytest

import amanda
from amanda.errors import AmandaError, LimitError
from amanda.mapping import expanded_sizes, sum_over_calls
from amanda.tensors import FunctionRef
from amanda_std import passes


def doubling(count):
    """A graph with `count` functions, each of which calls the one before twice."""
    graph = amanda.Graph("amanda/std/1", "doubling")
    for i in range(count):
        function = amanda.Graph("amanda/std/1", f"f{i}")
        value = function.parameter("float32[2]", "x")
        for _ in range(2):
            value = call(function, value, i - 1) if i else negative(function, value)
        function.result(value, "y")
        graph.add_function(f"f{i}", function)
    x = graph.parameter("float32[2]", "x")
    graph.result(call(graph, x, count - 1), "y")
    return graph


def call(graph, value, number):
    attrs = {"function": FunctionRef(f"f{number}")}
    return graph.add("call", [value], attrs).output


def negative(graph, value):
    return graph.add("negative", [value]).output


@pytest.mark.parametrize("suffix", ["yaml", "json", "amtxt", "ampb", "amanda"])
def test_files_with_functions_that_double(suffix, tmp_path):
    path = tmp_path / f"doubling.{suffix}"
    amanda.save(doubling(40), path)
    graph = amanda.load(path)
    assert len(graph.functions) == 40
    with pytest.raises(LimitError, match="expand to too many ops") as caught:
        amanda.compile(graph, "numpy")
    assert caught.value.got == str(2**41 - 2)
    with pytest.raises(LimitError, match="expand to too many ops"):
        passes.infer(graph)


def test_the_number_counts_not_the_depth():
    """The same functions, few enough, run: the number of ops decides."""
    run = amanda.compile(doubling(5), "numpy")
    np.testing.assert_array_equal(run([np.float32([1, 2])])["y"], np.float32([1, 2]))


def test_sizes_of_functions():
    graph = doubling(4)
    functions = list(graph.functions.values())

    def callees(op):
        found = [v for v in op.attrs.values() if isinstance(v, FunctionRef)]
        return [graph.functions[each.name] for each in found]

    sizes = expanded_sizes(functions[-1:], callees)
    assert [sizes[function] for function in functions] == [2, 6, 14, 30]


def test_a_cycle_of_calls_is_an_error():
    calls = {"a": ["b"], "b": ["c"], "c": ["a"]}
    with pytest.raises(AmandaError, match="calls itself"):
        sum_over_calls(dict.fromkeys(calls, 1), calls)
