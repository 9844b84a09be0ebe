"""What every plug-in and every backend must do, on this one."""

from __future__ import annotations

import numpy as np

from amanda.testing import BackendSample, BackendSuite, PluginSuite
from amanda.types import parse_type
from amanda_std import ops, trace


class TestPlugin(PluginSuite):
    dist = "amanda-jax"


class TestJax(BackendSuite):
    backend = "jax"
    late = ("jax", "jaxlib", "numpy")

    def samples(self):
        graph = trace(ops.softmax, [parse_type("float32[n, 2]")], names=["x"])
        x = np.zeros((3, 2), "float32")
        return {"softmax": lambda: BackendSample(graph.clone(), [x], [x + 0.5])}
