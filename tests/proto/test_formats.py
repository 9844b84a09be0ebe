"""The binary forms as the host sees them."""

from __future__ import annotations

from pathlib import Path

import pytest

from amanda.errors import FormatError, UsageError
from amanda.files.binary.formats import ArchiveFormat, PbFormat
from amanda.graph import Graph


def small() -> Graph:
    graph = Graph("amanda/std/1")
    graph.result(graph.add("a", [graph.parameter()]).output)
    return graph


@pytest.mark.parametrize("form", [PbFormat(), ArchiveFormat()])
def test_write_and_read(tmp_path: Path, form: PbFormat | ArchiveFormat) -> None:
    path = tmp_path / "model"
    form.write(small(), path)
    assert form.read(path).same_as(small())
    assert form.read(str(path)).same_as(small())  # type: ignore[arg-type]
    with pytest.raises(UsageError) as caught:
        form.write(small(), path, level=3)
    assert str(caught.value) == "unknown options to write this format: level"
    with pytest.raises(UsageError, match="unknown options to read this format: fast"):
        form.read(path, fast=True)
    with pytest.raises(FormatError, match="this format reads files"):
        form.read(object())  # type: ignore[arg-type]
    with pytest.raises(FormatError, match="no such file"):
        form.read(tmp_path / "none")


def test_verify_is_an_option_of_the_archive(tmp_path: Path) -> None:
    path = tmp_path / "model.amanda"
    ArchiveFormat().write(small(), path)
    assert ArchiveFormat().read(path, verify=True).same_as(small())


def test_graph_proto_is_part_of_the_package() -> None:
    from amanda.files.binary.messages import PROTO

    text = PROTO.read_text(encoding="utf-8")
    assert "package amanda.v1;" in text
    assert max(map(len, text.splitlines())) <= 88
