"""Saves that are killed at any time leave a complete model, the old or the new one.

`tox run -e kills` kills 1,000 saves of each kind; the tests kill `KILLS`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from routes.save_until_killed import KINDS, MODELS, SUFFIX, model, savers

import amanda
from amanda.files import LEFT_OVER
from amanda.host import host_in_use

KILLS = int(os.environ.get("AMANDA_TEST_KILLS", "12"))
SCRIPT = Path(__file__).with_name("save_until_killed.py")

pytestmark = pytest.mark.skipif(
    not hasattr(os, "fork"), reason="the script forks its processes"
)


class SavingProcess:
    """Processes that save models until they are killed, one after the other."""

    def __init__(self, kind: str, path: Path) -> None:
        self._child: int | None = None
        environment = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONWARNINGS": "ignore"}
        self._process = subprocess.Popen(
            [sys.executable, SCRIPT, kind, path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        assert self.line() == "ready"

    def line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def start(self) -> int:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self._child = int(self.line())
        return self._child

    def kill(self, child: int) -> None:
        os.kill(child, signal.SIGKILL)
        assert self.line() == "ended"
        self._child = None

    def close(self) -> None:
        if self._child is not None:
            os.kill(self._child, signal.SIGKILL)
        self._process.communicate()


@contextmanager
def saving(kind: str, path: Path) -> Iterator[SavingProcess]:
    process = SavingProcess(kind, path)
    try:
        yield process
    finally:
        process.close()


def skip_without(kind: str) -> None:
    host = host_in_use()
    if kind in ("onnx", "external") and not host.has("formats", "onnx"):
        pytest.skip("amanda-onnx is not installed")
    if kind == "executable" and not host.has("backends", "jax"):
        pytest.skip("amanda-jax is not installed")


def parts(kind: str, path: Path) -> tuple[str, list[Any]]:
    """The name of a saved model, and its weights."""
    if kind == "executable":
        import amanda_jax

        saved: Any = amanda_jax.load_saved_program(path)
        return f"m{saved.inputs[0][1:]}", [np.asarray(w) for w in saved._weights]
    graph = amanda.load(path)
    weights = [op.attrs["value"].numpy() for op in graph.walk() if op.is_constant]
    return graph.name or "", weights


def expect_complete(kind: str, path: Path) -> int:
    """Its number, if all parts are of one model."""
    name, weights = parts(kind, path)
    number = int(name[1:])
    size = model(number).parameters[0].type.shape.dims  # type: ignore[union-attr]
    assert [w.shape for w in weights] == [size, size]
    assert {float(value) for w in weights for value in np.unique(w)} == {number}
    return number


@pytest.mark.parametrize("kind", KINDS)
def test_killed_saves_leave_a_complete_model(kind: str, tmp_path: Path) -> None:
    skip_without(kind)
    path = tmp_path / f"model{SUFFIX[kind]}"
    found: Counter[int] = Counter()
    random = Random(kind)
    unfinished = 0
    with saving(kind, path) as process:
        for _ in range(KILLS):
            child = process.start()
            time.sleep(random.uniform(0, 0.03))
            process.kill(child)
            found[expect_complete(kind, path)] += 1
            for left in tmp_path.glob(f".*{LEFT_OVER}"):
                left.unlink()
                unfinished += 1
    print(f"{kind}: {KILLS} kills, {unfinished} unfinished files, models {found}")
    assert found.total() == KILLS
    assert KILLS < 100 or (unfinished > KILLS // 10 and len(found) > 1)
    assert len([*tmp_path.iterdir()]) <= 1 + MODELS * (kind == "external")
    if kind == "external":  # a save that ends deletes the data of all others
        savers(kind, path)[0]()
        assert len([*tmp_path.iterdir()]) == 2


@pytest.mark.parametrize("kind", ["external", "amanda"])
def test_readers_beside_two_writers(kind: str, tmp_path: Path) -> None:
    skip_without(kind)
    path = tmp_path / f"model{SUFFIX[kind]}"
    with saving(kind, path) as one, saving(kind, path) as two:
        children = one.start(), two.start()
        found = Counter(expect_complete(kind, path) for _ in range(5 * KILLS))
        for process, child in zip((one, two), children, strict=True):
            process.kill(child)
    assert len(found) > 1
    expect_complete(kind, path)
