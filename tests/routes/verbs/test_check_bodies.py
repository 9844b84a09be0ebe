"""`amanda check` finds each kind of thing in nested bodies, and says in which.

A model has a loop in a branch of a conditional; what is planted is in the loop.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from routes.verbs.verb_goldens import call, host_in_calls

import amanda
from amanda.graph import Graph, OutputPort
from amanda_std.runtime.numpy_backend import NumpyBackend

ONNX = "amanda/onnx/18"
LOOP = "in body 'body' of Loop 'repeat', in body 'then_branch' of If 'choice'"
LOOP_IN_HUB = "in body 'body' of loop 'repeat', in body 'then' of if 'choice'"
Inner = Callable[[Graph, OutputPort], OutputPort]


def nested(inner: Inner, dtype: str = "float32", namespace: str = ONNX) -> Graph:
    """A conditional with a loop in one branch; `inner` computes a step of the loop."""
    graph = Graph(namespace, "nested")
    kind = amanda.parse_type(f"{dtype}[2, 3]")
    x, flag = graph.parameter(kind, "x"), graph.parameter("bool[]", "flag")
    branches = {"then_branch": Graph(outer=graph), "else_branch": Graph(outer=graph)}
    then, other = branches.values()
    body = Graph(outer=then)
    body.parameter("int64[]", "i")
    running, now = body.parameter("bool[]", "running"), body.parameter(kind, "now")
    body.result(body.add("Identity", [running], name="still").output)
    body.result(inner(body, now))
    trips = then.constant(np.int64(2), "trips").output
    loop = then.add("Loop", [trips, None, x], bodies={"body": body}, name="repeat")
    then.result(loop.output)
    other.result(other.add("Identity", [x], name="same").output)
    choice = graph.add("If", [flag], bodies=branches, name="choice")
    choice.output.type = kind
    graph.result(choice.output, "y")
    return graph


def op(kind: str, attrs: dict[str, Any] | None = None, count: int = 1) -> Inner:
    """One op, which reads what the loop carries."""
    return lambda body, now: body.add(kind, [now] * count, attrs, name="planted").output


def check(graph: Graph, goal: str, folder: Path, **external: Any) -> tuple[int, Any]:
    """The exit code and the JSON of `amanda check`."""
    file = folder / ("model.onnx" if external else "model.ampb")
    if not file.exists():
        amanda.save(graph, file, **external)
    ended = call(f"amanda check {file} {goal} --json")
    return ended.code, json.loads(ended.out)


@pytest.fixture(autouse=True)
def host() -> Any:
    """A host with a backend that lacks `exp`, and one that lacks loops."""

    class Without(NumpyBackend):
        def __init__(self, name: str, kind: str) -> None:
            self.name, self.kind = name, kind

        def takes(self, op: Any) -> Any:
            return "too hard" if op.type == self.kind else super().takes(op)

    with host_in_calls() as made:
        made.register_backend("without-exp", Without("without-exp", "exp"))
        made.register_backend("without-loop", Without("without-loop", "loop"))
        yield made


def test_a_model_without_findings(tmp_path: Path) -> None:
    code, found = check(nested(op("Exp")), "--for numpy", tmp_path)
    assert code == 0
    kinds = ("gaps", "refusals", "sizes", "precision", "losses", "faults")
    assert not any(found[kind] for kind in (*kinds, "missing_files", "unplaced"))


def test_gap(tmp_path: Path) -> None:
    code, found = check(nested(op("Planted")), "--to tensorflow", tmp_path)
    assert code == 1
    assert [(gap["op"], gap["where"]) for gap in found["gaps"]] == [
        ("Planted", "op 'planted' in the body 'body' of 'repeat' in the body "
                    "'then_branch' of 'choice'"),
    ]  # fmt: skip


def test_refusal(tmp_path: Path) -> None:
    code, found = check(nested(op("Exp")), "--for without-exp", tmp_path)
    assert code == 1
    (refusal,) = found["refusals"]
    assert (refusal["label"], refusal["location"]) == ("exp 'planted'", LOOP_IN_HUB)
    assert refusal["why"] == "too hard"


def test_fallback(tmp_path: Path) -> None:
    """An op with bodies moves as a whole."""
    graph = nested(op("Exp"))
    code, found = check(graph, "--for without-exp --fallback numpy", tmp_path)
    assert code == 0
    assert [piece["backend"] for piece in found["pieces"]] == ["numpy"]
    assert found["pieces"][0]["types"] == "if"
    assert any("exp 'planted'" in why for why in found["pieces"][0]["why"])
    fallback = "--for without-exp --fallback without-loop"
    code, found = check(graph, fallback, tmp_path)
    assert code == 1
    assert any("exp 'planted'" in row["why"] for row in found["unplaced"])


def test_faults(tmp_path: Path) -> None:
    graph = nested(op("Exp", {"slope": 1.0}))
    _, found = check(graph, "--to tensorflow", tmp_path)
    assert [(row["kind"], row["op"], row["place"]) for row in found["faults"]] == [
        ("unknown attribute", "Exp 'planted'", LOOP)
    ]


def test_faults_in_functions(tmp_path: Path) -> None:
    inner = Graph(ONNX, "inner")
    x = inner.parameter("float32[2]", "x")
    inner.result(inner.add("Exp", [x], {"slope": 1.0}, name="planted").output)
    graph = nested(op("Exp"))
    graph.add_function("inner", inner)
    _, found = check(graph, "--to tensorflow", tmp_path)
    assert [(row["op"], row["place"]) for row in found["faults"]] == [
        ("Exp 'planted'", "in function 'inner'")
    ]


def test_sizes_that_data_decides(tmp_path: Path) -> None:
    def inner(body: Graph, now: OutputPort) -> OutputPort:
        places = body.add("NonZero", [now], name="planted").output
        floats = body.add("Cast", [places], {"to": 1}).output
        total = body.add("ReduceSum", [floats], {"keepdims": 0}).output
        return body.add("Mul", [now, total]).output

    code, found = check(nested(inner), "--for jax", tmp_path)
    assert code == 0
    assert [(row["kind"], row["what"]) for row in found["sizes"]] == [
        ("result", f"nonzero 'planted', {LOOP_IN_HUB}")
    ]


def test_precision_of_a_backend(tmp_path: Path) -> None:
    code, found = check(nested(op("Exp"), "float16"), "--for numpy", tmp_path)
    assert code == 0
    assert {row["dtype"] for row in found["precision"]} == {"float16"}
    places = [row["where"] for row in found["precision"]]
    assert f"1 op, {LOOP_IN_HUB}" in places
    assert "1 op, in body 'then' of if 'choice'" in places
    assert "1 op" in places  # the conditional itself


def complex_branches() -> Graph:
    """Conditionals in each other, whose branches square a complex number."""
    graph = Graph("amanda/std/1", "complex")
    kind = amanda.parse_type("complex64[3]")
    x, flag = graph.parameter(kind, "x"), graph.parameter("bool[]", "flag")

    def conditional(into: Graph, name: str, depth: int) -> OutputPort:
        bodies = {key: Graph(outer=into) for key in ("then", "otherwise")}
        for key, body in bodies.items():
            if depth and key == "then":
                body.result(conditional(body, "inner", 0))
            else:
                square = body.add("multiply", [x, x], name=f"{name} {key}")
                square.output.type = kind
                body.result(square.output)
        made = into.add("if", [flag], bodies=bodies, name=name)
        made.output.type = kind
        return made.output

    real = graph.add("real", [conditional(graph, "outer", 1)], name="real")
    real.output.type = amanda.parse_type("float32[3]")
    graph.result(real.output, "y")
    return graph


def test_precision_that_a_conversion_changes(tmp_path: Path) -> None:
    code, found = check(complex_branches(), "--to onnx@18", tmp_path)
    assert code == 0
    rows = [row for row in found["precision"] if "input" not in row["where"]]
    assert {(row["dtype"], row["computed_in"]) for row in rows} == {
        ("complex64", "float32")
    }
    inner = "of if 'inner', in body 'then' of if 'outer'"
    assert sorted(row["where"] for row in rows) == sorted([
        "if 'outer'",
        "if 'inner', in body 'then' of if 'outer'",
        f"multiply 'inner then', in body 'then' {inner}",
        f"multiply 'inner otherwise', in body 'otherwise' {inner}",
        "multiply 'outer otherwise', in body 'otherwise' of if 'outer'",
    ])  # fmt: skip
    ended = call(f"amanda check {tmp_path / 'model.ampb'} --to onnx@18")
    assert "element types that change" in ended.out
    assert f"multiply 'inner then', in body 'then' {inner}" in ended.out
    code, found = check(complex_branches(), "--to tensorflow", tmp_path)
    assert (code, found["precision"]) == (0, [])  # it has complex numbers


def test_precision_where_types_are_inferred(tmp_path: Path) -> None:
    """Files of TensorFlow have no types of values."""
    graph = amanda.convert(complex_branches(), "tensorflow")
    for each in graph.walk():
        for port in each.outputs:
            port.type = None
    code, found = check(graph, "--to onnx@18", tmp_path)
    assert code == 0
    rows = [row for row in found["precision"] if "input" not in row["where"]]
    assert {(row["dtype"], row["computed_in"]) for row in rows} == {
        ("complex64", "float32")
    }
    squares = [row["where"] for row in rows if row["where"].startswith("Mul '")]
    assert sorted(each.split("'")[1] for each in squares) == [
        "inner otherwise", "inner then", "outer otherwise",
    ]  # fmt: skip


def test_losses(tmp_path: Path) -> None:
    rules = tmp_path / "own.yaml"
    rules.write_text(
        "source: amanda/onnx\ntarget: amanda/std\ntags: [mine]\nrules: |\n"
        '  Celu(x, alpha=_)  =>  relu(x)  losing "the curve"\n',
        encoding="utf-8",
    )
    graph = nested(op("Celu", {"alpha": 2.0}))
    code, found = check(graph, f"--for numpy --rules {rules}", tmp_path)
    assert code == 0
    (loss,) = found["losses"]
    assert loss["kind"] == "loss"
    assert loss["what"] == (
        "Celu, op 'planted' in the body 'body' of 'repeat' in the body 'then_branch' "
        "of 'choice': the curve"
    )
    assert check(graph, "--for numpy", tmp_path)[1]["losses"] == []


def test_missing_files(tmp_path: Path) -> None:
    def inner(body: Graph, now: OutputPort) -> OutputPort:
        weight = np.arange(6, dtype="float32").reshape(2, 3)
        stored = body.constant(weight, "planted").output
        return body.add("Add", [now, stored], name="sum").output

    graph = nested(inner)
    external = {"external": True, "threshold": 16}
    amanda.save(graph, tmp_path / "model.onnx", **external)
    (data,) = [path for path in tmp_path.iterdir() if path.name != "model.onnx"]
    assert check(graph, "--for numpy", tmp_path, **external)[0] == 0
    data.unlink()
    code, found = check(graph, "--for numpy", tmp_path, **external)
    assert code == 1
    assert [row["file"] for row in found["missing_files"]] == [data.name]


def test_memory(tmp_path: Path) -> None:
    """The peak is in the loop, where a value has 64 times the elements."""

    def inner(body: Graph, now: OutputPort) -> OutputPort:
        shape, first = (body.constant(np.int64(x)).output for x in ([64, 2, 3], [0]))
        wide = body.add("Expand", [now, shape], name="planted").output
        return body.add("ReduceSum", [wide, first], {"keepdims": 0}, name="sum").output

    _, found = check(nested(inner), "--for numpy", tmp_path)
    peak = next(row for row in found["memory"] if row["what"] == "values at once")
    assert peak["at"].endswith("'sum', in loop 'repeat', in if 'choice'")
    assert 64 * 6 * 4 < peak["bytes"] < 66 * 6 * 4 + 200
