"""Ops of other namespaces in graphs of the hub and of ONNX, on every backend."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import onnx
import pytest

import amanda
from amanda.dictionary import OpDef, parse_signature
from amanda.errors import AmandaError, BackendError, ConversionError, NamespaceError
from amanda.frontend import CustomOp
from amanda.graph import Graph, Op

pytest.importorskip("amanda_std")

from amanda_std import ops, trace

X = np.array([[-3, -1, 0.5], [1, 2, 4]], "f")
SIGNATURE = "Swish(x: T, *, beta: float = 1.0) -> (y: T)  T in {f32, f64}"
SPACES = ["onnx/com.acme@1", "acme/own@1"]  # a domain of ONNX, and none


def logistic(x: Any) -> Any:
    return (1 + np.tanh(x / 2)) / 2


def run_on(graph: Graph, backend: str, host: amanda.Host) -> Any:
    if not host.has("backends", backend):
        pytest.skip(f"the backend {backend} is not installed")
    (found,) = amanda.run(graph, [X], backend=backend, host=host).values()
    return found


@pytest.fixture
def host() -> amanda.Host:
    return amanda.Host()


def declare(space: str, host: amanda.Host) -> CustomOp:
    @amanda.custom_op(space, SIGNATURE, like="x", host=host)
    def swish(x: Any, *, beta: float) -> Any:
        return (x * logistic(beta * x)).astype(x.dtype)

    return swish


def add_rule(swish: CustomOp) -> None:
    @swish.to("amanda/std/1")
    def _(o: Any, x: Any, *, beta: float) -> Any:
        assert x.type is not None  # also behind another such op
        return o.multiply(x, o.sigmoid(o.multiply(x, beta)))


def graph_with(swish: CustomOp, space: str) -> Graph:
    """abs(swish(-swish(x, 2))), where neg and abs are of the graph's namespace."""
    kinds = ("Neg", "Abs") if "onnx/" in space else ("negative", "abs")
    graph = Graph(space)
    x = graph.parameter(amanda.parse_type("float32[2, 3]"), "x")
    inner = graph.add(kinds[0], [swish.add(graph, x, beta=2.0)]).output
    y = graph.add(kinds[1], [swish.add(graph, inner)], name="abs").output
    y.type = x.type
    graph.result(y, "y")
    return graph


def expected() -> Any:
    x = X.astype(np.float64)
    inner = -x * logistic(2 * x)
    return np.abs(inner * logistic(inner))


@pytest.mark.parametrize("backend", ["numpy", "jax", "onnxruntime", "stablehlo"])
@pytest.mark.parametrize("space", ["amanda/std/1", "amanda/onnx/18"])
@pytest.mark.parametrize("own", SPACES)
def test_an_op_with_a_rule_runs_everywhere(
    host: amanda.Host, own: str, space: str, backend: str
) -> None:
    swish = declare(own, host)
    add_rule(swish)
    found = run_on(graph_with(swish, space), backend, host)
    np.testing.assert_allclose(found, expected(), rtol=1e-5)


@pytest.mark.parametrize("backend", ["numpy", "jax"])
@pytest.mark.parametrize("space", ["amanda/std/1", "amanda/onnx/18"])
@pytest.mark.parametrize("own", SPACES)
def test_an_op_without_one_runs_where_python_can_be_called(
    host: amanda.Host, own: str, space: str, backend: str
) -> None:
    swish = declare(own, host)
    found = run_on(graph_with(swish, space), backend, host)
    np.testing.assert_allclose(found, expected(), rtol=1e-5)
    swish.check(X, backend=backend)
    made = amanda.convert(graph_with(swish, space), "std", host=host)
    called = made.ops.select("host_callback")
    assert [str(op.output.type) for op in called] == ["float32[2, 3]"] * 2


@pytest.mark.parametrize("to", ["amanda/onnx/18", "amanda/jax", "amanda/stablehlo"])
@pytest.mark.parametrize("own", SPACES)
def test_an_op_with_a_rule_is_converted_in_every_graph(
    host: amanda.Host, own: str, to: str
) -> None:
    swish = declare(own, host)
    add_rule(swish)
    graph = graph_with(swish, "amanda/std/1")
    made = amanda.convert(graph, to, host=host)
    assert "Swish" not in [op.type for op in made]
    assert amanda.plan(graph, to, host=host).gaps == ()


def test_an_op_of_a_domain_stays_one_in_onnx(host: amanda.Host, tmp_path: Any) -> None:
    """Without a rule; newer opsets have an op of this name, which it is not."""
    swish = declare("onnx/com.acme@1", host)
    graph = graph_with(swish, "amanda/std/1")
    made = amanda.convert(graph, "onnx@24", host=host)
    amanda.save(made, tmp_path / "a.onnx", host=host)
    nodes = onnx.load(tmp_path / "a.onnx").graph.node
    assert [(node.domain, node.op_type) for node in nodes] == [
        ("com.acme", "Swish"), ("", "Neg"), ("com.acme", "Swish"), ("", "Abs")
    ]  # fmt: skip
    again = amanda.load(tmp_path / "a.onnx", host=host)
    found = amanda.run(again, [X], backend="numpy", host=host)["y"]
    np.testing.assert_allclose(found, expected(), rtol=1e-5)


@pytest.mark.parametrize(
    ("own", "space", "error", "text"),
    [
        (SPACES[0], "amanda/std/1", BackendError, "no Swish in the domain 'com.acme'"),
        (SPACES[0], "amanda/onnx/18", BackendError, "no Swish in the domain 'com.acme"),
        (SPACES[1], "amanda/std/1", ConversionError, "it is of acme/own/1"),
        (SPACES[1], "amanda/onnx/18", BackendError, "is not of ONNX: acme/own/1"),
    ],
)
def test_where_python_cannot_be_called_the_op_is_named(
    host: amanda.Host, own: str, space: str, error: type[AmandaError], text: str
) -> None:
    with pytest.raises(error, match=text):
        run_on(graph_with(declare(own, host), space), "onnxruntime", host)


# -- a frontend that defines its ops by those of the hub -------------------------------


def double(x: Any) -> Any:
    return x + x


def scaled_softmax(x: Any) -> Any:
    assert x.shape[-1] == 3  # a definition that depends on types
    return ops.softmax(x * 0.5, axes=[-1])


class Frontend:
    """`acme/net/1`: an op of std ops, and one of an op of its own."""

    name = "acme/net/1"
    definitions: ClassVar[dict[str, Callable[..., Any]]] = {
        "Double": double, "ScaledSoftmax": scaled_softmax,
    }  # fmt: skip

    def versions(self) -> Sequence[str]:
        return ["1"]

    def at(self, version: str) -> Frontend:
        del version
        return self

    def __contains__(self, op_type: object, /) -> bool:
        return op_type in self.definitions or op_type == "Head"

    def __getitem__(self, op_type: str, /) -> OpDef:
        return parse_signature(f"{op_type}(x: T) -> (y: T)  T in {{f32}}")

    def __iter__(self) -> Iterator[str]:
        return iter((*self.definitions, "Head"))

    def is_composite(self, op_type: str, /) -> bool:
        return op_type in self

    def infer(self, graph: Graph, /) -> object:
        return graph

    fold = infer

    def expand(self, op: Op, definition: Any = None, /) -> list[Op]:
        del definition
        graph, before = op.graph, op.previous
        assert graph is not None
        types = [v.type for v in op.inputs if v is not None]
        if op.type == "Head":
            with graph.before(op):
                first = graph.add("Double", op.inputs, namespace=self.name).output
                last = graph.add("ScaledSoftmax", [first], namespace=self.name).output
            values: Any = [last]
        else:
            body = trace(self.definitions[op.type or ""], types)
            with graph.before(op):
                values = graph.paste(body, op.inputs)
        made = []
        at = op.previous
        while at is not before and at is not None:
            made.append(at)
            at = at.previous
        graph.replace(op, values, "expand")
        return made[::-1]


@pytest.fixture
def frontend(host: amanda.Host) -> str:
    made = Frontend()
    host.register_namespace("acme/net", made, manifest={"versions": ["1"]})
    return made.name


def model(space: str, head: str) -> Graph:
    graph = Graph(space)
    x = graph.parameter(amanda.parse_type("float32[2, 3]"), "x")
    kind = "Neg" if "onnx" in space else "negative"
    first = graph.add(head, [graph.add(kind, [x]).output], namespace="acme/net/1")
    y = graph.add(kind, [first.output]).output
    y.type = x.type
    graph.result(y, "y")
    return graph


def expected_model() -> Any:
    e = np.exp(-X.astype(np.float64))
    return -e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize("backend", ["numpy", "jax", "onnxruntime", "stablehlo"])
def test_a_composite_of_a_frontend_runs_everywhere(
    frontend: str, host: amanda.Host, backend: str
) -> None:
    del frontend
    graph = model("amanda/std/1", "Head")
    before = graph.digest(names=True)
    found = run_on(graph, backend, host)
    np.testing.assert_allclose(found, expected_model(), rtol=1e-5)
    assert graph.digest(names=True) == before


@pytest.mark.parametrize("to", ["amanda/onnx/18", "amanda/jax", "amanda/stablehlo"])
def test_a_composite_of_a_frontend_is_converted(
    frontend: str, host: amanda.Host, to: str
) -> None:
    graph = model("amanda/std/1", "Head")
    assert amanda.plan(graph, to, host=host).gaps == ()
    made = amanda.convert(graph, to, host=host)
    assert frontend not in [op.namespace for op in made.walk()]


def test_without_a_definition_it_is_a_gap(host: amanda.Host) -> None:
    graph = model("amanda/std/1", "Head")
    with pytest.raises(ConversionError, match=r"Head.*it is of acme/net/1"):
        amanda.convert(graph, "onnx@18", host=host)
    with pytest.raises(NamespaceError, match="is of acme/net/1, not amanda/std/1"):
        amanda.convert(graph, "stablehlo", host=host)
