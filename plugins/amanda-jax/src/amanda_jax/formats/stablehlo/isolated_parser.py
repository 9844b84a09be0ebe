"""Parses programs of StableHLO in a process of its own.

MLIR is not safe for programs of unknown origin: invalid text, deep nesting or damaged
bytecode can end the process that parses it. The process is started on first use, serves
one program at a time, and is started again when it ended. Programs that were parsed
there are safe to parse here.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from threading import Lock, Timer
from typing import Any, Final

import amanda
from amanda import errors
from amanda.errors import AmandaError, FormatError, LimitError
from amanda.graph import Graph
from amanda_jax.formats.stablehlo.custom_calls import CustomCall

__all__ = ["check_program", "parse_text", "read_program", "stop_parser"]

GRAPH: Final = "graph.amanda"
GROWTH: Final = "growth"
"""The key, in an answer, of the bytes by which the process has grown."""
PROGRAM: Final = "program"
TEXT: Final = "text"
_MODULE: Final = "amanda_jax.formats.stablehlo.parser_process"
_SECONDS: Final = 120
_SECONDS_PER_BYTE: Final = 2e-6
_LARGEST_GROWTH: Final = 512 << 20
"""Bytes by which the process may grow before it is started again."""
_STARTED: Final = b"ready\n"


def read_program(content: bytes, name: str) -> Graph:
    """The graph of a program: text, bytecode or a portable artifact."""
    with tempfile.TemporaryDirectory(prefix="amanda-stablehlo-") as folder:
        _request("read", content, name, folder)
        return amanda.load(os.path.join(folder, GRAPH), "amanda")


def parse_text(text: str, name: str) -> str:
    """The text of a program as MLIR prints it, after verification."""
    with tempfile.TemporaryDirectory(prefix="amanda-stablehlo-") as folder:
        _request("print", text.encode(), name, folder)
        return Path(folder, TEXT).read_text(encoding="utf-8")


def check_program(content: bytes, name: str) -> list[CustomCall]:
    """Parse a program; returns its custom calls."""
    with tempfile.TemporaryDirectory(prefix="amanda-stablehlo-") as folder:
        answer = _request("check", content, name, folder)
    return [CustomCall(*call) for call in answer["calls"]]


def _request(verb: str, content: bytes, name: str, folder: str) -> Any:
    Path(folder, PROGRAM).write_bytes(content)
    request = {"verb": verb, "name": name, "folder": folder}
    seconds = _SECONDS + _SECONDS_PER_BYTE * len(content)
    answer = _PARSER.ask(json.dumps(request).encode() + b"\n", seconds)
    if isinstance(answer, str):
        raise FormatError(
            f"{name} is no StableHLO program",
            got=f"a program on which the parser of MLIR ends: {answer}",
            hint="text, bytecode, and portable artifacts can be read",
        )
    if "error" in answer:
        raise _error(answer["error"])
    return answer


def _error(fields: dict[str, Any]) -> AmandaError:
    """The error that the process reported."""
    kind = getattr(errors, str(fields.pop("kind")), FormatError)
    message, problems = fields.pop("message"), fields.pop("problems")
    error: AmandaError = kind(message, problems=problems, **fields)
    return error


class _ParserProcess:
    """The process, while there is one. Thread-safe."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = Lock()

    def ask(self, request: bytes, seconds: float) -> Any:
        """The answer to a request, or how the process ended."""
        with self._lock:
            process = self._running()
            assert process.stdin is not None
            assert process.stdout is not None
            timer = Timer(seconds, process.kill)
            timer.start()
            try:
                process.stdin.write(request)
                process.stdin.flush()
                line = process.stdout.readline()
            except BrokenPipeError:
                line = b""
            finally:
                timer.cancel()
            if line:
                answer = json.loads(line)
                if answer[GROWTH] > _LARGEST_GROWTH:
                    self.close()
                return answer
            late = timer.finished.is_set() and not timer.is_alive()
            return self._end(late and process.wait() == -signal.SIGKILL)

    def _end(self, is_late: bool) -> str:
        status = self._process.wait() if self._process is not None else 0
        self.close()
        if is_late or status == -getattr(signal, "SIGPROF", 0) != 0:
            raise LimitError(
                "the program takes too long to parse",
                hint="the limit grows with the size of the program",
            )
        try:
            return signal.Signals(-status).name
        except ValueError:
            return f"exit status {status}"

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.close()
        self._process = process = subprocess.Popen(
            [sys.executable, "-P", "-m", _MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={
                **os.environ,
                "JAX_PLATFORMS": "cpu",
                "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            },
        )
        assert process.stdout is not None
        if process.stdout.readline() != _STARTED:
            self.close()
            raise errors.BackendError(
                "the process that parses StableHLO did not start",
                hint=f"see the errors of: {sys.executable} -m {_MODULE}",
            )
        return process

    def close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()


_PARSER: Final = _ParserProcess()


def stop_parser() -> None:
    """End the process, if there is one: another is started on the next use."""
    _PARSER.close()


atexit.register(stop_parser)
