"""Tests in other processes: models that crash or hang, and programs of the user."""

from __future__ import annotations

import json
import os
import queue
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import amanda
from amanda.errors import BackendError, UsageError
from amanda.graph import Graph
from amanda.tensors import Tensor
from amanda_inspect.reduction.failures import Failure
from amanda_inspect.reduction.running import ConversionTest, RunTest
from amanda_inspect.reduction.worker import (
    ENDED,
    FEEDS,
    MODEL,
    READY,
    Spec,
    failure_of_data,
)
from amanda_inspect.windows import Backend

__all__ = ["IsolatedTest", "ScriptTest", "save_feeds"]

START_SECONDS: Final = 300.0
"""How long a process may take to import its backends."""


class Worker:
    """A process that runs models, and the lines that it answers with."""

    def __init__(self, spec: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "amanda_inspect.reduction.worker", spec],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True, encoding="utf-8",
        )  # fmt: skip
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._model_process: int | None = None
        """The process that runs models: this one, or its child."""

    def _read(self) -> None:
        """Put each line into the queue, and None at the end."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def wait_until_ready(self) -> bool:
        """Whether it is, after the imports."""
        if self._model_process is None:
            line = self.answer(START_SECONDS) or ""
            if line.startswith(READY):
                self._model_process = int(line.split()[1])
        return self._model_process is not None

    def ask(self, folder: Path) -> None:
        """Send a folder with a model."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{folder}\n")
        self.process.stdin.flush()

    def answer(self, seconds: float) -> str | None:
        """The next line; None at its end. Raises queue.Empty after some seconds."""
        return self._lines.get(timeout=seconds)

    def exit_code_in(self, line: str | None) -> int | None:
        """The exit code of a model that a line reports, after which there is another
        process for the next; None for another line."""
        if line is None or not line.startswith(f"{ENDED} "):
            return None
        self._model_process = None
        return int(line.split()[1])

    def stop_model(self) -> bool:
        """Kill the process that runs a model; whether there is another for the next."""
        assert self._model_process is not None
        kill_process(self._model_process)
        while (line := self.answer(START_SECONDS)) is not None:
            if self.exit_code_in(line) is not None:
                return True
        return False

    def end(self) -> int:
        """Wait for its end, or kill it; returns the exit code."""
        try:
            self.process.wait(0.2)  # it may be ending by itself
        except subprocess.TimeoutExpired:
            self.kill()
        code = self.process.wait()
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()  # a child that is not ready yet ends then
        self._reader.join()
        self.process.stdout.close()
        return code

    def kill(self) -> None:
        """Kill it, and its child."""
        self.process.kill()
        if self._model_process not in (None, self.process.pid):
            kill_process(self._model_process)


def kill_process(number: int) -> None:
    """Kill a process, if it has not ended."""
    with suppress(ProcessLookupError):
        os.kill(number, signal.SIGKILL)


class IsolatedTest:
    """A test in a process of its own, which is replaced after a crash.

    `seconds` limits the time for one model. Use it as a context manager.
    """

    def __init__(
        self,
        test: RunTest | ConversionTest,
        *,
        seconds: float = 60.0,
        preload: Sequence[Path] = (),
    ) -> None:
        self.test, self.seconds = test, seconds
        self._spec = json.dumps(_spec_of(test, preload))
        self._workers: list[Worker] = []
        """That in use, and after a crash another one that starts meanwhile."""
        self._folder = tempfile.TemporaryDirectory(prefix="amanda-reduce-")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for worker in self._workers:
            worker.kill()
            worker.end()
        self._workers.clear()
        self._folder.cleanup()

    def __call__(self, graph: Graph, feeds: Mapping[str, Any]) -> Failure | None:
        folder = Path(self._folder.name)
        amanda.save(graph, folder / MODEL)
        save_feeds(feeds, folder / FEEDS)
        worker = self._ready_worker()
        worker.ask(folder)
        try:
            line = worker.answer(self.seconds)
        except queue.Empty:
            if not worker.stop_model():
                self._replace(worker)
            text = f"no result after {self.seconds:g} seconds"
            return Failure("time limit", "no result", text)
        code = worker.exit_code_in(line)
        if line is not None and code is None:
            return failure_of_data(json.loads(line))
        what = _exit_text(self._replace(worker) if code is None else code)
        return Failure("crash", what, f"the process ended with {what}")

    def _ready_worker(self) -> Worker:
        if not self._workers:
            self._workers.append(Worker(self._spec))
        worker = self._workers[0]
        if not worker.wait_until_ready():
            self._workers.remove(worker)
            raise BackendError(
                "the process that runs models does not start",
                who=str(self.test), got=_exit_text(worker.end()),
                hint="run the model with `amanda run`, which prints the reason",
            )  # fmt: skip
        return worker

    def _replace(self, worker: Worker) -> int:
        """End a process and start others; returns its exit code."""
        self._workers.remove(worker)
        while len(self._workers) < 2:
            self._workers.append(Worker(self._spec))
        return worker.end()


def _exit_text(code: int) -> str:
    """
    >>> _exit_text(3), _exit_text(-11)
    ('exit code 3', 'signal SIGSEGV')
    """
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"


def _spec_of(test: RunTest | ConversionTest, preload: Sequence[Path]) -> Spec:
    files = [str(Path(file).resolve()) for file in preload]
    if isinstance(test, ConversionTest):
        return {"target": test.target, "preload": files}
    sides = {"backend": test.backend, "reference": test.reference}
    if test.expected is not None:
        raise UsageError("a test with stored results runs in this process")
    return {**{key: _backend_data(side) for key, side in sides.items()},
            "preload": files}  # fmt: skip


def _backend_data(side: Backend | None) -> list[Any] | None:
    return None if side is None else [side.name, dict(side.options)]


def save_feeds(feeds: Mapping[str, Any], path: Path) -> None:
    """Write feeds of any element type, as a graph of constants."""
    graph = Graph("amanda/std/1", "feeds")
    for name, array in feeds.items():
        graph.constant(Tensor.of(array), name)
    amanda.save(graph, path)


class ScriptTest:
    """A program of the user, which exits with 0 if the model has the fault.

    In its words `{}` stands for the model file, `{feeds}` for a `.npz` file.
    """

    def __init__(
        self, command: str, suffix: str, form: str | None = None, seconds: float = 60.0
    ) -> None:
        self.words = shlex.split(command)
        self.suffix, self.form, self.seconds = suffix, form, seconds
        if not any("{}" in word for word in self.words):
            raise UsageError(
                "the command does not say where the model file goes",
                expected="a command with {}, such as `./fails.sh {}`", got=command,
            )  # fmt: skip

    def __call__(self, graph: Graph, feeds: Mapping[str, Any]) -> Failure | None:
        import numpy as np

        with tempfile.TemporaryDirectory(prefix="amanda-reduce-") as folder:
            model = Path(folder) / f"model{self.suffix}"
            arrays = Path(folder) / "feeds.npz"
            amanda.save(graph, model, self.form)
            np.savez(arrays, **feeds)
            words = [w.replace("{feeds}", str(arrays)).replace("{}", str(model))
                     for w in self.words]  # fmt: skip
            try:
                done = subprocess.run(
                    words, check=False, stdin=subprocess.DEVNULL,
                    capture_output=True, timeout=self.seconds,
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                return None
            except OSError as error:
                raise UsageError(
                    "the command cannot be run", who=words[0], got=error.strerror
                ) from error
        text = f"{' '.join(self.words)} exits with 0"
        return Failure("test", "exit code 0", text) if done.returncode == 0 else None
