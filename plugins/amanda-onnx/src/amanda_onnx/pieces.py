"""A message as pieces: its small fields as bytes, its weights where they are.

A message says its length before its content, so all lengths are known before the first
byte is written, and no weight is held for that.
"""

from __future__ import annotations

from typing import BinaryIO, Final

from amanda.proto.wire import varint
from amanda.tensors import Tensor

__all__ = ["Outside", "Pieces"]

_ALIGNMENT: Final = 4096  # of weights in a file beside, so that they can be mapped
_PADDING: Final = bytes(_ALIGNMENT)


class Pieces:
    """Bytes, and tensors that stand for their packed bytes."""

    __slots__ = ("parts", "size")

    def __init__(self, *parts: bytes) -> None:
        self.parts: list[bytes | Tensor] = list(parts)
        self.size = sum(map(len, parts))

    def add(self, raw: bytes) -> None:
        if raw:
            self.parts.append(raw)
            self.size += len(raw)

    def take(self, tag: bytes, inner: Pieces) -> None:
        """A message as a field."""
        self.add(tag + varint(inner.size))
        self.parts += inner.parts
        self.size += inner.size

    def data(self, tag: bytes, tensor: Tensor) -> None:
        """The packed bytes of a tensor as a field."""
        self.add(tag + varint(tensor.nbytes))
        self.parts.append(tensor)
        self.size += tensor.nbytes

    def write(self, file: BinaryIO) -> None:
        for part in self.parts:
            if isinstance(part, bytes):
                file.write(part)
            else:
                file.writelines(part.chunks())


class Outside:
    """Weights that go to a file beside the model."""

    def __init__(self, location: str, threshold: int, noted: bool) -> None:
        self.location = location
        self.threshold = threshold
        self.noted = noted
        """Only those that came from such a file."""
        self.tensors: list[tuple[int, Tensor]] = []
        self._end = 0

    def takes(self, tensor: Tensor, noted: bool) -> bool:
        if tensor.dtype.bits == 0:  # texts
            return False
        return noted if self.noted else tensor.nbytes >= self.threshold

    def put(self, tensor: Tensor) -> int:
        """Where the tensor will be."""
        start = -(-self._end // _ALIGNMENT) * _ALIGNMENT
        self.tensors.append((start, tensor))
        self._end = start + tensor.nbytes
        return start

    def write(self, file: BinaryIO) -> None:
        end = 0
        for start, tensor in self.tensors:
            file.write(_PADDING[: start - end])
            file.writelines(tensor.chunks())
            end = start + tensor.nbytes
