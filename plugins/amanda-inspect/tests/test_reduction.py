"""Planted failures: each is reduced to a few ops, which fail in the same way."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import networks
import numpy as np
import planted
import pytest

import amanda
from amanda.errors import AmandaError
from amanda_inspect.reduction import (
    ConversionTest,
    Failure,
    IsolatedTest,
    Reduction,
    RunTest,
    ScriptTest,
    find_failing_op,
    reduce,
)
from amanda_inspect.reduction.models import count_ops
from amanda_inspect.windows import Backend
from amanda_std import ops

NUMPY = Backend("numpy", {})
PRELOAD = Path(planted.__file__)
MAX_OPS = 5

bert = partial(networks.transformer, 12, causal=False)
gpt = partial(networks.transformer, 12, causal=True)
resnet = networks.residual


def tanh_of_exp() -> amanda.Graph:
    """Ops before and after two of which a backend needs both to fail."""
    graph = networks.transformer(2, causal=False)
    x = graph.results[0]
    assert x is not None
    y = ops.tanh(ops.exp(ops.sin(x)))
    graph.result_ports[0].connect(ops.cos(ops.multiply(y, y)))
    return graph


def nested(types: str) -> Callable[[], amanda.Graph]:
    """A loop with a conditional that has an op of one type."""
    return lambda: networks.with_bodies(getattr(ops, types))


class Case(NamedTuple):
    """A network in a namespace, with the backend that fails and how."""

    network: Callable[[], amanda.Graph]
    namespace: str
    backend: str
    kind: str
    at_least: int = 100
    """Ops of the network."""


RUNS = [
    Case(bert, "std", "wrong-softmax", "difference"),
    Case(bert, "onnx@18", "wrong-norm", "difference"),
    Case(gpt, "torch", "wrong-gelu", "difference"),
    Case(resnet, "tensorflow", "wrong-pool", "difference"),
    Case(gpt, "onnx@18", "wrong-product", "difference"),
    Case(resnet, "onnx@18", "raise-conv", "error"),
    Case(bert, "tensorflow", "raise-gather", "error"),
    Case(bert, "torch", "compile-softmax", "error"),
    Case(resnet, "onnx@13", "unsupported-pool", "error"),
    Case(tanh_of_exp, "std", "compile-tanh-exp", "error", 60),
    Case(tanh_of_exp, "onnx@18", "compile-tanh-exp", "error", 60),
]
APART = [  # loops may become endless in a search, and these crash
    Case(nested("tanh"), "std", "wrong-tanh", "difference", 10),
    Case(nested("tanh"), "onnx@18", "wrong-tanh", "difference", 10),
    Case(nested("relu"), "tensorflow", "raise-relu", "error", 10),
    Case(nested("relu"), "torch", "raise-relu", "error", 10),
    Case(networks.growing, "std", "wrong-large-tanh", "difference", 5),
    Case(networks.growing, "onnx@18", "wrong-large-tanh", "difference", 5),
    Case(nested("tanh"), "std", "raise-loop", "error", 10),
    Case(resnet, "onnx@18", "abort-norm", "crash"),
    Case(gpt, "std", "segfault-softmax", "crash"),
    Case(nested("tanh"), "onnx@18", "segfault-tanh", "crash", 10),
    Case(nested("relu"), "std", "hang-relu", "time limit", 10),
]


def build(case: Case) -> tuple[amanda.Graph, dict[str, Any]]:
    graph = case.network()
    feeds = networks.feeds_of(graph)
    if case.namespace != "std":
        graph = amanda.convert(graph, case.namespace)
    assert count_ops(graph) >= case.at_least
    return graph, feeds


def expect_reduced(found: Reduction, case: Case, graph: amanda.Graph) -> None:
    """It is small, of the same namespace, and has the planted fault."""
    assert found.is_complete
    assert found.ops <= MAX_OPS, [op.type for op in found.graph.walk()]
    assert found.failure.is_like(found.original)
    assert found.failure.kind == case.kind
    assert found.graph.namespace == graph.namespace
    backend = amanda.default_host().get("backends", case.backend)
    hub = amanda.convert(found.graph, "std")
    assert [op for op in hub.walk() if op.type in backend.types]
    assert found.drawn == 0


@pytest.mark.most_cases(3)
@pytest.mark.parametrize("case", RUNS, ids=lambda c: f"{c.backend}-{c.namespace}")
def test_faults_of_backends(case: Case, tmp_path: Path) -> None:
    planted.register()
    graph, feeds = build(case)
    is_difference = case.kind == "difference"
    test = RunTest(Backend(case.backend, {}), NUMPY if is_difference else None)
    found = reduce(graph, feeds, test)
    expect_reduced(found, case, graph)
    suffix = ".onnx" if "onnx" in case.namespace else ".amanda"
    amanda.save(found.graph, tmp_path / f"model{suffix}")
    again = test(amanda.load(tmp_path / f"model{suffix}"), found.feeds)
    assert again is not None
    assert again.is_like(found.original)


@pytest.mark.most_cases(2)
@pytest.mark.parametrize("case", APART, ids=lambda c: f"{c.backend}-{c.namespace}")
def test_faults_apart(case: Case) -> None:
    graph, feeds = build(case)
    is_difference = case.kind == "difference"
    run = RunTest(Backend(case.backend, {}), NUMPY if is_difference else None)
    seconds = 2 if case.kind == "time limit" else 10
    with IsolatedTest(run, seconds=seconds, preload=[PRELOAD]) as test:
        found = reduce(graph, feeds, test)
        planted.register()
        expect_reduced(found, case, graph)
        whole = test(graph, feeds)
        again = test(found.graph, found.feeds)
    assert whole == found.original
    assert again is not None
    assert again.is_like(found.original)


def small(kind: str) -> tuple[amanda.Graph, dict[str, Any]]:
    graph = amanda.Graph("amanda/std/1")
    graph.result(getattr(ops, kind)(graph.parameter("float32[3]", "x")), "y")
    return graph, networks.feeds_of(graph)


@pytest.mark.skipif(
    not Path("/proc/self/task").is_dir(), reason="threads are not counted here"
)
@pytest.mark.parametrize(
    ("kind", "what"),
    [("segfault-tanh", "signal SIGABRT"), ("abort-norm", "exit code 77"),
     ("hang-relu", "no result")],
)  # fmt: skip
def test_what_ends_a_model_ends_a_copy_of_the_process(kind: str, what: str) -> None:
    """So there are no imports for the next model, and no process is left."""
    bad, good = small(planted.FAULTS[kind][1][0]), small("exp")
    run = RunTest(Backend(kind, {}), None)
    with IsolatedTest(run, seconds=2, preload=[PRELOAD]) as test:
        found = [test(*each) for each in (good, bad, good, bad)]
        (worker,) = test._workers
        assert worker.wait_until_ready()
        processes = [worker.process.pid, worker._model_process]
        assert len({*processes}) == 2
    assert [each and each.what for each in found] == [None, what, None, what]
    assert not any(Path(f"/proc/{each}/cmdline").exists() and
                   b"worker" in Path(f"/proc/{each}/cmdline").read_bytes()
                   for each in processes)  # fmt: skip


FUNCTIONS = """
<ir_version: 8, opset_import: ["" : 18, "my": 1]>
agraph (float[3,4] x) => (float[3,4] y) {
  a = Cos(x) b = my.block(a) c = my.block(b) y = Sin(c)
}
<domain: "my", opset_import: ["" : 18]>
block (u) => (w) { v = Exp(u) s = my.inner(v) w = Cos(s) }
<domain: "my", opset_import: ["" : 18]>
inner (u) => (w) { v = Abs(u) w = Tanh(v) }
"""


def test_functions_of_functions() -> None:
    parser = pytest.importorskip("onnx.parser")
    planted.register()
    graph = amanda.load(parser.parse_model(FUNCTIONS))
    test = RunTest(Backend("wrong-tanh", {}), NUMPY)
    found = reduce(graph, {"x": np.ones((3, 4), "float32")}, test)
    assert [op.type for op in found.graph.walk()] == ["Tanh"]
    assert not found.graph.functions


def with_unknown_op() -> amanda.Graph:
    """A network of ONNX with an op that no mapping knows."""
    graph: amanda.Graph = amanda.convert(bert(), "onnx@18")
    norm = [op for op in graph if op.type == "LayerNormalization"][9]
    (port,) = [port for port in norm.output.users if port.op.graph is graph][:1]
    assert port.edge is not None
    op = graph.insert(port.edge, "Wiggle")
    op.namespace = "amanda/onnx/com.example/1"
    graph.imports["com.example"] = 1
    return graph


def test_a_conversion() -> None:
    graph = with_unknown_op()
    found = reduce(graph, networks.feeds_of(graph), ConversionTest("std"))
    assert [op.type for op in found.graph] == ["Wiggle"]
    assert found.failure.is_like(found.original)
    assert found.drawn == 0
    with pytest.raises(AmandaError, match="Wiggle"):
        amanda.convert(found.graph, "std")


def test_a_command(tmp_path: Path) -> None:
    graph = amanda.convert(gpt(), "onnx@18")
    script = tmp_path / "fails.py"
    script.write_text(
        "import sys; sys.exit(b'Softmax' not in open(sys.argv[1], 'rb').read())"
    )
    test = ScriptTest(f"{sys.executable} {script} {{}}", ".onnx")
    found = reduce(graph, networks.feeds_of(graph), test)
    assert [op.type for op in found.graph if not op.is_constant] == ["Softmax"]
    assert test(found.graph, found.feeds) is not None


def test_a_model_that_differs_from_another() -> None:
    reference = bert()
    other = reference.clone()
    norms = [op for op in other if op.type == "layer_norm"]
    norms[7].attrs["epsilon"] = 0.5
    feeds = networks.feeds_of(reference)
    model, test = find_failing_op(other, reference, feeds, NUMPY)
    found = reduce(model.graph, model.feeds, test)
    assert [op.type for op in found.graph if not op.is_constant] == ["layer_norm"]
    failure = test(found.graph, found.feeds)
    assert failure is not None
    assert failure.kind == "difference"


def test_both_ops_of_a_fault_are_kept() -> None:
    planted.register()
    graph, feeds = build(RUNS[9])
    found = reduce(graph, feeds, RunTest(Backend("compile-tanh-exp", {})))
    assert [op.type for op in found.graph if not op.is_constant] == ["exp", "tanh"]


def test_the_search_is_deterministic() -> None:
    planted.register()
    graph, feeds = build(RUNS[0])
    test = RunTest(Backend("wrong-softmax", {}), NUMPY)
    found = [reduce(graph, feeds, test) for _ in range(2)]
    assert found[0].steps == found[1].steps
    assert found[0].graph.same_as(found[1].graph)


def test_sizes_are_kept_where_the_fault_needs_them() -> None:
    def fails(graph: amanda.Graph, feeds: Any) -> Failure | None:
        sizes = [x.shape for x in feeds.values()]
        return Failure("test", "wide") if any(5 in shape for shape in sizes) else None

    graph = amanda.Graph("amanda/std/1")
    x = graph.parameter("float32[5, 40]", "x")
    graph.result(ops.tanh(ops.relu(x)), "y")
    found = reduce(graph, {"x": np.ones((5, 40), "float32")}, fails)
    assert [array.shape for array in found.feeds.values()] == [(5, 1)]


def test_a_model_that_does_not_fail() -> None:
    graph = networks.transformer(1, causal=False)
    with pytest.raises(AmandaError, match="does not fail"):
        reduce(graph, networks.feeds_of(graph), RunTest(NUMPY))


def test_the_search_ends_in_time() -> None:
    planted.register()
    graph, feeds = build(RUNS[0])
    test = RunTest(Backend("wrong-softmax", {}), NUMPY)
    found = reduce(graph, feeds, test, seconds=0.0)
    assert not found.is_complete
    assert found.steps == []
    assert found.ops == count_ops(graph)
