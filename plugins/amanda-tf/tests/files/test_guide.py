"""The commands of the guide's section on TensorFlow, run in an empty folder."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import amanda
from amanda import cli
from amanda.errors import UsageError

tf = pytest.importorskip("tensorflow", reason="needs TensorFlow, to make the model")
GUIDE = Path(__file__).parents[4] / "docs/guide.md"
X = np.arange(12, dtype=np.float32).reshape(4, 3) - 5
W = np.linspace(-1, 1, 6, dtype=np.float32).reshape(3, 2)


class Model(tf.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        self.w = tf.Variable(W)

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, name="x")])
    def call(self, x: Any) -> Any:
        return {"y": tf.nn.relu(x @ self.w)}

    @tf.function(input_signature=[tf.TensorSpec([], tf.float32, name="a")])
    def scale(self, a: Any) -> Any:
        return {"scaled": a * self.w}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    model = Model()
    signatures = {"serving_default": model.call, "scaled": model.scale}
    tf.saved_model.save(model, "saved_model", signatures)
    return tmp_path


def commands() -> list[str]:
    """The commands of the section, in their order."""
    [section] = re.findall(
        r"^## TensorFlow\n(.*?)^## ", GUIDE.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    return re.findall(r"^    amanda (.*)$", section, re.MULTILINE)


def test_the_commands_of_the_guide(folder: Path, capsys: Any) -> None:
    found = commands()
    assert len(found) == 13
    for line in found:
        assert cli.run_command_line(line.split()) == 0, (line, capsys.readouterr().err)
    assert "scaled" in capsys.readouterr().out
    expected = np.maximum(X @ W, 0)
    for name in ("model.onnx", "served.onnx", "fixed.onnx", "named.onnx", "same.onnx",
                 "part.onnx", "frozen.pb", "graph.pb"):  # fmt: skip
        got = amanda.run(amanda.load(folder / name), {"x": X}, backend="numpy")
        np.testing.assert_allclose(next(iter(got.values())), expected, rtol=1e-6)
    for name in ("other_model", "copy"):
        call = tf.saved_model.load(str(folder / name)).signatures["serving_default"]
        np.testing.assert_allclose(call(x=tf.constant(X))["y"], expected, rtol=1e-6)
    scaled = amanda.load(folder / "scaled.onnx")
    got = amanda.run(scaled, {"a": np.float32(2)}, backend="numpy")
    np.testing.assert_allclose(got["scaled"], 2 * W, rtol=1e-6)
    dims = {name: str(amanda.load(folder / f"{name}.onnx").parameters[0].type)
            for name in ("fixed", "named")}  # fmt: skip
    assert dims == {"fixed": "float32[4, 3]", "named": "float32[batch, 3]"}


@pytest.mark.parametrize("option", ["tags", "inputs", "outputs"])
@pytest.mark.parametrize("wrong", [5, ["serve", 5], {"serve": 1}])
def test_names_are_text(folder: Path, option: str, wrong: Any) -> None:
    with pytest.raises(UsageError, match=f"{option} are names"):
        amanda.load(folder / "saved_model", **{option: wrong})


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        (
            "--load-option signature=other",
            ["one of scaled, serving_default", "saved_model"],
        ),
        ("--load-option tags=train", ["expected: serve", "saved_model.pb"]),
        ("--load-option variables=melt", ["'keep' or 'freeze'"]),
        ("--load-option outputs=StatefulPartitionedCal", ["did you mean"]),
        ("--load-option name=x", ["one of version, tags, signature, inputs"]),
        ("--dim n=1", ["one of x:0", "x: float32[?, 3]"]),
        ("--dim x=4,4", ["float32[?, 3]", "[4, 4]"]),
        ("--dim x:0", ["DIM=SIZE"]),
    ],
)
def test_invalid_options_are_answered_with_the_valid_ones(
    folder: Path, capsys: Any, options: str, shown: list[str]
) -> None:
    line = f"convert {folder}/saved_model out.onnx {options}"
    assert cli.run_command_line(line.split()) == 2
    error = capsys.readouterr().err
    assert all(text in error for text in shown), error
    assert not (folder / "out.onnx").exists()
