"""External data: weights in files beside a model."""

from __future__ import annotations

from typing import BinaryIO, Final, NamedTuple

from amanda.errors import FormatError
from amanda.tensors import Tensor

__all__ = ["ExternalDataWriter", "ExternalDataOptions"]

_BLOCK: Final = 1 << 16  # bytes of padding that are written at once


class ExternalDataOptions(NamedTuple):
    """How weights are stored in files beside a model."""

    location: str
    threshold: int = 1024
    """The minimum bytes of a weight that is stored there."""
    alignment: int = 4096
    """Of each weight, in bytes; page-aligned weights can be mapped."""
    split: int | None = None
    """The maximum bytes of one file; None: a single file."""


class ExternalDataWriter:
    """Assigns weights to external files, and writes these files."""

    def __init__(self, options: ExternalDataOptions, recorded: bool) -> None:
        if options.alignment < 1 or (options.split is not None and options.split < 1):
            raise FormatError(
                "alignment and split must be positive numbers of bytes",
                expected="at least 1",
                got=f"alignment {options.alignment}, split {options.split}",
            )
        self.options = options
        self.recorded = recorded
        """Whether only weights that came from such a file are stored there."""
        self.files: dict[str, list[tuple[int, Tensor]]] = {}
        self._at = options.location
        self._end = 0

    def accepts(self, tensor: Tensor, recorded: bool) -> bool:
        if tensor.dtype.bits == 0:  # strings
            return False
        return recorded if self.recorded else tensor.nbytes >= self.options.threshold

    def put(self, tensor: Tensor) -> tuple[str, int]:
        """Assign a tensor to a file: the file's name, and the offset in it."""
        start = -(-self._end // self.options.alignment) * self.options.alignment
        split = self.options.split
        if split is not None and self.files and start + tensor.nbytes > split:
            self._at = f"{self.options.location}.{len(self.files)}"
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
