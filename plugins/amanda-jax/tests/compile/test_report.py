"""What runs each op, in the report of an executable."""

from __future__ import annotations

import numpy as np

import amanda
from amanda.types import parse_type
from amanda_std import ops, trace


def test_the_report_names_what_runs_each_op_for_its_types():
    def function(x, y):
        rows = ops.softmax(ops.exp(x), axes=[1])
        return rows, ops.compress(ops.tanh(y), ops.greater(y, 0.0))  # in pieces

    graph = trace(function, [parse_type("float32[2, 3]"), parse_type("float64[4]")])
    compiled = amanda.compile(graph, "jax")
    compiled([np.ones((2, 3), "float32"), np.array([1.0, -1.0, 2.0, 3.0])])
    report = compiled.executable.report()
    rows = {row.type: row for row in report.implementations}
    assert rows["softmax"].name == "amanda_jax.kernels.array_ops.softmax"
    assert rows["softmax"].dtypes == ("float32",)
    assert rows["exp"].name == "its definition, over jax arrays"
    assert rows["tanh"].dtypes == ("float64",)
    assert rows["compress"].call == "compress(float64, bool)"
    assert f"softmax(float32): {rows['softmax'].name}, 1 op" in str(report).splitlines()
