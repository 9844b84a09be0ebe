"""What every plug-in and every backend must do, on this one."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from amanda.testing import BackendSample, BackendSuite, PluginSuite
from amanda.types import parse_type
from amanda_std import ops, trace
from amanda_std.ops import OPS


class TestPlugin(PluginSuite):
    dist = "amanda-std"


class TestNumpy(BackendSuite):
    backend = "numpy"
    late = ("numpy", "scipy")

    def samples(self):
        graph = trace(ops.softmax, [parse_type("float32[n, 2]")], names=["x"])
        x = np.zeros((3, 2), "float32")
        return {"softmax": lambda: BackendSample(graph.clone(), [x], [x + 0.5])}


def test_ops_are_there_without_assertions():
    """`python -O` leaves assertions out."""
    code = "from amanda_std.ops import OPS; print(len(OPS))"
    run = [sys.executable, "-O", "-c", code]
    found = subprocess.run(run, capture_output=True, text=True, check=True)
    assert int(found.stdout) == len(OPS)
