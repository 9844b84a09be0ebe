"""Calls in a process that was forked after its parent had called."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from onednn_variants import needs_onednn

pytestmark = needs_onednn

SCRIPT = """
import os
import signal

import numpy as np

import amanda
from amanda_std import ops, trace

def random_array(*shape):
    return np.random.default_rng(0).normal(size=shape).astype("float32")

def network(x):
    y = ops.conv(x, random_array(32, 8, 3, 3))
    y = ops.relu(ops.conv(y, random_array(32, 8, 3, 3), groups=4))
    y = ops.layer_norm(ops.sigmoid(y)) ** np.float32(3)
    return ops.softmax(ops.matmul(ops.reshape(y, (-1, 64)), random_array(64, 96)))

def compile(function):
    graph = trace(function, [amanda.parse_type("float32[n, 8, 36, 36]")])
    return amanda.compile(graph, "onednn")

def call(run, count):
    return next(iter(run([random_array(count, 8, 36, 36)]).values()))

def check(*calls):
    for found, wanted in calls:
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)

run = compile(network)
wanted = {count: call(run, count) for count in (1, 2)} if PARENT_RUNS else {}

def in_child():
    check(*((call(run, count), array) for count, array in wanted.items()))
    other = compile(lambda x: network(x) + np.float32(1))
    check((call(run, 3), call(other, 3) - 1))

def fork(function):
    child = os.fork()
    if child:
        assert os.waitpid(child, 0)[1] == 0
        return
    signal.alarm(40)
    try:
        function()
        os._exit(0)
    finally:
        os._exit(1)

fork(lambda: (in_child(), fork(in_child)))
check(*((call(run, count), array) for count, array in wanted.items()))
print("ended")
"""
"""Known and new shapes, a new graph, and a fork of the fork; then the parent again."""


@pytest.mark.parametrize("parent_runs", [True, False])
def test_calls_in_forks_end(parent_runs: bool) -> None:
    script = SCRIPT.replace("PARENT_RUNS", str(parent_runs))
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "OMP_NUM_THREADS": "2"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout == "ended\n", done.stderr
