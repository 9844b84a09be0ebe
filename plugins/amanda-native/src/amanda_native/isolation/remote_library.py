"""A library in a process of its own, as the parent calls it."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Literal

import amanda.errors
from amanda.errors import AmandaError, BackendError, PluginBrokenError
from amanda_native.isolation.messages import receive, send
from amanda_native.isolation.shared_memory import SharedMemory
from amanda_native.library import LibraryInfo
from amanda_native.weights import array_of_weight, row_major

if TYPE_CHECKING:
    from amanda.backend import Key
    from amanda.tensors import Tensor
    from amanda_native.executable import GraphPorts

__all__ = ["RemoteExecutable", "RemoteLibrary"]

_CHILD = "amanda_native.isolation.child"
_WAIT = 5.0
"""Seconds until a process that was told to end is killed."""


class RemoteLibrary:
    """The process of a library. One call at a time; others wait."""

    def __init__(self, path: Path) -> None:
        if not hasattr(socket, "recv_fds"):
            raise BackendError(
                "libraries cannot be isolated on this system",
                expected="a system with Unix domain sockets",
                got=sys.platform,
                hint="leave out the option isolate",
            )
        self.path = path
        self._lock = RLock()
        self._freed: list[int] = []
        self.inputs, self.outputs = SharedMemory(), SharedMemory()
        self._channel, other = socket.socketpair()
        files = [other.fileno(), self.inputs.descriptor, self.outputs.descriptor]
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-m", _CHILD, *map(str, files)],
                pass_fds=files,
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the parent, which ends it
            )
        weakref.finalize(self, _end, self._channel, self._process)
        answer = self.request({"open": str(path.absolute())}, "being loaded")
        name, library, namespace, devices = answer
        self.info = LibraryInfo(name, library, namespace, tuple(devices))

    @property
    def is_closed(self) -> bool:
        return self._process.poll() is not None

    def close(self) -> None:
        _end(self._channel, self._process)

    def takes(self, text: str) -> Literal[True] | str:
        answer = self.request({"takes": text}, "asked what it takes")
        return True if answer is True else str(answer)

    def compile(
        self,
        device: str,
        text: str,
        weights: Sequence[Tensor],
        options: Mapping[str, Any],
        ports: GraphPorts,
    ) -> RemoteExecutable:
        memory = SharedMemory()
        try:
            rows = [put_array(memory, array_of_weight(tensor)) for tensor in weights]
            types = [None if t is None else str(t) for t in ports.outputs]
            message = {
                "compile": text, "device": device, "options": dict(options),
                "weights": rows, "size": memory.size, "types": types,
                "inputs": len(ports.inputs), "keys": ports.keys, "labels": ports.labels,
            }  # fmt: skip
            number = self.request(message, "compiling a graph", [memory.descriptor])
        finally:
            memory.close()
        return RemoteExecutable(self, int(number), ports)

    def free(self, executable: int) -> None:
        """Free an executable with the next message; any thread may call this."""
        self._freed.append(executable)

    def request(
        self, message: dict[str, Any], doing: str, files: Sequence[int] = ()
    ) -> Any:
        """The answer of the process; an error names the library if it has ended."""
        with self._lock:
            freed = [self._freed.pop() for _ in range(len(self._freed))]
            try:
                send(self._channel, {**message, "freed": freed}, files)
                answer, _ = receive(self._channel)
            except (EOFError, OSError) as error:
                raise self._death(doing) from error
            except BaseException:  # an interrupt: its answer would be read by the next
                self._process.kill()
                raise
        if "error" in answer:
            raise _error_of(answer["error"])
        return answer["answer"]

    def call(
        self, message: dict[str, Any], arrays: Sequence[Any], out: Mapping[int, Any]
    ) -> list[Any]:
        """The results of a run: inputs are copied to shared memory, results from it."""
        with self._lock:
            self.inputs.clear()
            rows = [put_array(self.inputs, array) for array in arrays]
            message = {**message, "arrays": rows, "size": self.inputs.size}
            answer = self.request(message, "running")
            self.outputs.grow(answer["size"])
            return [
                self._copy(row, out.get(i)) for i, row in enumerate(answer["arrays"])
            ]

    def _copy(self, row: Any, given: Any) -> Any:
        import numpy as np

        found = view_array(self.outputs, row)
        form = found.shape, found.dtype
        if given is None or (given.shape, given.dtype) != form:
            return found.copy()
        np.copyto(given, found)
        return given

    def _death(self, doing: str) -> AmandaError:
        """The error for a process that has ended."""
        try:
            code = self._process.wait(_WAIT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        return PluginBrokenError(
            f"the process of the native library {self.path} ended while {doing}",
            expected="an answer",
            got=_name_of_signal(-code) if code < 0 else f"exit code {code}",
            hint="report this to the authors of the library; compile again to start "
            "another process",
        )


class RemoteExecutable:
    """An executable in another process. Calls wait for each other."""

    def __init__(self, library: RemoteLibrary, number: int, ports: GraphPorts) -> None:
        self._library = library
        self._number = number
        self._ports = ports
        weakref.finalize(self, library.free, number)

    def __call__(
        self, feeds: Mapping[Key, Any], out: Mapping[Key, Any] | None = None
    ) -> Sequence[Any]:
        from amanda.tensors import as_array
        from amanda_native.executable import numpy_dtypes

        dtypes = numpy_dtypes(self._ports)
        arrays = [
            as_array(feed, dtype)
            for feed, dtype in zip(feeds.values(), dtypes, strict=True)
        ]
        given = self._ports.arrays_by_index(out)
        return self._library.call({"run": self._number}, arrays, given)


def put_array(memory: SharedMemory, array: Any) -> list[Any]:
    """Copy an array into shared memory; its dtype, shape and offset."""
    from amanda.types import DType

    array, _ = row_major(array)
    there, offset = memory.array(array.dtype, array.shape)
    there[...] = array
    return [str(DType.of(array)), list(array.shape), offset]


def view_array(memory: SharedMemory, row: Sequence[Any]) -> Any:
    """The array of a row that `put_array` returned, in the other process."""
    from amanda.types import DType

    dtype, shape, offset = row
    return memory.view(DType(dtype).numpy, tuple(shape), offset)


def _error_of(row: Mapping[str, Any]) -> AmandaError:
    """The error that the process reports, of the same class."""
    kind = getattr(amanda.errors, row["kind"])
    error: AmandaError = kind(row["message"], **row["parts"])
    return error


def _name_of_signal(number: int) -> str:
    try:
        return f"signal {signal.Signals(number).name}"
    except ValueError:
        return f"signal {number}"


def _end(channel: socket.socket, process: subprocess.Popen[bytes]) -> None:
    """End a process: it does at the end of its channel, or is killed."""
    channel.close()
    try:
        process.wait(_WAIT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
