"""The bytes of a model, and its external data files.

Files outside the folder of the model are never read, whatever the model refers to.
"""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Final

from amanda.errors import FormatError
from amanda.files import COPY_BYTES
from amanda.formatkit import MessageFile, Span, is_missing_file_allowed, raise_at
from amanda.tensors import FileMap, Tensor
from amanda.types import DType
from amanda_onnx.format.messages import SCHEMA

__all__ = ["MissingDataError", "ModelFile"]

_MAX_OFFSET: Final = 1 << 62


class MissingDataError(FormatError):
    """There is no file with the external data of a model."""


class ModelFile(MessageFile):
    """The bytes of a model, and the files with its external data.

    Such files are copied while they are small, all together, else mapped."""

    def __init__(
        self,
        data: memoryview,
        *,
        file: FileMap | None = None,
        folder: Path | None = None,
    ) -> None:
        super().__init__(data, file=file, folder=folder)
        self._external: dict[str, FileMap] = {}
        self._copy_bytes = COPY_BYTES

    def read(self, message: str, span: Span) -> dict[str, Any]:
        """The fields of a message at a span."""
        return SCHEMA.read(message, self.data, *span)

    def pairs(self, spans: list[Span]) -> dict[str, str] | list[list[str]]:
        """String properties: a dict, or a list of pairs if a key occurs twice."""
        pairs = []
        for span in spans:
            entry = self.read("StringStringEntryProto", span)
            pairs.append([entry.get("key", ""), entry.get("value", "")])
        found = dict[str, str](pairs)
        return found if len(found) == len(pairs) else pairs

    def external_data(
        self, place: int, entries: dict[str, str], size: int
    ) -> FileRange:
        """The range of an external file that holds the bytes of a tensor."""
        location = entries.get("location", "")
        start = _parse_offset(entries, "offset", 0, place)
        length = _parse_offset(entries, "length", size, place)
        file = self._external.get(location)
        if file is None:
            path = self._resolve_location(location, place)
            try:
                file = self._external[location] = self._read_file(path, location, place)
            except MissingDataError:
                if is_missing_file_allowed(location):
                    return MissingRange()
                raise
            self._copy_bytes -= file.size if file.is_copy else 0
        if length != size:
            raise_at(
                "external data does not have the length of its tensor",
                place,
                expected=f"{size} bytes",
                got=f"{length} bytes",
            )
        if start + length > file.size:
            raise_at(
                f"the external data file {location!r} is too short for its tensor",
                place,
                expected=f"{start + length} bytes",
                got=f"{file.size} bytes",
            )
        return FileRange(file, start)

    def _resolve_location(self, location: str, place: int) -> str:
        """The path of an external file, which must be in the folder of the model."""
        if self.folder is None:
            raise_at(
                "external data, and no folder to find its file in",
                place,
                got=repr(location),
                hint="load the model from its file, or pass folder=",
            )
        if fault := _location_fault(location):
            raise_at(f"external data in a file that {fault}", place, got=repr(location))
        path = os.path.join(self.folder, *PureWindowsPath(location).parts)
        real = os.path.realpath(path)
        home = os.path.realpath(self.folder)
        if os.path.commonpath([real, home]) != home or real == home:
            raise_at(
                "external data outside the folder of the model, through a link",
                place,
                got=repr(location),
                hint="copy the file to where the link is",
            )
        return real

    def _read_file(self, path: str, location: str, place: int) -> FileMap:
        try:
            return FileMap.read(path, self._copy_bytes)
        except FormatError as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
            raise MissingDataError(
                f"the external data file {location!r} is missing",
                where=f"byte {place}",
                hint="move both files together",
            ) from error


class FileRange:
    """The bytes of a file from `start` on."""

    __slots__ = ("file", "start")

    def __init__(self, file: FileMap, start: int) -> None:
        self.file = file
        self.start = start

    def tensor(self, dtype: DType, shape: tuple[int, ...]) -> Tensor:
        return Tensor.from_file(self.file, dtype, shape, self.start)


class MissingRange(FileRange):
    """The bytes of a file that is not there: zeros."""

    __slots__ = ()

    def __init__(self) -> None:
        pass

    def tensor(self, dtype: DType, shape: tuple[int, ...]) -> Tensor:
        return Tensor.splat(dtype, shape, 0)


def _location_fault(location: str) -> str:
    """Why a location is not inside the folder on some system; empty if it is."""
    windows, posix = PureWindowsPath(location), PurePosixPath(location)
    if not location or "\0" in location or not windows.parts:
        return "has no proper name"
    if windows.drive or windows.root or posix.is_absolute():
        return "has an absolute path"
    if ".." in windows.parts or ".." in posix.parts:
        return "lies outside the folder of the model"
    return ""


def _parse_offset(entries: dict[str, str], name: str, default: int, place: int) -> int:
    text = entries.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise_at(f"the {name} of external data is not a number", place, got=repr(text))
    value = int(text)
    if value > _MAX_OFFSET:
        raise_at(f"the {name} of external data is too large", place, got=text)
    return value
