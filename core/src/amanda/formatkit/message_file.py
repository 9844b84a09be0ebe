"""The bytes of a message in a file, in memory or in an object of the framework."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from amanda.errors import AmandaError, FormatError
from amanda.files.mapped_file import MappedFile
from amanda.formatkit.scalars import Span
from amanda.tensors import FileMap, Tensor
from amanda.types import DType

__all__ = ["MessageFile", "file_errors"]

_WINDOW: Final = 16 << 20

Source = TypeVar("Source", bound="MessageFile")


class MessageFile:
    """Bytes of a message; `file` where they are mapped, `folder` around them."""

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
        self._released = 0  # pages looked at since this position may be in memory

    @classmethod
    def map(cls, path: Path) -> Self:
        """A file: a large one is mapped, so bytes are read when they are looked at."""
        file = FileMap.read(path)
        return cls(file.view(), file=file, folder=Path(file.path).parent)

    @classmethod
    def open(cls, source: Any, *, folder: Path | None = None) -> Self:
        """A path, bytes, or a message object of the protobuf library."""
        if isinstance(source, str | os.PathLike):
            return cls.map(Path(source))
        if callable(getattr(source, "SerializeToString", None)):
            source = source.SerializeToString()
        if isinstance(source, bytes | bytearray | memoryview):
            view = memoryview(source).cast("B").toreadonly()
            return cls(view, folder=folder)
        raise FormatError(
            "this cannot be read as a model",
            expected="a file, bytes or a message object",
            got=type(source).__name__,
        )

    def release(self, position: int) -> None:
        """Let the system drop the pages before a position from memory.

        Locating tensors looks at a few bytes beside each, and the system may map 2 MB
        around them. Reading the tensors later maps the pages again.
        """
        if abs(position - self._released) < _WINDOW:
            return
        self._released = position
        owner = self.data.obj
        if isinstance(owner, MappedFile):
            owner.drop_pages()

    def tensor(self, span: Span, dtype: DType, shape: tuple[int, ...]) -> Tensor:
        """A tensor on the packed bytes at a span; they stay where they are."""
        if self.file is not None:
            return Tensor.from_file(self.file, dtype, shape, span[0])
        return Tensor.from_buffer(self.data, dtype, shape, span[0])


@contextmanager
def file_errors(source: Any) -> Iterator[None]:
    """Raise any AmandaError of the block as a FormatError that names the file."""
    name = os.fspath(source) if isinstance(source, str | os.PathLike) else None
    try:
        yield
    except FormatError as error:
        _add_name(error, name)
        raise
    except AmandaError as error:
        raise _as_format_error(error, name) from error


def _as_format_error(error: AmandaError, name: str | None) -> FormatError:
    found = FormatError(
        error.message, who=error.who, where=error.where, expected=error.expected,
        got=error.got, hint=error.hint, problems=error.problems,
    )  # fmt: skip
    _add_name(found, name)
    return found


def _add_name(error: FormatError, name: str | None) -> None:
    """Put the name of the file in front of what is named inside it."""
    if name is not None and error.who != name:
        error.who = f"{name}, {error.who}" if error.who else name
