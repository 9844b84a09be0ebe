"""What the tests of the binary forms share."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # for proto_mutations.py


@pytest.fixture
def alone() -> Callable[..., str]:
    """Run Python code in a process of its own, and return what it prints."""

    def run(code: str, *args: object, stdin: str = "", timeout: float = 120) -> str:
        done = subprocess.run(
            [sys.executable, "-c", code, *map(str, args)],
            capture_output=True,
            text=True,
            input=stdin,
            timeout=timeout,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


NURSERY = """
import os, signal, sys, tempfile, time
with tempfile.TemporaryDirectory() as folder:
    begin = time.perf_counter()
    for _ in range(3):
        save(os.path.join(folder, "timed" + sys.argv[1]))
    print((time.perf_counter() - begin) / 3, flush=True)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the killed
for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        while True:
            save(line.strip())
    print(pid, flush=True)
"""


@pytest.fixture
def killed_savers() -> Callable[..., Iterator[None]]:
    """Save in processes that are killed at random moments; a look after each.

    `code` defines `save(path)`. The processes are forks, so they begin at once. They
    save again and again, and run for up to the time of two saves, which is measured.
    """

    def run(code: str, path: Path, rounds: int = 200) -> Iterator[None]:
        choose = random.Random(rounds)
        with subprocess.Popen(
            [sys.executable, "-c", code + NURSERY, path.suffix],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        ) as nursery:
            assert nursery.stdin is not None
            assert nursery.stdout is not None
            seconds = 2 * float(nursery.stdout.readline())
            for _ in range(rounds):
                nursery.stdin.write(f"{path}\n")
                nursery.stdin.flush()
                saver = int(nursery.stdout.readline())
                time.sleep(choose.random() * seconds)
                kill(saver)
                yield

    return run


def kill(process: int) -> None:
    """End a process without any farewell, and wait until it is gone."""
    try:
        while True:
            os.kill(process, signal.SIGKILL)
            time.sleep(0.0005)
    except ProcessLookupError:
        pass
