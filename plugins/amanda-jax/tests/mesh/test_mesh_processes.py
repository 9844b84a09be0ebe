"""One mesh over two processes that talk over loopback, each with four devices."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import amanda
from amanda.errors import BackendError
from amanda.types import parse_type
from amanda_jax.mesh.distributed import join, parse_distributed
from amanda_std import ops, trace

FOUR = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
MESH = ("--option", "mesh=data=4,model=2")

PARTS = """
import sys
import jax, numpy as np
import amanda

file, address, process = sys.argv[1:]
graph, x = amanda.load(file), np.load(file + ".npy")
where = {"distributed": f"{address},2,{process}", "mesh": {"data": 4, "model": 2}}
half = x[:4] if process == "0" else x[4:]
[whole] = amanda.compile(graph, "jax", **where)([x]).values()
[parts] = amanda.compile(graph, "jax", fed="parts", **where)([half]).values()
np.testing.assert_array_equal(parts, whole)
in_parts = amanda.compile(graph, "jax", fed="parts", **where)
for feed in half, half[int(process) :], half:  # the second: one has met its form
    try:
        [parts] = in_parts([feed]).values()
        assert feed is half, "parts of other sizes were taken"
        np.testing.assert_array_equal(parts, whole)
    except amanda.errors.UsageError as error:
        assert feed is not half, error
        told = "float32[4, 16] in process 0, float32[3, 16] in process 1"
        assert told in str(error), error
left = {"shardings": "x=data; y=data", "results": "jax"}
[result] = amanda.compile(graph, "jax", **where, **left)([x]).values()
assert result.shape == whole.shape and not result.is_fully_addressable
for part in result.addressable_shards:
    assert part.data.shape == (2, 24)
    np.testing.assert_allclose(part.data, whole[part.index], rtol=1e-5)
[again] = amanda.compile(graph, "jax", distributed=True)([x]).values()
np.testing.assert_allclose(again, whole, rtol=1e-5)
print("fine")
"""


def free_address() -> str:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{one.getsockname()[1]}"


def both(commands: list[list[str]], environments: list[dict[str, str]]) -> list[str]:
    """What two processes print that run at the same time, both to the end."""
    running = []
    for command, more in zip(commands, environments, strict=True):
        env = {**os.environ, **FOUR, **more}
        env.pop("PYTEST_ADDOPTS", None)
        pipe = subprocess.PIPE
        line = [sys.executable, *command]
        running.append(
            subprocess.Popen(line, stdout=pipe, stderr=pipe, text=True, env=env)
        )
    try:
        ended = [process.communicate(timeout=240) for process in running]
    finally:
        for process in running:
            process.kill()
    for process, (out, err) in zip(running, ended, strict=True):
        assert process.returncode == 0, out[-4000:] + err[-4000:]
    return [out for out, _ in ended]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    def weight(seed: int, *shape: int) -> np.ndarray:
        return np.random.default_rng(seed).standard_normal(shape).astype("float32")

    def network(x):
        x = ops.tanh(ops.matmul(x, weight(0, 16, 32)) + weight(1, 32))
        return ops.softmax(ops.matmul(x, weight(2, 32, 24)))

    graph = trace(network, [parse_type("float32[n, 16]")], names=["x"])
    graph.outputs[0].name = "y"
    file = tmp_path / "model.yaml"
    amanda.save(graph, file)
    x = weight(3, 8, 16)
    np.save(f"{file}.npy", x)
    np.save(tmp_path / "wanted.npy", amanda.run(graph, [x], backend="numpy")["y"])
    return file


@pytest.mark.most_cases(1)
@pytest.mark.parametrize("chosen", ["device_has or layers or blocks", "TestPieces"])
def test_graphs_of_all_kinds(chosen: str):
    file = Path(__file__).with_name("mesh_of_eight.py")
    pytest_ = ["-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider"]
    address = free_address()
    printed = both(
        [[*pytest_, str(file), "-k", chosen]] * 2,
        [{"MESH_OF_EIGHT": f"{address},2,{i}"} for i in range(2)],
    )
    assert all(" passed" in text and " failed" not in text for text in printed)


def test_the_same_feed_parts_and_results_in_parts(model: Path):
    address = free_address()
    lines = [["-c", PARTS, str(model), address, str(i)] for i in range(2)]
    assert both(lines, [{}, {}]) == ["fine\n"] * 2


@pytest.mark.most_cases(1)
@pytest.mark.parametrize("how", ["told", "environment"])
def test_the_command_line(model: Path, how: str):
    address = free_address()
    lines, environments = [], []
    for i in range(2):
        line = ["-m", "amanda", "run", str(model), "--backend", "jax", "--json", *MESH]
        line += ["--feed", f"x={model}.npy", "--save", f"{model}.{i}.npz"]
        if how == "told":
            lines.append([*line, "--option", f"distributed={address},2,{i}"])
            environments.append({})
        else:  # as Slurm sets it
            lines.append([*line, "--distributed"])
            environments.append(
                {
                    "JAX_COORDINATOR_ADDRESS": address,
                    "SLURM_JOB_ID": "1",
                    "SLURM_NTASKS": "2",
                    "SLURM_PROCID": str(i),
                    "SLURM_LOCALID": str(i),
                    "SLURM_STEP_NODELIST": "localhost",
                    "SLURM_STEP_NUM_TASKS": "2",
                }
            )
    wanted = np.load(model.with_name("wanted.npy"))
    for i, out in enumerate(both(lines, environments)):
        assert json.loads(out)["results"]["y"]["type"] == "float32[8, 24]"
        got = np.load(f"{model}.{i}.npz")["y"]
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-6)


class TestReading:
    def test_who_takes_part(self):
        assert (
            parse_distributed(None)
            is parse_distributed(False)
            is parse_distributed("")
            is None
        )
        assert parse_distributed(True) == {}
        assert parse_distributed("[::1]:9000, 4, 3") == {
            "coordinator_address": "[::1]:9000",
            "num_processes": 4,
            "process_id": 3,
        }
        assert parse_distributed({"local_device_ids": 0}) == {"local_device_ids": 0}

    @pytest.mark.parametrize("given", ["here", "a:1", "a:1,2", "a:1,2,2", "a,2,1", 7])
    def test_what_cannot_be_read(self, given):
        with pytest.raises(BackendError, match="HOST:PORT,PROCESSES,PROCESS"):
            parse_distributed(given)

    def test_nobody_else(self):
        assert join(None) is False

    def test_jax_is_used_already(self):
        np.asarray(amanda.run(trace(ops.relu, [parse_type("float32[1]")]),
                              [np.float32([1])], backend="jax")[0])  # fmt: skip
        with pytest.raises(BackendError, match="cannot be one of several") as caught:
            join(f"{free_address()},1,0")
        assert "before JAX is used" in str(caught.value)
