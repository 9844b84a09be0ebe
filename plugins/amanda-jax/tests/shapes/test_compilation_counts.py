"""Compilations: the report counts those that XLA really does, and Python's ops.

What XLA compiles is counted here by JAX's log, which the report does not read.
"""

from __future__ import annotations

import numpy as np
import pytest

import amanda
from amanda.types import parse_type
from amanda_std import ops, trace


def graph_of(function, *types: str):
    names = ["x", "y", "z"][: len(types)]
    return trace(function, [parse_type(t) for t in types], names=names)


def flags(count: int, size: int = 12) -> np.ndarray:
    return (np.arange(size) < count).astype("float32")


CASES = {
    "one program": (lambda x: ops.tanh(x) * 2.0, ["float32[n]"],
                    [[flags(1, n)] for n in (3, 5, 3)]),
    "64 bits inside": (lambda x: ops.astype(ops.argmax(x, 0), dtype="float32"),
                       ["float32[n]"], [[flags(1, n)] for n in (3, 5, 3)]),
    "size of the result": (lambda x: ops.nonzero(x) * 2, ["float32[12]"],
                           [[flags(n)] for n in (3, 5, 8, 3)]),
    "containers": (lambda x: ops.sequence_at(ops.sequence_construct(x, x + 1.0), 1),
                   ["float32[n]"], [[flags(1, n)] for n in (3, 5)]),
    "k": (lambda x, k: ops.topk(x, k)[0], ["float32[12]", "int64[]"],
          [[flags(3), np.int64(k)] for k in (1, 4, 2, 1)]),
}  # fmt: skip


@pytest.mark.parametrize("results", ["numpy", "jax"])
@pytest.mark.parametrize("case", CASES)
def test_the_report_counts_what_xla_compiles(case, results, compilation_log):
    function, types, calls = CASES[case]
    compiled = amanda.compile(graph_of(function, *types), "jax", results=results)
    with compilation_log() as log:
        for feeds in calls:
            compiled(feeds)
    assert log.count > 0
    assert compiled.executable.report().compilations == log.count


def test_each_executable_counts_its_own():
    graph = graph_of(lambda x: ops.nonzero(x) * 3, "float32[12]")
    first, second = (amanda.compile(graph, "jax", programs=n) for n in (31, 30))
    first([flags(2)])
    before = first.executable.report().compilations
    second([flags(7)])
    assert first.executable.report().compilations == before > 0
    assert second.executable.report().compilations > 0


def test_cutting_to_the_size_compiles_nothing(compilation_log):
    """The kernel of `nonzero` is compiled once for each shape of its argument."""
    compiled = amanda.compile(graph_of(ops.nonzero, "float32[13]"), "jax")
    with compilation_log() as log:
        for n in range(13):
            assert compiled([flags(n, 13)])[0].tolist() == [list(range(n))]
    assert log.count == 1


def test_ops_that_python_runs_are_counted():
    def double_while_small(x, n):
        body = lambda i, go, v: (go, ops.concat(v, v, axis=0))  # noqa: E731
        return ops.loop(n, np.asarray(True), body, x)

    compiled = amanda.compile(
        graph_of(lambda x: ops.nonzero(x) + 1, "float32[12]"), "jax"
    )
    for n in (2, 3):
        compiled([flags(n)])
    assert compiled.executable.report().python_ops == 2
    graph = graph_of(double_while_small, "float32[n]", "int64[]")
    compiled = amanda.compile(graph, "jax")
    compiled([flags(1, 2), np.int64(3)])
    report = compiled.executable.report()
    assert report.python_ops >= 1
    assert f"Python ran {report.python_ops} ops" in str(report)
    whole = amanda.compile(graph_of(lambda x: x * 2.0, "float32[3]"), "jax")
    whole([flags(1, 3)])
    assert whole.executable.report().python_ops == 0
