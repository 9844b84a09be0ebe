"""The bytes of a model, and the files with weights beside it.

Nothing outside the folder of a model is read for it, whatever the model says.
"""

from __future__ import annotations

import mmap
import os
from contextlib import suppress
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Final

from amanda.errors import FormatError
from amanda.tensors import FileMap, Tensor
from amanda.types import DType
from amanda_onnx.format.messages import Span, raise_at, read

__all__ = ["ModelFile"]

_WINDOW: Final = 16 << 20
_LET_GO: Final = getattr(mmap, "MADV_DONTNEED", None)
_MOST: Final = 1 << 62  # bytes of a file; what is larger is no number of bytes


class ModelFile:
    """Bytes of a model; `file` where they are mapped, `folder` around them."""

    def __init__(
        self,
        data: memoryview,
        *,
        file: FileMap | None = None,
        folder: Path | None = None,
    ) -> None:
        self.data = data
        self.file = file
        self.folder = folder
        self._beside: dict[str, FileMap] = {}
        self._kept = 0  # what was looked at since then may be in memory

    @classmethod
    def of_file(cls, path: Path) -> ModelFile:
        file = FileMap.of(path)
        return cls(file.view(), file=file, folder=Path(file.path).parent)

    def passed(self, place: int) -> None:
        """What was looked at on the way here need not stay in memory.

        Opening looks at a few bytes beside each weight, and the system may map 2 MB
        around them. Whoever reads the weights later finds them as before.
        """
        if abs(place - self._kept) < _WINDOW:
            return
        self._kept = place
        held = self.data.obj
        if _LET_GO is not None and isinstance(held, mmap.mmap):
            with suppress(OSError, ValueError):
                held.madvise(_LET_GO)

    def read(self, message: str, span: Span) -> dict[str, Any]:
        """The fields of a message that lies here."""
        return read(message, self.data, *span)

    def pairs(self, spans: list[Span]) -> dict[str, str] | list[list[str]]:
        """String properties: a dict, or pairs where a key comes twice."""
        pairs = []
        for span in spans:
            entry = self.read("StringStringEntryProto", span)
            pairs.append([entry.get("key", ""), entry.get("value", "")])
        found = dict[str, str](pairs)
        return found if len(found) == len(pairs) else pairs

    def tensor(self, span: Span, dtype: DType, shape: tuple[int, ...]) -> Tensor:
        """A tensor whose packed bytes lie here."""
        if self.file is not None:
            return Tensor.from_file(self.file, dtype, shape, span[0])
        return Tensor.from_buffer(self.data, dtype, shape, span[0])

    def beside(self, place: int, entries: dict[str, str], size: int) -> FileRange:
        """Where the bytes of a tensor lie in a file beside the model."""
        location = entries.get("location", "")
        start = _number(entries, "offset", 0, place)
        length = _number(entries, "length", size, place)
        file = self._beside.get(location)
        if file is None:
            file = self._beside[location] = FileMap.of(self._inside(location, place))
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
    if value > _MOST:
        raise_at(f"the {name} of data beside the model is absurd", place, got=text)
    return value
