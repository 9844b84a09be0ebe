"""The format: `.onnx` in both forms, and `onnx.ModelProto` objects."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amanda.errors import AmandaError, FormatError
from amanda.graph import Graph, Op
from amanda_onnx.format.onnx_text import SUFFIXES, parse_text_model, write_text_model

if TYPE_CHECKING:
    from amanda_onnx.format.model_file import ModelFile

__all__ = ["Format"]


class Format:
    """Reads and writes models of ONNX. Nothing of the onnx package is needed for files.

    A model that is read keeps its weights where they are: in the file, mapped.
    """

    def read(
        self, source: Path | bytes | Any, *, folder: str | Path | None = None
    ) -> Graph:
        """The graph of a file, of its bytes, or of a ModelProto.

        `folder` is where an object without a file has the files beside it.
        """
        from amanda_onnx.format.reader import read_model

        who = os.fspath(source) if isinstance(source, str | os.PathLike) else None
        try:
            return read_model(_opened(source, folder))
        except FormatError as error:
            _place(error, who)
            raise
        except AmandaError as error:
            raise _told(error, who) from error

    def write(
        self,
        graph: Graph,
        path: Path,
        *,
        external: bool | None = None,
        threshold: int = 1024,
        split: int | None = None,
        alignment: int = 4096,
        ir_version: int | None = None,
    ) -> None:
        """Write a file; the weights in one beside it, `NAME.data`, where that is asked.

        `external` True puts every tensor of at least `threshold` bytes there, False
        none. Without, those go there that came from such a file, and all large ones
        where the model would be larger than the 2 GB that protobuf can hold. `split` is
        the most bytes of such a file: then there are several, and a larger weight has
        one of its own. Each weight begins at a multiple of `alignment` bytes.
        `ir_version` is written instead of the one that the model has.
        """
        from amanda_onnx.format.message_chunks import ExternalDataOptions
        from amanda_onnx.format.writer import write_model

        try:
            if Path(path).suffix.lower() in SUFFIXES:
                write_text_model(self.dumps(graph, ir_version=ir_version), Path(path))
                return
            place = ExternalDataOptions(
                f"{Path(path).name}.data", threshold, alignment, split
            )
            write_model(graph, Path(path), external, place, ir_version)
        except FormatError as error:
            _place(error, os.fspath(path))
            raise
        except AmandaError as error:
            raise _told(error, os.fspath(path)) from error

    def dumps(self, graph: Graph, *, ir_version: int | None = None) -> bytes:
        """The bytes of a file with everything in it."""
        from amanda_onnx.format.writer import check_size, model_chunks

        pieces = model_chunks(graph, None, ir_version)
        check_size(pieces)
        out = io.BytesIO()
        pieces.write(out)
        return out.getvalue()

    def domain(self, op: Op) -> tuple[str, int]:
        """The domain of ONNX that an op is in, and its version; "" is ONNX itself."""
        from amanda_onnx.domains import domain_of

        found = domain_of(op.namespace or "")
        if found is None:
            raise FormatError("an op of no namespace of ONNX", who=op.label)
        return found

    def called(self, op: Op) -> Graph | None:
        """The local function that an op calls, if it calls one."""
        from amanda_onnx.domains import called

        return called(op)


def _opened(source: Any, folder: str | Path | None) -> ModelFile:
    from amanda_onnx.format.model_file import ModelFile

    beside = Path(folder) if folder is not None else None
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        if path.suffix.lower() not in SUFFIXES:
            return ModelFile.of_file(path)
        return ModelFile(memoryview(parse_text_model(path)), folder=path.parent)
    if isinstance(source, bytes | bytearray | memoryview):
        return ModelFile(memoryview(source).cast("B").toreadonly(), folder=beside)
    if callable(getattr(source, "SerializeToString", None)):
        return ModelFile(memoryview(source.SerializeToString()), folder=beside)
    raise FormatError(
        "a model of ONNX is a file, bytes or an onnx.ModelProto",
        got=type(source).__name__,
    )


def _told(error: AmandaError, who: str | None) -> FormatError:
    """An error of the kind that a format raises, with what another one told."""
    told = FormatError(
        error.message,
        who=error.who,
        where=error.where,
        expected=error.expected,
        got=error.got,
        hint=error.hint,
        problems=error.problems,
    )
    _place(told, who)
    return told


def _place(error: FormatError, who: str | None) -> None:
    """The file that it is about, before what it names inside."""
    if who is not None and error.who != who:
        error.who = f"{who}, {error.who}" if error.who else who
