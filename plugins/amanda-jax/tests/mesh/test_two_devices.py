"""A device that is not the default one, in a process that has two."""

from __future__ import annotations

import os
import subprocess
import sys

CODE = """
import amanda, jax, numpy as np
from amanda_jax.backend import JaxBackend
from amanda_std import ops, trace
from amanda.types import parse_type

assert JaxBackend().devices() == ["cpu:0", "cpu:1"], JaxBackend().devices()
weight = np.eye(8, dtype="float32")
function = lambda x, n: ops.reshape(ops.matmul(x, weight), n)
graph = trace(function, [parse_type("float32[2, 8]"), parse_type("int64[2]")])
for device in ("cpu:1", "cpu:0", "cpu"):
    compiled = amanda.compile(graph, "jax", device, results="jax")
    x = np.ones((2, 8), "float32")
    for feed in (x, *(jax.device_put(x, d) for d in jax.devices())):
        (result,) = compiled([feed, np.array([4, 4])]).values()
        index = 1 if device == "cpu:1" else 0
        assert result.devices() == {jax.devices()[index]}, (device, result.devices())
        assert result.shape == (4, 4)
print("fine")
"""


def test_another_device():
    flags = "--xla_force_host_platform_device_count=2"
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "fine\n", done.stderr
