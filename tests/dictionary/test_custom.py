"""Ops of one's own: declared once, known to checks, files, conversions and backends."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import amanda
from amanda.errors import (
    ConversionError,
    FormatError,
    GraphError,
    NumericMismatchError,
    UsageError,
)
from amanda.frontend.custom_ops import CustomOp, custom_op

ROOT = Path(__file__).parents[2]
SIGNATURE = "Swish(x: T, *, beta: float = 1.0) -> (y: T)  T in {f32, f64}"
X = np.linspace(-3, 3, 6, dtype=np.float32).reshape(2, 3)

needs_plugins = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("amanda_std", "amanda_onnx")),
    reason="amanda-std and amanda-onnx are not installed",
)


@pytest.fixture
def host() -> amanda.Host:
    return amanda.Host()


@pytest.fixture
def swish(host: amanda.Host) -> CustomOp:
    @custom_op("onnx/com.acme@1", SIGNATURE, like="x", host=host)
    def swish(x: Any, *, beta: float) -> Any:
        """x times the logistic function of beta x."""
        return (x / (1 + np.exp(-beta * x))).astype(x.dtype)

    return swish


def model(swish: CustomOp, **attrs: Any) -> amanda.Graph:
    graph = amanda.Graph("amanda/onnx/18", name="small")
    graph.imports.update({"": 18, "com.acme": 1})
    x = graph.parameter(amanda.parse_type("float32[2, 3]"), "x")
    before = graph.add("Neg", [x]).output
    before.type = x.type
    graph.result(swish.add(graph, before, **attrs, name="swish"), "y")
    return graph


def expected(beta: float) -> Any:
    """The logistic function, written in another way."""
    x = -X.astype(np.float64)
    return x * (1 + np.tanh(beta * x / 2)) / 2


def test_it_is_in_the_dictionary(swish: CustomOp, host: amanda.Host) -> None:
    found: Any = amanda.namespace("onnx/com.acme@1", host=host)
    assert str(found["Swish"]) == SIGNATURE
    assert found["Swish"].doc == "x times the logistic function of beta x."
    assert list(found) == ["Swish"]
    assert swish(X).tolist() == swish(X, beta=1.0).tolist()


def test_another_op_and_another_version(swish: CustomOp, host: amanda.Host) -> None:
    @custom_op("onnx/com.acme@2", "Swish(x: T) -> (y: T)  T in {f32}", host=host)
    def newer(x: Any) -> Any:
        return x

    @custom_op("onnx/com.acme@2", "Twice(x: T) -> (y: T)  T in {f32}", host=host)
    def twice(x: Any) -> Any:
        return x + x

    assert newer.dictionary is twice.dictionary is swish.dictionary
    first, second = (
        amanda.namespace(f"onnx/com.acme@{version}", host=host) for version in (1, 2)
    )
    assert (list(first), list(second)) == (["Swish"], ["Swish", "Twice"])
    assert str(first["Swish"]) == SIGNATURE
    assert amanda.namespace("onnx/com.acme", host=host).name == "onnx/com.acme/2"


def test_it_is_checked_where_it_is_made_and_where_it_stands(
    swish: CustomOp, host: amanda.Host
) -> None:
    with pytest.raises(GraphError, match="no argument 'bta'"):
        model(swish, bta=2.0)
    graph = model(swish, beta=2.0)
    assert graph.ops["swish"].namespace == "onnx/com.acme/1"
    graph.ops["swish"].attrs["beta"] = "much"

    def find(name: str) -> Any:
        return amanda.namespace(name, host=host)

    problems = find("onnx@18").validate(graph, find)
    told = ["Swish 'swish': attribute beta is 'much', not a float"]
    assert [str(problem) for problem in problems] == told


@needs_plugins
def test_it_runs_where_python_can_be_called(swish: CustomOp, host: amanda.Host) -> None:
    graph = model(swish, beta=2.0)
    found = amanda.run(graph, {"x": X}, backend="numpy", host=host)["y"]
    np.testing.assert_allclose(found, expected(2.0), rtol=1e-5)
    assert found.dtype == np.float32
    (op,) = amanda.convert(graph, "std", host=host).ops.select("host_callback")
    assert str(op.output.type) == "float32[2, 3]"


@needs_plugins
@pytest.mark.parametrize("by", ["function", "rule"])
def test_it_becomes_ops_that_every_backend_has(
    swish: CustomOp, host: amanda.Host, by: str
) -> None:
    if by == "rule":
        text = "Swish(x, beta=1.0)  =>  multiply(x, sigmoid(x))"
        swish.rule("amanda/std/1", text)
    else:

        @swish.to("amanda/std/1")
        def _(o: Any, x: Any, *, beta: float) -> Any:
            return o.multiply(x, o.sigmoid(o.multiply(x, beta)))

    made = amanda.convert(model(swish), "std", host=host)
    assert {op.type for op in made if op.type != "constant"} == {
        "negative",
        "multiply",
        "sigmoid",
    }
    found = amanda.run(made, {"x": X}, backend="numpy", host=host)["y"]
    np.testing.assert_allclose(found, expected(1.0), rtol=1e-5)
    swish.check(X)


@needs_plugins
def test_what_is_not_what_it_says_is_told(swish: CustomOp) -> None:
    @swish.to("amanda/std/1")
    def _(o: Any, x: Any, *, beta: float) -> Any:
        return o.multiply(x, beta)

    with pytest.raises(NumericMismatchError, match="Swish on numpy differs"):
        swish.check(X, beta=0.5)


@needs_plugins
def test_files_find_it(swish: CustomOp, host: amanda.Host, tmp_path: Path) -> None:
    amanda.save(model(swish, beta=2.0), tmp_path / "model.onnx", host=host)
    graph = amanda.load(tmp_path / "model.onnx", host=host)
    (op,) = graph.ops.select("Swish")
    assert op.namespace == "onnx/com.acme/1"
    found = amanda.run(graph, {"x": X}, backend="numpy", host=host)["y"]
    np.testing.assert_allclose(found, expected(2.0), rtol=1e-5)


@needs_plugins
def test_without_the_declaration_it_is_a_gap(swish: CustomOp) -> None:
    with pytest.raises(ConversionError, match="Swish, op 'swish'"):
        amanda.convert(model(swish), "std", host=amanda.Host())


def test_what_cannot_be_declared(host: amanda.Host) -> None:
    with pytest.raises(UsageError, match="has no version"):
        custom_op("onnx/com.acme", SIGNATURE, host=host)
    with pytest.raises(FormatError, match="cannot be parsed"):
        custom_op("onnx/com.acme@1", "Swish(x: T)", host=host)
    with pytest.raises(UsageError, match="no input 'z'"):
        custom_op("onnx/com.acme@1", SIGNATURE, like="z", host=host)


def test_a_namespace_of_somebody_else(host: amanda.Host) -> None:
    if not host.has("namespaces", "onnx"):
        pytest.skip("needs amanda-namespaces, installed")
    with pytest.raises(UsageError, match="the namespace amanda/onnx is that of"):
        custom_op("onnx@18", SIGNATURE, host=host)(abs)


@needs_plugins
def test_the_example() -> None:
    call = [sys.executable, str(ROOT / "examples" / "custom_op.py")]
    done = subprocess.run(call, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("True") == 2
    assert "0 faults, Swish(x: T" in done.stdout
