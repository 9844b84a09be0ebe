"""The bytes of a model, and the files with weights beside it.

Nothing outside the folder of a model is read for it, whatever the model says.
"""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Final

from amanda.errors import FormatError
from amanda.formatkit import MessageFile, Span, raise_at
from amanda.tensors import FileMap, Tensor
from amanda.types import DType
from amanda_onnx.format.messages import SCHEMA

__all__ = ["ModelFile"]

_MAX_OFFSET: Final = 1 << 62


class ModelFile(MessageFile):
    """The bytes of a model, and the files with external data beside it."""

    def __init__(
        self,
        data: memoryview,
        *,
        file: FileMap | None = None,
        folder: Path | None = None,
    ) -> None:
        super().__init__(data, file=file, folder=folder)
        self._external: dict[str, FileMap] = {}

    def read(self, message: str, span: Span) -> dict[str, Any]:
        """The fields of a message that lies here."""
        return SCHEMA.read(message, self.data, *span)

    def pairs(self, spans: list[Span]) -> dict[str, str] | list[list[str]]:
        """String properties: a dict, or pairs where a key comes twice."""
        pairs = []
        for span in spans:
            entry = self.read("StringStringEntryProto", span)
            pairs.append([entry.get("key", ""), entry.get("value", "")])
        found = dict[str, str](pairs)
        return found if len(found) == len(pairs) else pairs

    def beside(self, place: int, entries: dict[str, str], size: int) -> FileRange:
        """Where the bytes of a tensor lie in a file beside the model."""
        location = entries.get("location", "")
        start = _number(entries, "offset", 0, place)
        length = _number(entries, "length", size, place)
        file = self._external.get(location)
        if file is None:
            file = self._external[location] = FileMap.of(self._inside(location, place))
        if length != size:
            raise_at(
                "the data beside the model is not as long as its tensor",
                place,
                expected=f"{size} bytes",
                got=f"{length} bytes",
            )
        if start + length > file.size:
            raise_at(
                f"the file {location!r} beside the model ends before its tensor does",
                place,
                expected=f"{start + length} bytes",
                got=f"{file.size} bytes",
            )
        return FileRange(file, start)

    def _inside(self, location: str, place: int) -> str:
        """The path of a file in the folder of the model, or of a folder in that."""
        if self.folder is None:
            raise_at(
                "weights in another file, and no folder to find it in",
                place,
                got=repr(location),
                hint="load the model from its file, or say folder=",
            )
        if fault := _fault(location):
            raise_at(f"weights in a file that {fault}", place, got=repr(location))
        path = os.path.join(self.folder, *PureWindowsPath(location).parts)
        real = os.path.realpath(path)
        home = os.path.realpath(self.folder)
        if os.path.commonpath([real, home]) != home or real == home:
            raise_at(
                "weights in a file that a link leads out of the folder of the model",
                place,
                got=repr(location),
                hint="copy the file to where the link is",
            )
        if not os.path.exists(real):
            raise FormatError(
                f"the file {location!r} with weights is not beside the model",
                where=f"byte {place}",
                hint="both have to be moved together",
            )
        return real


class FileRange:
    """Bytes of a file, from `start` on."""

    __slots__ = ("file", "start")

    def __init__(self, file: FileMap, start: int) -> None:
        self.file = file
        self.start = start

    def tensor(self, dtype: DType, shape: tuple[int, ...]) -> Tensor:
        return Tensor.from_file(self.file, dtype, shape, self.start)


def _fault(location: str) -> str:
    """What keeps a location from being one in the folder, on any system."""
    windows, posix = PureWindowsPath(location), PurePosixPath(location)
    if not location or "\0" in location or not windows.parts:
        return "has no proper name"
    if windows.drive or windows.root or posix.is_absolute():
        return "has an absolute path"
    if ".." in windows.parts or ".." in posix.parts:
        return "lies outside the folder of the model"
    return ""


def _number(entries: dict[str, str], name: str, default: int, place: int) -> int:
    text = entries.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise_at(
            f"the {name} of data beside the model is no number", place, got=repr(text)
        )
    value = int(text)
    if value > _MAX_OFFSET:
        raise_at(f"the {name} of data beside the model is absurd", place, got=text)
    return value
