"""Dim names that are documentation: ONNX inputs that share one may differ in size.

The oracle is the reference evaluator of onnx, which ignores names of dims, as
onnxruntime does."""

from __future__ import annotations

import gc
import json
import warnings
import weakref
from pathlib import Path
from typing import Any

import pytest

import amanda
from amanda.errors import AmandaWarning, UsageError
from amanda.graph import UNCHECKED_DIM_NAMES, Graph
from amanda.host import Host

np = pytest.importorskip("numpy")
onnx = pytest.importorskip("onnx")
pytest.importorskip("amanda_onnx")
pytest.importorskip("amanda_std")

BACKENDS = [
    name
    for name in ("numpy", "jax", "onnxruntime")
    if any(entry.name == name for entry in amanda.backends())
]
FRAME = ["batch", 3, "height", "width"]
STATE = ["batch", 2, "height", "width"]


def recurrent_model() -> Any:
    """A step of a recurrent video model, whose first state has size 1 everywhere."""
    make = onnx.helper.make_node
    info = onnx.helper.make_tensor_value_info
    float32 = onnx.TensorProto.FLOAT
    weights = {
        name: np.random.default_rng(i).standard_normal(shape).astype("f")
        for i, (name, shape) in enumerate(
            {"w": (4, 3, 3, 3), "v": (2, 4, 1, 1)}.items()
        )
    }
    nodes = [
        make("Conv", ["frame", "w"], ["a"], pads=[1, 1, 1, 1]),
        make("Split", ["a"], ["update", "new"], axis=1, num_outputs=2),
        make("Sigmoid", ["update"], ["z"]),
        make("Shape", ["new"], ["full"]),
        make("Expand", ["state", "full"], ["old"]),
        make("Sub", ["old", "new"], ["d"]),
        make("Mul", ["d", "z"], ["dz"]),
        make("Add", ["dz", "new"], ["next"]),
        make("Concat", ["old", "next"], ["both"], axis=1),
        make("Conv", ["both", "v"], ["out"]),
    ]
    graph = onnx.helper.make_graph(
        nodes,
        "step",
        [info("frame", float32, FRAME), info("state", float32, STATE)],
        [info("out", float32, STATE), info("next", float32, STATE)],
        [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()],
        value_info=[info("old", float32, STATE), info("z", float32, STATE)],
    )
    opsets = [onnx.helper.make_opsetid("", 18)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9)


MODEL = recurrent_model()
NUMBERS = np.random.default_rng(7)
FIRST = {
    "frame": NUMBERS.standard_normal((2, 3, 6, 5)).astype("f"),
    "state": NUMBERS.standard_normal((1, 2, 1, 1)).astype("f"),
}
LATER = {**FIRST, "state": NUMBERS.standard_normal((2, 2, 6, 5)).astype("f")}
WARNING = r"'state' is of shape \[1, 2, 1, 1\].* where batch is 2 by 'frame'"


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    onnx.save(MODEL, tmp_path / "m.onnx")
    return amanda.load(tmp_path / "m.onnx")


def expect_right(results: dict[str, Any], feeds: dict[str, Any]) -> None:
    from onnx.reference import ReferenceEvaluator

    wanted = ReferenceEvaluator(MODEL).run(None, feeds)
    for got, value in zip(results.values(), wanted, strict=True):
        np.testing.assert_allclose(np.asarray(got), value, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("backend", BACKENDS)
class TestOnABackend:
    def test_sizes_may_differ(self, graph: Graph, backend: str) -> None:
        with pytest.warns(AmandaWarning, match=WARNING):
            results = amanda.run(graph, FIRST, backend=backend)
        expect_right(results, FIRST)

    def test_equal_sizes_give_no_warning(self, graph: Graph, backend: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            expect_right(amanda.run(graph, LATER, backend=backend), LATER)

    def test_an_executable_warns_once(self, graph: Graph, backend: str) -> None:
        compiled = amanda.compile(graph, backend)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            expect_right(compiled(FIRST), FIRST)
            expect_right(compiled(LATER), LATER)
            expect_right(compiled([*FIRST.values()]), FIRST)
            expect_right(compiled(LATER), LATER)
        assert [w.filename for w in caught] == [__file__]

    def test_a_value_by_handle(self, graph: Graph, backend: str) -> None:
        old = next(v for op in graph for v in op.outputs if v.name == "old")
        compiled = amanda.compile(graph, backend)
        with pytest.warns(AmandaWarning):
            compiled(FIRST)
        with pytest.warns(AmandaWarning):  # by the executable of this value
            value = compiled[old]
        wanted = np.broadcast_to(FIRST["state"], (2, 2, 6, 5))
        np.testing.assert_array_equal(value, wanted)

    def test_the_graph_need_not_live(self, graph: Graph, backend: str) -> None:
        twin = graph.clone()
        compiled, reference = amanda.compile(twin, backend), weakref.ref(twin)
        del twin
        gc.collect()
        assert reference() is None
        with pytest.warns(AmandaWarning):
            expect_right(compiled(FIRST), FIRST)

    def test_a_session(self, graph: Graph, backend: str) -> None:
        session = amanda.Session(graph, backend)
        expect_right(session.run(None, LATER), LATER)
        with pytest.warns(AmandaWarning, match=WARNING):
            results = session.run(None, {"state": FIRST["state"]})
        expect_right(results, FIRST)
        expect_right(session.run(None, {"state": LATER["state"]}), LATER)
        assert [op.type for op, _ in session.steps(None, FIRST)][-1] in ("conv", "Conv")

    def test_strict_on_request(self, graph: Graph, backend: str) -> None:
        with pytest.raises(UsageError, match="where batch is 2 by 'frame'"):
            amanda.run(graph, FIRST, backend=backend, strict_shapes=True)
        session = amanda.Session(graph, backend, strict_shapes=True)
        with pytest.raises(UsageError, match="where batch is 2 by 'frame'"):
            session.run(None, FIRST)

    def test_a_converted_graph(
        self, graph: Graph, backend: str, tmp_path: Path
    ) -> None:
        amanda.save(amanda.convert(graph, "std"), tmp_path / "m.yaml")
        converted = amanda.load(tmp_path / "m.yaml")
        for each in (converted, amanda.convert(converted, "onnx@18")):
            with pytest.warns(AmandaWarning, match="documentation"):
                expect_right(amanda.run(each, FIRST, backend=backend), FIRST)

    def test_graphs_built_by_hand_are_strict(self, graph: Graph, backend: str) -> None:
        del graph
        built = Graph("amanda/std/1")
        x, y = built.parameter("float32[n, 3]", "x"), built.parameter("float32[n]", "y")
        built.result(built.add("tanh", [x]).output, "t")
        built.result(y, "y")
        feeds = [np.ones((2, 3), "f"), np.ones(1, "f")]
        with pytest.raises(UsageError, match="where n is 2 by 'x'"):
            amanda.run(built, feeds, backend=backend)


def test_only_names_are_documentation(graph: Graph) -> None:
    """Ranks, dtypes and known sizes are checked as before."""
    for state in (
        np.ones((1, 2, 1), "f"),
        np.ones((1, 2, 1, 1)),
        np.ones((1, 3, 1, 1), "f"),
    ):
        with pytest.raises(UsageError, match="'state' is"):
            amanda.run(graph, {**FIRST, "state": state}, backend="numpy")


def test_the_second_executable_is_compiled_once(graph: Graph) -> None:
    made: list[str] = []
    host = Host()
    host.register_hook(
        "after_compile", lambda graph: made.append(str(graph.parameters[1].type))
    )
    compiled = amanda.compile(graph, "numpy", host=host)
    assert made == ["float32[batch, 2, height, width]"]
    with pytest.warns(AmandaWarning):
        compiled(FIRST)
    compiled(LATER)
    compiled(FIRST)
    assert made[1:] == ["float32[batch_2, 2, height_2, width_2]"]


def test_the_graph_says_that_names_are_documentation(graph: Graph) -> None:
    assert graph.attrs[UNCHECKED_DIM_NAMES] is True
    del graph.attrs[UNCHECKED_DIM_NAMES]
    with pytest.raises(UsageError, match="where batch is 2"):
        amanda.run(graph, FIRST, backend="numpy")


def test_one_input_may_name_two_dims_alike(tmp_path: Path) -> None:
    info = onnx.helper.make_tensor_value_info
    node = onnx.helper.make_node("Transpose", ["x"], ["y"])
    sides = [info(name, onnx.TensorProto.FLOAT, ["n", "n"]) for name in "xy"]
    made = onnx.helper.make_graph([node], "g", sides[:1], sides[1:])
    onnx.save(onnx.helper.make_model(made, ir_version=9), tmp_path / "t.onnx")
    x = np.arange(6, dtype="f").reshape(2, 3)
    for backend in BACKENDS:
        with pytest.warns(AmandaWarning, match="where n is 2 by 'x'"):
            y = amanda.run(amanda.load(tmp_path / "t.onnx"), [x], backend=backend)["y"]
        np.testing.assert_array_equal(y, x.T)


def test_expressions_are_checked() -> None:
    graph = Graph("amanda/std/1")
    for name, text in (("a", "float32[past+1]"), ("b", "float32[past]")):
        graph.result(graph.parameter(text, name), name)
    run = amanda.compile(graph, "numpy")
    run([np.ones(4, "f"), np.ones(3, "f")])
    with pytest.raises(UsageError, match=r"not \[past\+1\] where past is 3 by 'b'"):
        run([np.ones(5, "f"), np.ones(3, "f")])


def test_the_command_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from amanda.cli import run_command_line

    onnx.save(MODEL, tmp_path / "m.onnx")
    np.savez(tmp_path / "feeds.npz", **FIRST)
    told = ["run", str(tmp_path / "m.onnx"), "--feed", str(tmp_path / "feeds.npz")]
    told += ["--backend", "numpy", "--json"]
    with pytest.warns(AmandaWarning, match="documentation"):
        assert run_command_line(told) == 0
    results = json.loads(capfd.readouterr().out)["results"]
    assert results["next"]["type"] == "float32[2, 2, 6, 5]"
    assert run_command_line([*told, "--strict-shapes"]) == 2
    two = ["compare", *told[1:], "--backend", "numpy", "--strict-shapes"]
    assert run_command_line(two) == 2
    assert "where batch is 2 by 'frame'" in "".join(capfd.readouterr())
