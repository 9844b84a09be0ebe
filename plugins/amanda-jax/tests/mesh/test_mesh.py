"""Graphs over several devices: `mesh_of_eight.py`, in a process that has eight."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import amanda
from amanda.errors import BackendError
from amanda.types import parse_type
from amanda_std import ops, trace

EIGHT = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8"}


@pytest.mark.most_cases(1)
@pytest.mark.parametrize(
    "which", ["TestResults", "TestPieces", "not TestResults and not TestPieces"]
)
def test_eight_devices(which: str):
    file = Path(__file__).with_name("mesh_of_eight.py")
    env = {**os.environ, **EIGHT, "JAX_PLATFORMS": "cpu"}
    env.pop("PYTEST_ADDOPTS", None)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:xdist",
            str(file),
            "-k",
            which,
        ],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def graph():
    return trace(ops.relu, [parse_type("float32[n, 4]")], names=["x"])


def test_a_mesh_of_one_device():
    compiled = amanda.compile(graph(), "jax", mesh={"data": 1})
    assert compiled([np.float32([[-1, 1, 2, -2]])])[0].tolist() == [[0, 1, 2, 0]]
    assert "on a mesh data=1 of 1 devices (" in str(compiled.executable.report())


def test_how_to_get_more_devices_is_told():
    with pytest.raises(BackendError) as caught:
        amanda.compile(graph(), "jax:cpu", mesh={"data": 4, "model": 200})
    told = str(caught.value)
    assert "expected: 800 devices" in told
    assert "XLA_FLAGS=--xla_force_host_platform_device_count=800" in told
    assert "jax.config.update('jax_num_cpu_devices', 800)" in told


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"mesh": "data"}, "'mesh' of backend 'jax' cannot be read"),
        ({"mesh": {"data": 0}}, "'mesh' of backend 'jax' cannot be read"),
        ({"mesh": 4}, "'mesh' of backend 'jax' cannot be read"),
        ({"shardings": "fsdp"}, "'shardings' and 'fed' of backend 'jax' are about"),
        ({"fed": "parts"}, "'shardings' and 'fed' of backend 'jax' are about"),
        (
            {"mesh": {"data": 1}, "fed": "parts", "buckets": {"n": [8]}},
            "'buckets' of backend 'jax' pads what is whole",
        ),
        ({"mesh": {"data": 1}, "fed": "some"}, "'fed' of backend 'jax' cannot be"),
    ],
)
def test_options_are_checked(options, text):
    with pytest.raises(BackendError, match=text):
        amanda.compile(graph(), "jax", **options)


def test_a_name_that_nothing_has_is_told():
    text = "no input, weight or result is called 'y', as `shardings` names it"
    with pytest.warns(UserWarning, match=text):
        amanda.compile(graph(), "jax", mesh={"data": 1}, shardings={"y": ("data",)})
