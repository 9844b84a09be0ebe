"""An explicit host is honoured by formats, mappings, backends, passes and functions.

The default host is one that fails when it is used.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

import amanda
from amanda.host import use_host
from amanda.tensors import Tensor

pytest.importorskip("amanda_std")
pytest.importorskip("amanda_onnx")

X = np.float32([[1.0, -2.0, 3.0]])
W = np.float32([[1, 0], [0, 1], [1, 1]])
Y = np.maximum(X @ W, 0)
BACKENDS = {"numpy": "amanda_std", "jax": "jax", "onnxruntime": "onnxruntime"}


class UnusedHost(amanda.Host):
    """A default host that nothing may ask."""

    def _index(self) -> NoReturn:
        raise AssertionError("the default host was asked")


@pytest.fixture(autouse=True)
def unused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("amanda.host._default", UnusedHost())


@pytest.fixture
def host() -> amanda.Host:
    return amanda.Host(only=None)


@pytest.fixture
def graph() -> amanda.Graph:
    made = amanda.Graph("amanda/onnx/18", name="tiny")
    x = made.parameter(amanda.parse_type("float32[1, 3]"), name="x")
    product = made.add("MatMul", [x, made.constant(Tensor.of(W)).output])
    scores = made.add("Relu", [product.output], name="relu")
    made.result(scores.output, name="y")
    return made


@pytest.mark.parametrize(("backend", "package"), BACKENDS.items())
def test_runs_on_a_backend(
    graph: amanda.Graph, host: amanda.Host, backend: str, package: str
) -> None:
    pytest.importorskip(package)
    std = amanda.convert(graph, "amanda/std/1", host=host)
    for each in (graph, std):
        plan = amanda.plan(each, backend, host=host)
        assert not [*plan.gaps, *plan.refusals]
        compiled = amanda.compile(each, backend, host=host)
        np.testing.assert_allclose(compiled([X])["y"], Y)
        found = amanda.run(each, [X], ["relu"], backend, host=host)
        np.testing.assert_allclose(found["relu"], Y)


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_falls_back_to_another_backend(
    graph: amanda.Graph, host: amanda.Host, backend: str
) -> None:
    pytest.importorskip(BACKENDS[backend])

    class Few:
        name = "few"
        namespace = "amanda/std/1"

        def devices(self) -> list[str]:
            return ["cpu"]

        def takes(self, op: amanda.Op) -> bool | str:
            return op.type == "constant" or "too few kernels"

        def compile(self, graph: amanda.Graph, device: Any, options: Any) -> Any:
            raise AssertionError

    host.register_backend("few", Few())
    compiled = amanda.compile(graph, "few", fallback=backend, host=host)
    np.testing.assert_allclose(compiled([X])["y"], Y)


def test_converts_there_and_back(graph: amanda.Graph, host: amanda.Host) -> None:
    plan = amanda.plan(graph, "amanda/std/1", host=host)
    assert [str(step.target) for step in plan.route.steps] == ["amanda/std/1"]
    assert not plan.gaps
    std = amanda.convert(graph, "amanda/std/1", host=host)
    back = amanda.convert(std, "onnx@13", host=host)
    assert back.namespace == "amanda/onnx/13"
    older = amanda.convert(graph, "onnx@9", host=host)
    assert older.namespace == "amanda/onnx/9"


@pytest.mark.parametrize("suffix", ["onnx", "amanda", "yaml"])
def test_saves_and_loads(
    graph: amanda.Graph, host: amanda.Host, tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"tiny.{suffix}"
    amanda.save(graph, path, host=host)
    again = amanda.load(path, host=host)
    assert [op.type for op in again] == [op.type for op in graph]


def test_passes_functions_and_gradients(graph: amanda.Graph, host: amanda.Host) -> None:
    std = amanda.convert(graph, "amanda/std/1", host=host)
    amanda.improve(std, "infer", "fold", "drop", host=host)
    (gradient,) = amanda.grad(std, "y", ["x"], host=host)
    std.result(gradient, "dx")
    found = amanda.run(std, [X], backend="numpy", host=host)
    np.testing.assert_allclose(found["dx"], np.float32([[1, 1, 2]]))

    @amanda.function(host=host)
    def twice(x: Any) -> Any:
        return x + x

    made = twice.graph("float32[2]")
    found = amanda.run(made, [X[0, :2]], backend="numpy", host=host)
    np.testing.assert_allclose(next(iter(found.values())), 2 * X[0, :2])
    np.testing.assert_allclose(twice(X), 2 * X)


def test_sessions(graph: amanda.Graph, host: amanda.Host) -> None:
    session = amanda.Session(graph, "numpy", host=host)
    np.testing.assert_allclose(session.run(["y"], [X])["y"], Y)


def test_definitions_and_namespaces_of_the_host_in_use(
    graph: amanda.Graph, host: amanda.Host
) -> None:
    relu = graph["relu"]
    assert host.definition(relu).name == "Relu"
    with use_host(host):
        assert relu.definition.name == "Relu"
        assert amanda.namespace("onnx@18").name == "amanda/onnx/18"
    with pytest.raises(AssertionError, match="the default host was asked"):
        amanda.namespace("onnx@18")
