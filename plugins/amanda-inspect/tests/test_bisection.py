"""Planted faults: bisection names the op that has them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import amanda
from amanda.errors import UsageError
from amanda_inspect import Bisection, bisect, match_graphs

ONNX = "amanda/onnx/18"
RANDOM = np.random.default_rng(5)
WEIGHTS = {
    name: RANDOM.normal(size=shape).astype("float32")
    for name, shape in (("kernel", (4, 3, 3, 3)), ("scale", (4,)), ("bias", (4,)),
                        ("mean", (4,)), ("matrix", (4, 5)))
}  # fmt: skip
WEIGHTS["variance"] = np.abs(RANDOM.normal(size=4).astype("float32")) * 0.01
X = RANDOM.normal(size=(2, 3, 8, 8)).astype("float32")


class Network:
    """A small network of ONNX, with a fault where one is planted."""

    def __init__(self, **faults: Any) -> None:
        self.faults = faults
        self.graph = amanda.Graph(ONNX, name="network")

    def weight(self, name: str) -> Any:
        array = WEIGHTS[name].copy()
        if self.faults.get("weight") == name:
            array.reshape(-1)[1] += 3
        return self.graph.constant(array, name).output

    def add(self, kind: str, inputs: list[Any], name: str, **attrs: Any) -> Any:
        if self.faults.get("swapped") == name:
            inputs = [inputs[1], inputs[0]]
        if self.faults.get("dropped") == name:
            return inputs[0]
        attrs |= self.faults.get(name, {})
        return self.graph.add(kind, inputs, attrs, name=name).output

    def build(self) -> amanda.Graph:
        x = self.graph.parameter("float32[n, 3, 8, 8]", "x")
        conv = self.add("Conv", [x, self.weight("kernel")], "conv", pads=[1, 1, 1, 1])
        norm = self.add(
            "BatchNormalization",
            [conv, *map(self.weight, ("scale", "bias", "mean", "variance"))],
            "norm", epsilon=1e-5,
        )  # fmt: skip
        half = self.add("Cast", [norm], "half", to=10)
        full = self.add("Cast", [half], "full", to=1) if half is not norm else norm
        relu = self.add("Relu", [full], "relu")
        gate = self.add("Sub", [relu, conv], "gate")
        soft = self.add("Softmax", [gate], "soft", axis=1)
        pool = self.add("GlobalAveragePool", [soft], "pool")
        flat = self.add("Flatten", [pool], "flat")
        y = self.add("MatMul", [flat, self.weight("matrix")], "product")
        self.graph.result(y, "y")
        return self.graph


FAULTS = [
    ({"weight": "kernel"}, {"conv"}),
    ({"weight": "matrix"}, {"product"}),
    ({"weight": "mean"}, {"norm"}),
    ({"conv": {"pads": [0, 1, 2, 1]}}, {"conv"}),
    ({"swapped": "gate"}, {"gate"}),
    ({"soft": {"axis": 2}}, {"soft"}),
    ({"norm": {"epsilon": 1e-3}}, {"norm"}),
    ({"dropped": "half"}, {"relu"}),  # which reads what is not rounded
]


@pytest.mark.parametrize(("fault", "names"), FAULTS, ids=lambda x: str(x)[:40])
def test_a_planted_fault_is_named(fault: dict[str, Any], names: set[str]) -> None:
    found = bisect(Network().build(), Network(**fault).build(), [X], backend="numpy")
    assert found.first is not None
    assert found.first.op.name in names
    assert not found.equal or "dropped" in fault
    after = {error.op.name for error in found.errors if error.is_made} - names
    assert after <= {"full"}, "what only inherits the error is not blamed"


@pytest.mark.parametrize(("fault", "names"), FAULTS[:7], ids=lambda x: str(x)[:40])
def test_models_of_two_namespaces(fault: dict[str, Any], names: set[str]) -> None:
    reference = amanda.convert(Network().build(), "amanda/std/1")
    for op in reference:
        op.name = None
    found = bisect(reference, Network(**fault).build(), [X], backend="numpy")
    assert found.first is not None
    assert names & {found.first.op.name, *found.first.sources}


@pytest.mark.parametrize("memory", [1 << 20, 4000])
def test_windows_give_the_same(memory: int) -> None:
    fault = Network(norm={"epsilon": 1e-3}).build()
    found = bisect(Network().build(), fault, [X], backend="numpy", max_memory=memory)
    assert found.first is not None
    assert found.first.op.name == "norm"
    assert found.first.total == found.first.made
    last = found.errors[-1]
    assert not last.is_made
    assert not last.total.equal


def test_a_model_against_itself_on_two_backends() -> None:
    pytest.importorskip("amanda_onnxruntime")
    graph = Network().build()
    found = bisect(graph, graph, [X], backend="numpy", other_backend="onnxruntime")
    assert found.first is None
    assert found.equal
    assert not found.unmatched
    assert not found.unmatched_of_reference
    assert [error.op.name for error in found.errors][:2] == ["conv", "norm"]


def conditional(fault: Callable[[Any], Any]) -> amanda.Graph:
    """A loop whose body has a conditional; the fault is in one of its branches."""
    from amanda_std import ops

    graph = amanda.Graph("amanda/std/1")
    x = graph.parameter("float32[3]", "x")

    def body(i: Any, running: Any, now: Any) -> Any:
        high = ops.greater(ops.sum(now), np.float32(2))
        then = lambda: ops.subtract(now, np.float32(1))  # noqa: E731
        other = lambda: fault(now)  # noqa: E731
        return running, ops.tanh(ops.if_(high, then, other)[0])

    trips, yes = np.asarray(6, "int64"), np.asarray(True)
    (y,) = ops.loop(trips, yes, body, x)
    graph.result(y, "y")
    return graph


def test_bodies_of_loops_and_conditionals() -> None:
    from amanda_std import ops

    right = conditional(lambda now: ops.add(now, np.float32(0.5)))
    wrong = conditional(lambda now: ops.add(now, np.float32(0.75)))
    feeds = {"x": np.float32([1, 2, 3])}
    found = bisect(right, wrong, feeds, backend="numpy")
    assert found.first is not None
    assert found.first.op.type == "add"
    assert [label.split()[0] for label in found.first.inside] == ["loop", "if"]


def onnx_loop(path: Path, epsilon: float) -> amanda.Graph:
    """An ONNX model with a layer normalization in the body of its Loop."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("amanda_onnx")
    from planted_faults.loop import build_loop

    model = build_loop(8, 3)
    (loop,) = [node for node in model.graph.node if node.op_type == "Loop"]
    (norm,) = [
        node for node in loop.attribute[0].g.node
        if node.op_type == "LayerNormalization"
    ]  # fmt: skip
    (attribute,) = [each for each in norm.attribute if each.name == "epsilon"]
    attribute.f = epsilon
    onnx.save(model, path)
    return amanda.load(path)


LOOP_FEEDS = {
    "x": np.random.default_rng(0).normal(size=(3, 8, 8)).astype("float32"),
}


def test_body_of_an_onnx_loop(tmp_path: Path) -> None:
    right, wrong = (onnx_loop(tmp_path / f"{e}.onnx", e) for e in (1e-5, 0.3))
    assert right.namespace == wrong.namespace == ONNX
    first = bisect(right, wrong, LOOP_FEEDS, backend="numpy").first
    assert first is not None
    assert first.sources == ("node_normal",)
    assert first.inside == ("loop 'loop'",)


def test_body_of_an_onnx_loop_on_two_backends(tmp_path: Path) -> None:
    import planted  # registers the backends

    graph = onnx_loop(tmp_path / "loop.onnx", 1e-5)
    first = bisect(
        graph, graph, LOOP_FEEDS, backend="numpy", other_backend="wrong-tanh"
    ).first
    assert "wrong-tanh" in planted.FAULTS
    assert first is not None
    assert first.sources == ("node_after",)
    assert first.inside == ("loop 'loop'",)


def test_ops_are_matched_without_names() -> None:
    a, b = Network().build(), Network(weight="kernel").build()
    for op in b:
        op.name = None
    matching = match_graphs(a, b)
    assert not matching.unmatched_ops()
    assert not matching.unmatched_reference_ops()
    assert all(op.type == other.type for op, other in matching.ops.items())


def test_a_feed_is_missing() -> None:
    graph = Network().build()
    with pytest.raises(UsageError, match="the feeds are not those of the inputs"):
        bisect(graph, graph, {}, backend="numpy")


def test_what_it_reads_and_gives_is_in_the_report() -> None:
    found: Bisection = bisect(
        Network().build(), Network(soft={"axis": 2}).build(), [X], backend="numpy"
    )
    first = found.first
    assert first is not None
    assert first.values is not None
    (gate,) = first.values.inputs.values()
    (made,) = first.values.made.values()
    exponent = np.exp(gate - gate.max(2, keepdims=True))
    np.testing.assert_allclose(made, exponent / exponent.sum(2, keepdims=True), 1e-5)


def long_lived(count: int, size: int, step: float) -> amanda.Graph:
    """A chain of values all of which the last op reads."""
    from amanda_std import ops

    graph = amanda.Graph("amanda/std/1")
    x = graph.parameter(f"float32[{size}]", "x")
    values = [ops.tanh(x)]
    for i in range(1, count):
        values.append(ops.add(values[-1], np.float32(step if i == count // 2 else 0.5)))
    total = values[0]
    for value in values[1:]:
        total = ops.add(total, value)
    graph.result(total, "y")
    return graph


def test_memory_is_bounded() -> None:
    import tracemalloc

    size, count = 1 << 15, 96  # values of 128 KiB, 24 MiB in all, of each run
    x = np.linspace(-1, 1, size, dtype="float32")
    graphs = [long_lived(count, size, step) for step in (0.5, 0.75)]
    bisect(*graphs, [x], backend="numpy")  # what it imports is no value
    peaks = []
    for memory in (4 << 20, 256 << 20):
        tracemalloc.start()
        found = bisect(*graphs, [x], backend="numpy", max_memory=memory)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert found.first is not None
        assert found.first.op.index == list(graphs[1]).index(found.first.op)
        assert [error.is_made for error in found.errors].count(True) == 1
    assert peaks[0] < 8 << 20  # with what the kernels and the comparison need
    assert peaks[1] > 12 << 20  # those that are read at the end


def test_functions_that_no_result_needs_are_not_run() -> None:
    """As the functions of SavedModels that save and restore variables."""
    pytest.importorskip("amanda_tf")
    graph = amanda.Graph("amanda/tensorflow/2.21.0")
    saver = amanda.Graph(graph.namespace)
    name = saver.parameter("string[]", "name")
    saver.result(saver.add("ReadFile", [name]).output, "content")
    graph.add_function("saver", saver)
    file = graph.parameter("string[]", "file")
    string = amanda.types.string
    call = {"f": amanda.FunctionRef("saver"), "Tin": [string], "Tout": [string]}
    graph.add("StatefulPartitionedCall", [file], call, name="save")
    model = amanda.Graph(graph.namespace)
    x = model.parameter("float32[3]", "x")
    model.result(model.add("Relu", [x], {"T": amanda.types.float32}).output, "y")
    graph.add_function("model", model)
    floats = [amanda.types.float32]
    call = {"f": amanda.FunctionRef("model"), "Tin": floats, "Tout": floats}
    x = graph.parameter("float32[3]", "x")
    graph.result(graph.add("StatefulPartitionedCall", [x], call).output, "y")
    feeds = {"x": np.float32([-1, 0, 2]), "file": np.array(b"model")}
    found = bisect(graph, graph, feeds, backend="numpy", other_backend="numpy")
    assert found.equal
