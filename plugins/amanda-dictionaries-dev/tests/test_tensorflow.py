"""The dictionary of the installed TensorFlow beside the functions that call its ops."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest

from amanda.dictionary import OpDef
from amanda.errors import NamespaceError
from amanda_dictionaries_dev.tensorflow.extractor import TensorFlowExtractor, doc_lines
from amanda_dictionaries_dev.tensorflow.op_definitions import op_def_of_row


@pytest.fixture(scope="module")
def entries() -> dict[str, OpDef]:
    (found,) = TensorFlowExtractor().installed_ops().versions.values()
    return {entry.name: entry for entry in found}


@pytest.mark.scale
def test_raw_ops_take_what_the_entries_say(entries: dict[str, OpDef]) -> None:
    """`tf.raw_ops` is generated for Python from the same registrations.

    It gives some arguments other names, and a name for the op comes last.
    """
    raw_ops = pytest.importorskip("tensorflow").raw_ops
    checked = same = 0
    for name in filter(entries.__contains__, dir(raw_ops)):
        *parameters, last = inspect.signature(getattr(raw_ops, name)).parameters
        assert last == "name"
        entry = entries[name]
        told = [part.name for part in (*entry.inputs, *entry.attrs)]
        assert len(parameters) == len(told), name
        checked += 1
        same += set(parameters) == set(told)
    assert checked > 1400
    assert same > 0.9 * checked


def test_entries_that_are_known(entries: dict[str, OpDef]) -> None:
    assert str(entries["MatMul"]).startswith(
        "MatMul(a: T, b: T, *, transpose_a: bool = false, transpose_b: bool = false, "
    )
    assert entries["MatMul"].doc == 'Multiply the matrix "a" by the matrix "b".'
    assert entries["NextIteration"].feedback
    assert entries["RandomUniform"].effects
    assert entries["Add"].attr("T") is not None
    assert entries["ConcatV2"].inputs[0].form == "count"
    assert entries["IdentityN"].inputs[0].form == "list"


def test_tensors_in_defaults() -> None:
    """A TensorProto of two int32, by its bytes: dtype, shape, values 1 and 300."""
    content = "0803" + "12041202" + "0802" + "3a03" + "01ac02"
    row = {"attrs": [["t", {"type": "tensor", "default": {"tensor": content}}]]}
    assert (
        str(op_def_of_row("A", row))
        == "A(*, t: tensor = i32[2] x 010000002c010000) -> ()"
    )


def test_lines_that_nobody_wrote() -> None:
    assert doc_lines({"A": "TODO: add doc.\n\n  Args:"}) == {}


def test_raw_data_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NamespaceError, match="this is not a raw data file"):
        TensorFlowExtractor().extract(tmp_path)


def test_raw_data_is_read(tmp_path: Path) -> None:
    port = {"name": "x", "type": "float32"}
    lines = [{"versions": ["1.0", "1.1"]}, ["Abs", [[1, {"inputs": [port]}]]]]
    text = "\n".join(map(json.dumps, lines))
    (tmp_path / "tensorflow.jsonl").write_text(text)
    lines = [{"versions": ["0.9"]}, ["Abs", [[0, {}]]]]
    text = "\n".join(map(json.dumps, lines))
    (tmp_path / "tensorflow.more.jsonl").write_text(text)
    made = TensorFlowExtractor().extract(tmp_path)
    assert made is not None
    (block,) = made.blocks
    assert block.steps == (
        ("0.9", "() -> ()"),
        ("1.0", "gone"),
        ("1.1", "(x: f32) -> ()"),
    )
    assert block.doc == "Computes the absolute value of a tensor."
