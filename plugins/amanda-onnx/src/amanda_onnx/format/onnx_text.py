"""The text form of ONNX, read and written by the onnx package.

The language has no specification besides the package's own parser and printer, so they
are used instead of a second implementation. The graph is built from the message that
the text describes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from amanda.errors import AmandaError, FormatError, LimitError, PluginMissingError
from amanda.graph import Graph
from amanda_onnx.format.model_metadata import NOTES_KEY, notes_of

__all__ = ["SUFFIXES", "parse_text_model", "write_text_model"]

SUFFIXES: Final = (".onnxtxt", ".onnxtext")
_OF_NUMBERS: Final = (IndexError, ValueError, RuntimeError)
"""What the onnx package raises for numbers that are out of range."""
_MAX_DEPTH: Final = 200
"""The most open brackets: the parser of the onnx package is recursive, and would end
the process."""
_TOKEN: Final = re.compile(r'"(?:\\.|[^"\\])*"|#[^\n]*|=>|[][(){}<>]')
_FIELD: Final = "data"  # the record of a tensor's field; all are equivalent


def parse_text_model(path: Path) -> bytes:
    """The bytes of the model that a text file describes."""
    parser, _ = _onnx_text_modules()
    text = path.read_bytes().decode("utf-8", "replace")
    _expect_shallow(text)
    try:
        model = parser.parse_model(text)
    except (parser.ParseError, *_OF_NUMBERS) as error:
        raise FormatError(f"this is not ONNX text: {error}") from error
    return bytes(model.SerializeToString())


def _expect_shallow(text: str) -> None:
    """Raise LimitError for brackets that are nested too deeply."""
    depth = 0
    for found in _TOKEN.finditer(text):
        mark = found[0]
        depth += (mark in "([{<") - (mark in ")]}>")
        if depth > _MAX_DEPTH:
            raise LimitError(
                "this ONNX text is nested too deeply",
                where=f"line {text.count(chr(10), 0, found.start()) + 1}",
                expected=f"at most {_MAX_DEPTH} open brackets",
            )


def write_text_model(raw: bytes, path: Path) -> None:
    """Write a model as text, if reading it back gives the same graph."""
    import onnx

    from amanda.files import replace_file
    from amanda_onnx.format.model_file import ModelFile
    from amanda_onnx.format.reader import read_model

    parser, printer = _onnx_text_modules()
    text = printer.to_text(onnx.load_model_from_string(raw))
    try:
        again = parser.parse_model(text).SerializeToString()
        graphs = [read_model(ModelFile(memoryview(each))) for each in (raw, again)]
        for graph in graphs:
            _drop_field_records(graph)
        lost = graphs[0].difference(graphs[1])
    except (parser.ParseError, *_OF_NUMBERS, AmandaError) as error:
        lost = str(error)
    if lost:
        raise FormatError(
            "the ONNX text form cannot hold this model",
            got=lost,
            hint="write it as .onnx, or as .amtxt to read it",
        )
    with replace_file(path) as file:
        file.write(text.encode())


def _onnx_text_modules() -> tuple[Any, Any]:
    try:
        import onnx.parser
        import onnx.printer
    except ImportError as error:
        raise PluginMissingError(
            "the ONNX text form needs the onnx package",
            got=str(error),
            hint="pip install amanda-onnx[text]",
        ) from error
    return onnx.parser, onnx.printer


def _drop_field_records(graph: Graph) -> None:
    """Drop the records of which field the elements of tensors were in."""
    for item in _recorded_items(graph):
        notes = notes_of(item)
        values = notes.get("values")
        if isinstance(values, Mapping):
            trimmed = {key: _without_field(fact) for key, fact in values.items()}
            more = {key: fact for key, fact in trimmed.items() if fact}
            left = {key: fact for key, fact in notes.items() if key != "values"}
            remaining = {**left, **({"values": more} if more else {})}
            if remaining:
                item.attrs[NOTES_KEY] = remaining
            else:
                del item.attrs[NOTES_KEY]


def _recorded_items(root: Graph) -> Iterator[Any]:
    for graph in root.graphs():
        yield graph
        yield from graph


def _without_field(fact: Any) -> Any:
    if isinstance(fact, list):
        found = [_without_field(each) for each in fact]
        return found if any(found) else None
    if not isinstance(fact, Mapping):
        return fact
    parts = {
        key: _without_field(each) if isinstance(each, Mapping) else each
        for key, each in fact.items()
        if key != _FIELD
    }
    return {key: each for key, each in parts.items() if each}
