"""The textual form of ONNX, by the onnx package.

The language is the package's own: it grew from release to release, no standard tells
it, and its parser and its printer are all that defines it. A second parser here would
be one that drifts, so the package is asked, when such a file is read or written. The
graph never sees more than the message that the text stands for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from amanda.errors import AmandaError, FormatError, PluginMissingError
from amanda.graph import Graph
from amanda_onnx.format.model_metadata import NOTES_KEY, notes_of

__all__ = ["SUFFIXES", "parse_text_model", "write_text_model"]

SUFFIXES: Final = (".onnxtxt", ".onnxtext")
_FIELD: Final = "data"  # which field of a tensor its elements are in: all mean the same


def parse_text_model(path: Path) -> bytes:
    """The bytes of the model that a text stands for."""
    parser, _ = _language()
    text = path.read_bytes().decode("utf-8", "replace")
    try:
        model = parser.parse_model(text)
    except parser.ParseError as error:
        raise FormatError(f"this is no text of ONNX: {error}") from error
    return bytes(model.SerializeToString())


def write_text_model(raw: bytes, path: Path) -> None:
    """Only what comes back: the text form has no room for much of a model."""
    import onnx

    from amanda.files import replace_file
    from amanda_onnx.format.model_file import ModelFile
    from amanda_onnx.format.reader import read_model

    parser, printer = _language()
    text = printer.to_text(onnx.load_model_from_string(raw))
    try:
        again = parser.parse_model(text).SerializeToString()
        graphs = [read_model(ModelFile(memoryview(each))) for each in (raw, again)]
        for graph in graphs:
            _without_fields(graph)
        lost = graphs[0].difference(graphs[1])
    except (parser.ParseError, AmandaError) as error:
        lost = str(error)
    if lost:
        raise FormatError(
            "the text of ONNX cannot hold this model",
            got=lost,
            hint="write it as .onnx, or as .amtxt to read it",
        )
    with replace_file(path) as file:
        file.write(text.encode())


def _language() -> tuple[Any, Any]:
    try:
        import onnx.parser
        import onnx.printer
    except ImportError as error:
        raise PluginMissingError(
            "the textual form of ONNX is read and written by the onnx package",
            got=str(error),
            hint="pip install amanda-onnx[text]",
        ) from error
    return onnx.parser, onnx.printer


def _without_fields(graph: Graph) -> None:
    """Forget which fields of their messages the elements of tensors were in."""
    for thing in _noted(graph):
        notes = notes_of(thing)
        values = notes.get("values")
        if isinstance(values, Mapping):
            kept = {key: _bare(fact) for key, fact in values.items()}
            more = {key: fact for key, fact in kept.items() if fact}
            left = {key: fact for key, fact in notes.items() if key != "values"}
            told = {**left, **({"values": more} if more else {})}
            if told:
                thing.attrs[NOTES_KEY] = told
            else:
                del thing.attrs[NOTES_KEY]


def _noted(root: Graph) -> Iterator[Any]:
    for graph in root.graphs():
        yield graph
        yield from graph


def _bare(fact: Any) -> Any:
    if isinstance(fact, list):
        found = [_bare(each) for each in fact]
        return found if any(found) else None
    if not isinstance(fact, Mapping):
        return fact
    parts = {
        key: _bare(each) if isinstance(each, Mapping) else each
        for key, each in fact.items()
        if key != _FIELD
    }
    return {key: each for key, each in parts.items() if each}
