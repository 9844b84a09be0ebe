"""Run by the `wheels` environment: the installed library computes, and is listed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

import amanda


def main() -> None:
    graph = amanda.Graph("amanda/std/1")
    x = graph.parameter(amanda.parse_type("float32[64, 64]"), "x")
    graph.result(graph.add("matmul", [x, x]).output, "y")
    fed = np.arange(4096, dtype="float32").reshape(64, 64) / 4096
    found = amanda.run(graph, [fed], backend="onednn")["y"]
    np.testing.assert_allclose(found, fed @ fed, rtol=1e-5)

    script = Path(sys.executable).with_name("amanda")
    command = [script, "backends", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    listed = [row["name"] for row in json.loads(done.stdout)["backends"]]
    assert "onednn" in listed, listed
    print("the backend onednn computes as installed")


if __name__ == "__main__":
    main()
