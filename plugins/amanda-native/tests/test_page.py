"""The C examples of docs/native-backends.md, compiled and run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from native_libraries import compile_library, needs_compiler

import amanda
from amanda.errors import BackendError
from amanda_native import GRAPH_SCHEMA

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "native-backends.md").read_text("utf-8")


def block(language: str, after: str = "") -> str:
    """The first block of a language behind some text of the page."""
    found = re.search(rf"```{language}\n(.*?)```", PAGE[PAGE.index(after) :], re.DOTALL)
    assert found is not None
    return found[1]


@needs_compiler
def test_the_library_of_the_page(tmp_path: Path) -> None:
    source = tmp_path / "negating.c"
    source.write_text(block("c", after="<!-- file: negating.c -->"))
    backend = f"native:{compile_library(source)}"
    for count in (1, 2, 3):
        graph = amanda.Graph("amanda/std/1")
        x = graph.parameter(amanda.parse_type("float32[n]"), "x")
        value = graph.add("negative", [x]).output
        for _ in range(count - 1):
            value = graph.add("negative", [value]).output
        graph.result(value, "y")
        fed = np.arange(3, dtype="float32")
        found = amanda.run(graph, [fed], backend=backend)["y"]
        np.testing.assert_array_equal(found, fed * (-1) ** count)
    graph.result(graph.add("exp", [x]).output)
    with pytest.raises(BackendError) as caught:
        amanda.compile(graph, backend=backend)
    assert caught.value.problems == ("exp #3: negating: only negative is supported",)


def test_the_graph_of_the_page() -> None:
    text = (Path(__file__).with_name("goldens") / "one_op.json").read_text("utf-8")
    assert json.loads(block("json")) == json.loads(text)
    jsonschema.validate(json.loads(block("json")), json.loads(GRAPH_SCHEMA.read_text()))
