"""External data: weights in files beside a model.

The name of such a file has a digest of its content, `NAME.DIGEST.data`, so none is ever
overwritten by another content. The model is renamed when its files are on disk; those
of the old model are deleted last. So the model of any moment has its own weights, also
after a kill.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import BinaryIO, Final, NamedTuple

from amanda.errors import FormatError
from amanda.tensors import Tensor, blocks_ahead

__all__ = ["ExternalDataOptions", "ExternalDataWriter", "delete_old_files"]

_BLOCK: Final = 1 << 16  # bytes of padding that are written at once
_DIGEST_BYTES: Final = 8
_UNKNOWN: Final = "0" * (2 * _DIGEST_BYTES)
_DIGEST: Final = rf"[0-9a-f]{{{2 * _DIGEST_BYTES}}}"


class ExternalDataOptions(NamedTuple):
    """How weights are stored in files beside a model."""

    location: str
    """The name of the model's file."""
    threshold: int = 1024
    """The minimum bytes of a weight that is stored there."""
    alignment: int = 4096
    """Of each weight, in bytes; page-aligned weights can be mapped."""
    split: int | None = None
    """The maximum bytes of one file; None: a single file."""


class ExternalDataWriter:
    """Assigns weights to external files, and writes these files.

    `names` are those of the files where their content is known; models written before
    have placeholders of the same length."""

    def __init__(
        self,
        options: ExternalDataOptions,
        recorded: bool,
        names: Sequence[str] | None = None,
    ) -> None:
        if options.alignment < 1 or (options.split is not None and options.split < 1):
            raise FormatError(
                "alignment and split must be positive numbers of bytes",
                expected="at least 1",
                got=f"alignment {options.alignment}, split {options.split}",
            )
        self.options = options
        self.recorded = recorded
        """Whether only weights that came from such a file are stored there."""
        self.files: list[list[tuple[int, Tensor]]] = []
        """Of each file, the weights with their offsets."""
        self._names = names
        self._end = 0

    def with_names(self, names: Sequence[str]) -> ExternalDataWriter:
        """A writer that assigns the same weights to files of these names."""
        return ExternalDataWriter(self.options, self.recorded, names)

    def accepts(self, tensor: Tensor, recorded: bool) -> bool:
        if tensor.dtype.bits == 0:  # strings
            return False
        return recorded if self.recorded else tensor.nbytes >= self.options.threshold

    def put(self, tensor: Tensor) -> tuple[str, int]:
        """Assign a tensor to a file: the file's name, and the offset in it."""
        start = -(-self._end // self.options.alignment) * self.options.alignment
        split = self.options.split
        if split is not None and self.files and start + tensor.nbytes > split:
            start = 0
            self.files.append([])
        elif not self.files:
            self.files.append([])
        self.files[-1].append((start, tensor))
        self._end = start + tensor.nbytes
        place = len(self.files) - 1
        name = _file_name(self.options.location, _UNKNOWN)
        return name if self._names is None else self._names[place], start

    def write(self, place: int, file: BinaryIO) -> str:
        """Write the file of this index; returns its name."""
        digest = blake2b(digest_size=_DIGEST_BYTES)
        for block in _blocks(self.files[place]):
            digest.update(block)
            file.write(block)
        return _file_name(self.options.location, digest.hexdigest())


def _file_name(location: str, digest: str) -> str:
    return f"{location}.{digest}.data"


def _blocks(weights: Sequence[tuple[int, Tensor]]) -> Iterable[bytes | memoryview]:
    end = 0
    data = blocks_ahead(tensor for _, tensor in weights)
    for start, tensor in weights:
        for at in range(end, start, _BLOCK):
            yield bytes(min(_BLOCK, start - at))
        yield from next(data)
        end = start + tensor.nbytes


def delete_old_files(folder: str, location: str, names: Sequence[str]) -> None:
    """Delete external data of earlier saves of a model, whose files are now `names`.

    Other programs, and earlier versions, name it `NAME.data`; it is deleted where the
    model still has external data."""
    stem = re.escape(location)
    pattern = rf"{stem}\.{_DIGEST}\.data"
    if names:
        pattern = rf"{pattern}|{stem}\.data(\.\d+)?"
    for name in os.listdir(folder or os.curdir):
        if name not in names and re.fullmatch(pattern, name):
            with suppress(OSError):
                os.unlink(os.path.join(folder, name))
