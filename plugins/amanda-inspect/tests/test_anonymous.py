"""Reproductions with random weights: what is replaced, and that the error shows."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from planted import Planted

import amanda
from amanda.cli import run_command_line
from amanda_inspect import bisect
from amanda_inspect.anonymous import Anonymous, anonymize
from amanda_inspect.random_weights import RandomWeights
from amanda_inspect.windows import Backend
from amanda_std import ops

RANDOM = np.random.default_rng(8)
SCALE, BIAS = (RANDOM.normal(m, 1, 64).astype("float32") for m in (2, 0))
X = RANDOM.normal(size=(4, 64)).astype("float32")
NUMPY = Backend("numpy", {})


def norm(epsilon: float) -> amanda.Graph:
    graph = amanda.Graph("amanda/std/1")
    x = graph.parameter("float32[4, 64]", "x")
    y = ops.layer_norm(ops.tanh(x), scale=SCALE, bias=BIAS, epsilon=epsilon)
    graph.result(ops.exp(y), "y")
    return graph


def weights_of(graph: amanda.Graph) -> list[Any]:
    return [op.attrs["value"].numpy() for op in graph.walk() if op.is_constant]


def common_elements(old: Any, new: Any) -> set[Any]:
    """Elements of both, but the range, which is kept."""
    return {*new.flat} & {*old.flat} - {old.min(), old.max()}


def anonymize_first(a: amanda.Graph, b: amanda.Graph, x: Any = X) -> Anonymous:
    first = bisect(a, b, [x], backend="numpy").first
    assert first is not None
    return anonymize(first, (NUMPY, NUMPY))


def test_the_folder_has_random_weights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [tmp_path / f"{epsilon}.amanda" for epsilon in (1e-5, 0.1)]
    for file, epsilon in zip(files, (1e-5, 0.1), strict=True):
        amanda.save(norm(epsilon), file)
    np.save(tmp_path / "x.npy", X)
    folder = tmp_path / "bundle"
    feeds = ["--backend", "numpy", "--feed", f"x={tmp_path / 'x.npy'}"]
    given = [*map(str, files), *feeds, "--save", str(folder), "--anonymous-weights"]
    assert run_command_line(["bisect", *given]) == 5
    printed = capsys.readouterr().out
    assert "random weights, with which the error shows (size 0.1" in printed
    assert f"saved {folder}/reproduce.py" in printed
    found = weights_of(amanda.load(folder / "op.amanda"))
    assert len(found) == 2
    for old, new in zip((SCALE, BIAS), found, strict=True):
        assert (new.shape, new.dtype) == (old.shape, old.dtype)
        assert not common_elements(old, new)
        assert old.min() <= new.min() <= new.max() <= old.max()
        assert abs(new.mean() - old.mean()) < 0.1
        assert abs(new.std() - old.std()) < 0.1
    read = np.load(folder / "inputs.npz")["input 0"]
    np.testing.assert_allclose(read, np.tanh(X), 1e-5)
    centered = read - read.mean(-1, keepdims=True)
    for name, epsilon in (("wanted", 1e-5), ("found", 0.1)):
        spread = np.sqrt(np.square(centered).mean(-1, keepdims=True) + epsilon)
        right = centered / spread * found[0] + found[1]
        np.testing.assert_allclose(
            np.load(folder / f"{name}.npz")["output 0"], right, 1e-4, 1e-4
        )
    done = subprocess.run(
        [sys.executable, folder / "reproduce.py"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert "256 of 256 elements differ" in done.stdout
    assert run_command_line(["bisect", *given, "--json"]) == 5
    data = json.loads(capsys.readouterr().out)
    assert data["anonymous"]["shows"] is True
    assert data["anonymous"]["draws"] == 1
    assert len(data["anonymous"]["replaced"]) == 4  # both, of both models
    assert data["saved"][0] == "op.amanda"


class OfOneWeight(Planted):
    """Products with the weights of one model are wrong, with others they are right."""

    def compile(self, graph: Any, device: Any, options: Mapping[str, Any]) -> Any:
        self.when = lambda op: any(
            port is not None
            and port.op.is_constant
            and port.op.attrs["value"].numpy().flat[0] == SCALE[0]
            for port in op.inputs
        )
        return super().compile(graph, device, options)


def test_an_error_that_does_not_show(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    backend = OfOneWeight("wrong-for-a-weight", "wrong", ["multiply"])
    amanda.default_host().register_backend(backend.name, backend, replace=True)
    graph = amanda.Graph("amanda/std/1")
    x = graph.parameter("float32[4, 64]", "x")
    graph.result(ops.multiply(ops.tanh(x), SCALE), "y")
    amanda.save(graph, tmp_path / "model.amanda")
    backends = ["--backend", "numpy", "--backend", backend.name]
    given = [str(tmp_path / "model.amanda"), *backends, "--random", "1"]
    given += ["--save", str(tmp_path / "bundle"), "--anonymous-weights"]
    assert run_command_line(["bisect", *given]) == 5
    printed = capsys.readouterr().out
    assert "nothing is saved: the error does not show with random weights" in printed
    assert "which were drawn 8 times" in printed
    assert not (tmp_path / "bundle").exists()
    assert run_command_line(["bisect", *given, "--json"]) == 5
    data = json.loads(capsys.readouterr().out)
    assert data["saved"] == []
    assert (data["anonymous"]["shows"], data["anonymous"]["draws"]) == (False, 8)
    assert data["anonymous"]["size"] == 0


def test_random_weights_need_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["model.amanda", "--backend", "numpy", "--backend", "numpy"]
    assert run_command_line(["bisect", *given, "--anonymous-weights"]) == 2
    assert "expected: --anonymous-weights with --save" in capsys.readouterr().err


def product(weight: Any, *, scale: float = 1.0) -> amanda.Graph:
    """A product with a weight that is transposed first, which bisection cannot fold."""
    graph = amanda.Graph("amanda/std/1")
    x = graph.parameter("float32[4, 64]", "x")
    turned = ops.transpose(weight, perm=(1, 0))
    y = ops.matmul(ops.tanh(x), turned)
    graph.result(ops.exp(y if scale == 1 else ops.multiply(y, np.float32(scale))), "y")
    return graph


def test_what_is_computed_from_weights_is_replaced() -> None:
    weight = RANDOM.normal(size=(3, 64)).astype("float32")
    wrong = weight.copy()
    wrong[1, 5] += 2
    found = anonymize_first(product(weight), product(wrong))
    assert found.reproduction is not None
    arrays = [
        *found.reproduction.inputs.values(),
        *weights_of(found.reproduction.graph),
    ]
    assert len(arrays) == 2
    assert not any(common_elements(weight, array) for array in arrays)


def test_the_difference_between_both_models_is_kept() -> None:
    weight = RANDOM.normal(size=(5, 6, 7)).astype("float32")
    wrong = weight.copy()
    wrong[1, 2, 3] += 3
    draw = RandomWeights(0)
    new = draw.replace(weight, "a")
    same = draw.replace(weight.transpose(2, 0, 1).reshape(7, 30), "b")
    other = draw.replace(wrong, "c")
    np.testing.assert_array_equal(same, new.transpose(2, 0, 1).reshape(7, 30))
    assert np.argwhere(other != new).tolist() == [[1, 2, 3]]
    assert other[1, 2, 3] - new[1, 2, 3] == pytest.approx(3, abs=1e-5)
    assert not common_elements(weight, new)


def test_zeros_and_infinities_stay() -> None:
    weight = RANDOM.normal(size=(50, 50)).astype("float32")
    weight[weight < -1] = 0
    weight[0] = -np.inf
    new = RandomWeights(0).replace(weight, "pruned")
    np.testing.assert_array_equal(new == 0, weight == 0)
    np.testing.assert_array_equal(np.isinf(new), np.isinf(weight))
    random = np.isfinite(weight) & (weight != 0)
    assert not common_elements(weight[random], new[random])
    assert new[random].mean() == pytest.approx(weight[random].mean(), abs=0.05)
    assert new[random].std() == pytest.approx(weight[random].std(), abs=0.05)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int8", "uint8"])
def test_element_types(dtype: str) -> None:
    kind = amanda.DType(dtype).numpy
    old = (RANDOM.normal(size=2000) * 20 + 100 * (dtype == "uint8")).astype(kind)
    new = RandomWeights(1).replace(old, "w")
    assert new.dtype == old.dtype
    wide, drawn = old.astype("float64"), new.astype("float64")
    assert drawn.min() >= wide.min()
    assert drawn.max() <= wide.max()
    assert drawn.mean() == pytest.approx(wide.mean(), abs=0.2)
    assert drawn.std() == pytest.approx(wide.std(), abs=0.4)
    assert abs(np.corrcoef(wide, drawn)[0, 1]) < 0.1  # nothing is left of the weights


def test_complex_weights() -> None:
    old = (RANDOM.normal(size=500) + 1j * RANDOM.normal(3, 2, 500)).astype("complex64")
    new = RandomWeights(1).replace(old, "w")
    assert new.dtype == old.dtype
    assert new.mean() == pytest.approx(old.mean(), abs=0.05)
    assert not common_elements(old, new)


def test_what_is_kept_is_listed() -> None:
    graph = amanda.Graph("amanda/std/1")
    shape = np.int64([4, 8])
    mask = np.where(np.tri(4), 0, -1e9).astype("float32")
    for name, array in (("shape", shape), ("mask", mask), ("one", np.float32(1))):
        graph.constant(array, name)
    draw = RandomWeights(0)
    draw.replace_in(graph, "the model")
    assert not draw.replaced
    assert draw.kept == [
        "constant 'shape' of the model: int64 may decide shapes, or be indices",
        "constant 'mask' of the model: at most two distinct elements but zeros",
    ]
    np.testing.assert_array_equal(weights_of(graph)[1], mask)


def test_weights_in_attributes_and_bodies() -> None:
    graph = amanda.Graph("amanda/onnx/18")
    x = graph.parameter("float32[1, 8]", "x")
    numbers = RANDOM.normal(size=8).tolist()
    body = amanda.Graph("amanda/onnx/18")
    body.result(body.constant(SCALE, "inner").output)
    graph.add("LinearRegressor", [x], {"coefficients": numbers}, name="linear")
    graph.add("If", [x], bodies={"then_branch": body}, name="if")
    draw = RandomWeights(0)
    draw.replace_in(graph, "it")
    assert [place.split(" of ")[0] for place in draw.replaced] == [
        "attribute coefficients",
        "constant 'inner'",
    ]
    found = next(iter(graph)).attrs["coefficients"]
    assert len(found) == 8
    assert not common_elements(np.asarray(numbers), np.asarray(found))
    assert not common_elements(SCALE, weights_of(graph)[0])
