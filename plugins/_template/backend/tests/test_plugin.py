"""What every plug-in and every backend of the hub must do, on this one."""

from __future__ import annotations

import numpy as np
from amanda_template.backend import KERNELS

from amanda.testing import BackendSample, BackendSuite, PluginSuite
from amanda.types import parse_type
from amanda_std import ops, trace
from amanda_std.backends import op_samples


class TestPlugin(PluginSuite):
    dist = "amanda-template"


class TestBackend(BackendSuite):
    backend = "template"
    late = ("numpy",)

    def samples(self):
        """The hub's own samples of the kernels, and a composite that is lowered."""
        graph = trace(ops.softmax, [parse_type("float32[n, 2]")], names=["x"])
        x = np.zeros((3, 2), "float32")
        softmax = {"softmax": lambda: BackendSample(graph.clone(), [x], [x + 0.5])}
        return {**op_samples(KERNELS, most=2), **softmax}
