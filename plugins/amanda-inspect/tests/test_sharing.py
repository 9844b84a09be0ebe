"""How often a bisection compiles, and how often it runs each op."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import amanda
from amanda_inspect import bisect, match_graphs
from amanda_inspect.sharing import Sharing, is_same_computation
from amanda_std import ops

HUB = "amanda/std/1"
X = np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4)


class Runs:
    """Steps that run, by op type, and graphs that are compiled."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from amanda_inspect import windows
        from amanda_std.runtime import step_runner

        self.steps: Counter[str] = Counter()
        self.compiled = 0
        run_steps, compile_graph = step_runner.run_steps, amanda.compile

        def run_counted(steps: Sequence[Any], values: list[Any], **given: Any) -> None:
            run_steps(self.count(steps), values, **given)  # type: ignore[arg-type]

        def compile_counted(*args: Any, **given: Any) -> Any:
            self.compiled += 1
            return compile_graph(*args, **given)

        monkeypatch.setattr(step_runner, "run_steps", run_counted)
        monkeypatch.setattr(windows.amanda, "compile", compile_counted)

    def count(self, steps: Sequence[Any]) -> Iterator[Any]:
        for step in steps:
            self.steps[step.label.split()[0]] += 1
            yield step


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    return Runs(monkeypatch)


def chain(first: float = 1e-5, second: float = 1e-5) -> amanda.Graph:
    """Two normalizations with ops of other types before, between and after them."""
    graph = amanda.Graph(HUB)
    y: Any = ops.tanh(graph.parameter("float32[3, 4]", "x"))
    y = ops.exp(ops.layer_norm(y, epsilon=first))
    y = ops.sin(ops.layer_norm(y, epsilon=second))
    graph.result(y, "y")
    return graph


def test_two_equal_models_run_once(runs: Runs) -> None:
    found = bisect(chain(), chain(), {"x": X}, backend="numpy")
    assert found.first is None
    assert found.equal
    assert len(found.errors) == 5
    assert runs.steps == {"tanh": 1, "layer_norm": 2, "exp": 1, "sin": 1}
    assert runs.compiled == 1


def test_what_a_fault_changes_runs_in_both_models(runs: Runs) -> None:
    """The ops after it equal those of the reference, so they need not run on its
    values. One run decides whether the error vanishes in what reads it."""
    found = bisect(chain(), chain(first=0.5), {"x": X}, backend="numpy")
    assert found.first is not None
    assert found.first.op.type == "layer_norm"
    assert [error.is_made for error in found.errors] == [
        False,
        True,
        False,
        False,
        False,
    ]
    assert [error.total.max_abs == 0 for error in found.errors] == [True, *[False] * 4]
    assert runs.steps == {"tanh": 1, "layer_norm": 4, "exp": 2 + 1, "sin": 2}
    assert runs.compiled == 2 + 1


def test_an_op_that_differs_after_a_fault_runs_a_third_time(runs: Runs) -> None:
    wrong = chain(first=0.5, second=0.25)
    found = bisect(chain(), wrong, {"x": X}, backend="numpy")
    made = [error.op for error in found.errors if error.is_made]
    assert made == [op for op in wrong if op.type == "layer_norm"]
    assert runs.steps == {"tanh": 1, "layer_norm": 5, "exp": 2 + 1, "sin": 2 + 1}
    assert runs.compiled == 3 + 2


def test_two_backends_share_nothing(runs: Runs) -> None:
    graph = chain()
    given = {"backend": "numpy", "other_options": {"profile": True}}
    found = bisect(graph, graph, {"x": X}, other_backend="numpy", **given)
    assert found.first is None
    assert runs.steps == {"tanh": 3, "layer_norm": 6, "exp": 3, "sin": 3}


def rotation(trips: int, shift: float, since: int = 0) -> amanda.Graph:
    """A loop that adds a shift from one of its iterations on."""
    graph = amanda.Graph(HUB)
    x = graph.parameter("float32[3, 4]", "x")

    def body(i: Any, running: Any, now: Any) -> Any:
        is_late = ops.greater_equal(i, np.int64(since))
        late = ops.where(is_late, np.float32(shift), np.float32(0))
        return running, ops.sin(ops.add(now, late))

    count, yes = np.asarray(trips, "int64"), np.asarray(True)
    (y,) = ops.loop(count, yes, body, x)
    graph.result(y, "y")
    return graph


@pytest.mark.parametrize(
    ("since", "recorded", "searched"),
    [(0, 0, 1), (2, 3, 3), (5, 3 + 15, 6)],
    ids=["first", "third", "sixth"],
)
def test_a_loop_runs_no_further_than_its_error(
    since: int, recorded: int, searched: int, runs: Runs
) -> None:
    """Both models run its 32 iterations once. What calls read is recorded in the
    reference, up to the start of the first, the 4th, or the 16th call; the body runs in
    it up to the error. That of the other model runs only what differs: no sine.
    """
    graphs = [rotation(32, shift, since) for shift in (0.5, 0.75)]
    found = bisect(*graphs, {"x": X}, backend="numpy")
    assert found.first is not None
    assert found.first.op.type in ("where", "add")
    assert runs.steps["sin"] == 2 * 32 + recorded + searched
    assert runs.steps["loop"] == 2 + (2 if since == 0 else 3 if since < 4 else 4)
    assert runs.compiled == 2 + 2 * searched + 1


def test_bodies_are_compared() -> None:
    graphs = [rotation(4, shift) for shift in (0.5, 0.5, 0.75)]
    for other, is_same in ((graphs[1], True), (graphs[2], False)):
        matching = match_graphs(graphs[0], other)
        (loop,) = [op for op in other if op.type == "loop"]
        sharing = Sharing(matching, has_one_backend=True)
        sharing.add_inputs(other.parameters)
        sharing.add([op for op in other if not op.is_constant])
        assert (loop in sharing.same_ops) == is_same
        assert (loop.outputs[0] in sharing.values) == is_same


def scaled(weight: Any, **attrs: Any) -> amanda.Graph:
    graph = amanda.Graph(HUB)
    x = graph.parameter("float32[2, 2]", "x")
    read = graph.constant(np.asarray(weight, "float32")).output
    product = graph.add("multiply", [x, read]).output
    graph.result(graph.add("sum", [product], attrs).output)
    return graph


@pytest.mark.parametrize(
    ("weight", "attrs", "same"),
    [
        ([0.0, 1.0], {"axes": [0]}, ["multiply", "sum"]),
        ([0.0, 1.0], {"axes": (0,)}, ["multiply", "sum"]),
        ([0.0, 1.0], {"axes": [1]}, ["multiply"]),
        ([0.0, 2.0], {"axes": [0]}, ["sum"]),
        ([-0.0, 1.0], {"axes": [0]}, ["sum"]),
    ],
    ids=["equal", "a tuple", "another axis", "another weight", "another zero"],
)
def test_what_makes_ops_the_same(
    weight: list[float], attrs: dict[str, Any], same: list[str]
) -> None:
    a, b = scaled([0.0, 1.0], axes=[0]), scaled(weight, **attrs)
    matching = match_graphs(a, b)
    found = [
        op.type
        for op, other in matching.ops.items()
        if not op.is_constant
        and is_same_computation(op, other, matching.values, matching.equal_constants)
    ]
    assert sorted(found) == same


@pytest.mark.parametrize("size", [3, 100_000])
def test_constants_are_the_same_by_their_bytes(size: int) -> None:
    arrays = [np.full(size, np.nan, "float32") for _ in range(4)]
    arrays[2][-1] = 0.0
    arrays[3] = arrays[3].view("int32")
    graph = amanda.Graph(HUB)
    first, *others = (graph.constant(array) for array in arrays)
    matching = match_graphs(graph, graph)
    equal = [matching.equal_constants(first, other) for other in others]
    assert equal == [True, False, False]


def test_versions_of_a_dictionary_share_nothing() -> None:
    a, b = (amanda.Graph(f"amanda/onnx/{version}") for version in (18, 17))
    for graph in (a, b):
        x = graph.parameter("float32[3]", "x")
        graph.result(graph.add("Relu", [x]).output)
    sharing = Sharing(match_graphs(a, b), has_one_backend=True)
    sharing.add_inputs(b.parameters)
    sharing.add(list(b))
    assert not sharing.same_ops
    assert not sharing.values
