"""The text forms as formats: files in, files out."""

from __future__ import annotations

from pathlib import Path

import pytest
from text.graphs import everything

from amanda.errors import FormatError, LimitError, UsageError
from amanda.files.text.formats import JsonFormat, TextFormat, YamlFormat
from amanda.files.text.syntax import plain_data

FORMATS = [YamlFormat(), JsonFormat(), TextFormat()]
formats = pytest.mark.parametrize("form", FORMATS, ids=lambda f: type(f).__name__)


@formats
def test_files(form: YamlFormat, tmp_path: Path) -> None:
    graph, path = everything(), tmp_path / "net"
    form.write(graph, path)
    first = path.read_bytes()
    again = form.read(path)
    assert again.difference(graph) is None
    form.write(again, path)
    assert path.read_bytes() == first
    assert form.read(str(path)).same_as(graph)
    assert [file.name for file in tmp_path.iterdir()] == ["net"]


@formats
def test_a_graph_that_cannot_be_written_leaves_the_old_file(
    form: YamlFormat, tmp_path: Path
) -> None:
    graph, path = everything(), tmp_path / "net"
    form.write(graph, path)
    first = path.read_bytes()
    graph.attrs["odd"] = "\ud800"
    with pytest.raises(FormatError, match="half of a surrogate pair"):
        form.write(graph, path)
    assert path.read_bytes() == first


@formats
def test_errors_name_the_file(form: YamlFormat, tmp_path: Path) -> None:
    path = tmp_path / "net"
    path.write_bytes(b"amanda\n\xff")
    with pytest.raises(FormatError) as caught:
        form.read(path)
    assert caught.value.where == f"{path}, line 2, column 1"
    with pytest.raises(FormatError, match="no such file"):
        form.read(tmp_path / "nothing")
    with pytest.raises(FormatError, match="this format reads files"):
        form.read(everything())  # type: ignore[arg-type]


@formats
def test_a_byte_order_mark_is_no_part_of_the_text(
    form: YamlFormat, tmp_path: Path
) -> None:
    path = tmp_path / "net"
    form.write(everything(), path)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert form.read(path).same_as(everything())


@formats
def test_options_are_not_swallowed(form: YamlFormat, tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match="unknown options to write this format: indent"
    ):
        form.write(everything(), tmp_path / "net", indent=4)
    with pytest.raises(UsageError, match="unknown options to read this format: fast"):
        form.read(tmp_path / "net", fast=True)


@formats
def test_absurdly_large_files(
    form: YamlFormat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "net"
    form.write(everything(), path)
    monkeypatch.setattr(plain_data, "MAX_BYTES", 100)
    with pytest.raises(LimitError, match="too large for a text form"):
        form.read(path)


def test_a_lone_edge_is_no_graph(tmp_path: Path) -> None:
    path = tmp_path / "edge.yaml"
    path.write_text("a.x -> b.y")
    with pytest.raises(FormatError) as caught:
        YamlFormat().read(path)
    assert str(caught.value) == (
        "the document describes one edge, not a graph\n"
        f"  where:    {path}\n"
        "  expected: a graph, a subgraph or an op\n"
        "  got:      an edge from a to b\n"
        "  to do:    read it with `loads` of its text form"
    )
