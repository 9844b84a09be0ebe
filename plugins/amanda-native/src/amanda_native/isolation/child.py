"""The process of an isolated library: `python -m amanda_native.isolation.child FILES`.

It answers the messages of `RemoteLibrary`, and ends when their channel is closed.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from amanda.errors import AmandaError
from amanda.types import parse_type
from amanda_native.executable import GraphPorts, NativeExecutable
from amanda_native.isolation.messages import receive, send
from amanda_native.isolation.remote_library import put_array, view_array
from amanda_native.isolation.shared_memory import SharedMemory
from amanda_native.library import NativeLibrary

__all__ = ["main"]


class LibraryServer:
    """Answers messages about one library."""

    def __init__(self, inputs: SharedMemory, outputs: SharedMemory) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self.offsets: list[tuple[Any, int]] = []
        """The arrays of a run in shared memory, with their offsets."""
        self.executables: dict[int, NativeExecutable] = {}
        self.library: NativeLibrary
        self.verbs: dict[str, Callable[[Any, list[int]], Any]] = {
            "open": self.open,
            "takes": self.takes,
            "compile": self.compile,
            "run": self.run,
        }

    def answer(self, message: Any, files: list[int]) -> Any:
        for number in message["freed"]:
            self.executables.pop(number, None)
        verb = next(verb for verb in self.verbs if verb in message)
        return self.verbs[verb](message, files)

    def open(self, message: Any, files: list[int]) -> Any:
        del files
        self.library = NativeLibrary(Path(message["open"]))
        return list(self.library.info)

    def takes(self, message: Any, files: list[int]) -> Any:
        del files
        return self.library.takes(message["takes"])

    def compile(self, message: Any, files: list[int]) -> Any:
        from amanda.tensors import Tensor

        memory = SharedMemory(files[0])
        memory.grow(message["size"])
        weights = [Tensor.of(view_array(memory, row)) for row in message["weights"]]
        memory.close()
        address = self.library.compile(
            message["device"], message["compile"], weights, message["options"]
        )
        types = [None if t is None else parse_type(t) for t in message["types"]]
        ports = GraphPorts(
            (None,) * message["inputs"], tuple(types), tuple(message["keys"]),
            tuple(message["labels"]),
        )  # fmt: skip
        number = address
        self.executables[number] = NativeExecutable(
            self.library, address, ports, self.new_array
        )
        return number

    def new_array(self, dtype: Any, shape: Sequence[int]) -> Any:
        """An array for a result, in shared memory."""
        array, offset = self.outputs.array(dtype, shape)
        self.offsets.append((array, offset))
        return array

    def run(self, message: Any, files: list[int]) -> Any:
        del files
        self.inputs.grow(message["size"])
        self.outputs.clear()
        self.offsets.clear()
        arrays = [view_array(self.inputs, row) for row in message["arrays"]]
        results = self.executables[message["run"]].run(arrays, {})
        rows = [self.row_of(result) for result in results]
        return {"arrays": rows, "size": self.outputs.size}

    def row_of(self, result: Any) -> list[Any]:
        """The place of a result; memory of the library is copied to shared memory."""
        from amanda.types import DType

        for array, offset in self.offsets:
            if array is result:
                return [str(DType.of(array)), list(array.shape), offset]
        return put_array(self.outputs, result)


def error_row(error: AmandaError) -> dict[str, Any]:
    """An error, for the other process."""
    parts = {
        "where": error.where, "expected": error.expected, "got": error.got,
        "hint": error.hint,
    }  # fmt: skip
    return {"kind": type(error).__name__, "message": error.message, "parts": parts}


def main(descriptors: Sequence[str]) -> None:
    channel_file, *memory_files = map(int, descriptors)
    server = LibraryServer(*map(SharedMemory, memory_files))
    with socket.socket(fileno=channel_file) as channel:
        while True:
            try:
                message, files = receive(channel, 1)
            except EOFError:
                return
            try:
                answer = {"answer": server.answer(message, files)}
            except AmandaError as error:
                answer = {"error": error_row(error)}
            send(channel, answer)


if __name__ == "__main__":
    main(sys.argv[1:])
