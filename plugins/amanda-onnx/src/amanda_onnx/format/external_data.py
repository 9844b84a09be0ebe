"""A message as pieces: its small fields as bytes, its weights where they are.

A message says its length before its content, so all lengths are known before the first
byte is written, and no weight is held for that.
"""

from __future__ import annotations

from typing import BinaryIO, Final, NamedTuple

from amanda.errors import FormatError
from amanda.tensors import Tensor

__all__ = ["ExternalDataWriter", "ExternalDataOptions"]

_BLOCK: Final = 1 << 16  # bytes of padding that are written at once


class ExternalDataOptions(NamedTuple):
    """How weights are to lie in files beside a model."""

    location: str
    threshold: int = 1024
    """The least bytes of a weight that goes there."""
    alignment: int = 4096
    """So that they can be mapped."""
    split: int | None = None
    """The most bytes of one file; None: one has them all."""


class ExternalDataWriter:
    """Weights that go to files beside the model."""

    def __init__(self, how: ExternalDataOptions, noted: bool) -> None:
        if how.alignment < 1 or (how.split is not None and how.split < 1):
            raise FormatError(
                "alignment and split are numbers of bytes",
                expected="at least 1",
                got=f"alignment {how.alignment}, split {how.split}",
            )
        self.how = how
        self.noted = noted
        """Only those that came from such a file."""
        self.files: dict[str, list[tuple[int, Tensor]]] = {}
        self._at = how.location
        self._end = 0

    def takes(self, tensor: Tensor, noted: bool) -> bool:
        if tensor.dtype.bits == 0:  # texts
            return False
        return noted if self.noted else tensor.nbytes >= self.how.threshold

    def put(self, tensor: Tensor) -> tuple[str, int]:
        """The file in which the tensor will be, and where in it."""
        start = -(-self._end // self.how.alignment) * self.how.alignment
        split = self.how.split
        if split is not None and self.files and start + tensor.nbytes > split:
            self._at = f"{self.how.location}.{len(self.files)}"
            start = 0
        self.files.setdefault(self._at, []).append((start, tensor))
        self._end = start + tensor.nbytes
        return self._at, start

    def write(self, location: str, file: BinaryIO) -> None:
        end = 0
        for start, tensor in self.files[location]:
            blocks = range(end, start, _BLOCK)
            file.writelines(bytes(min(_BLOCK, start - at)) for at in blocks)
            file.writelines(tensor.chunks())
            end = start + tensor.nbytes
