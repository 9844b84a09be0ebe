"""The format in docs/plugin-author.md works as it stands there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from amanda.errors import FormatError
from amanda.formatkit import encode_field
from amanda.graph import Graph
from amanda.tensors import Tensor

GUIDE = Path(__file__).parents[2] / "docs" / "plugin-author.md"


@pytest.fixture
def toy(tmp_path: Path) -> Any:
    """The format of the guide, as a module of its own."""
    text = GUIDE.read_text(encoding="utf-8")
    text = text[text.index("```proto") :]
    blocks = dict(re.findall(r"```(proto|python)\n(.*?)```", text, re.DOTALL)[:2])
    (tmp_path / "toy.proto").write_text(blocks["proto"])
    space = {"__file__": str(tmp_path / "format.py")}
    exec(blocks["python"], space)
    return space["Format"]()


def two_layers() -> Graph:
    graph = Graph("amanda/toy/1")
    weight = graph.constant(Tensor.of([[1.0, 2.0]], "float32"), "w").output
    scaled = graph.add("scale", [weight], {"factor": 0.5}, name="s").output
    graph.add("add", [scaled, weight], name="y")
    return graph


def test_round_trip(toy: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.toy"
    toy.write(two_layers(), path)
    graph = toy.read(path)
    assert graph.difference(two_layers()) is None
    weight = graph.ops["w"].attrs["value"]
    assert "buffer" in repr(weight)
    raw = path.read_bytes() + encode_field(3, b"me") + encode_field(9, b"later")
    toy.write(toy.read(raw), path)
    assert path.read_bytes() == raw


def test_bad_input(toy: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.toy"
    toy.write(two_layers(), path)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(FormatError) as caught:
        toy.read(path)
    assert str(path) in str(caught.value)
