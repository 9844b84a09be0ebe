"""Variables in ONNX: inputs and outputs, fed from one run to the next."""

from __future__ import annotations

import json

import numpy as np
import pytest

import amanda
from amanda.backend import State
from amanda.errors import ConversionError
from amanda.graph import state_ports
from amanda_std import ops

onnxruntime = pytest.importorskip("onnxruntime")
TYPES = ("float32[4, 3]", "float32[4]")


@amanda.function
def train(x, y):
    """A step of regression, with a counter that loops and branches write."""
    w = ops.variable(np.zeros(3, "float32"), key="w")
    n = ops.variable(np.zeros((), "int64"), key="n")
    error = x @ ops.read(w) - y
    ops.assign_subtract(w, 0.1 * (error @ x))
    ops.if_(
        ops.sum(error) < 0.0,
        lambda: ops.assign_add(n, np.int64(2)),
        lambda: ops.read(n),
    )

    def add(i, condition, total):
        ops.assign_add(n, np.int64(1))
        return condition, total + ops.astype(ops.read(n), dtype="float32")

    def grow(total):
        ops.assign_add(n, np.int64(3))
        return total * 2.0

    def count(total, row):
        before = ops.astype(ops.assign_add(n, np.int64(1)), dtype="float32")
        return total + before, row * before

    (looped,) = ops.loop(np.int64(3), np.asarray(True), add, ops.sum(error))
    (grown,) = ops.while_(lambda total: total < 10.0, grow, np.float32(1))
    total, rows = ops.scan(count, None, np.float32(0), x, carried=1)
    return looped, grown, total, rows


def steps(seed=0, count=4):
    random = np.random.default_rng(seed)
    for _ in range(count):
        yield [
            random.normal(size=(4, 3)).astype("float32"),
            random.normal(size=4).astype("float32"),
        ]


def expect_equal(found, wanted):
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "train.onnx"
    amanda.save(amanda.convert(train.graph(*TYPES), "onnx@20"), path)
    return path


def test_steps_of_onnxruntime_equal_those_of_numpy(saved):
    graph, model = train.graph(*TYPES), amanda.load(saved)
    reference = amanda.compile(graph, "numpy")
    others = [
        amanda.compile(graph, "onnxruntime"),
        amanda.compile(model, "onnxruntime"),
        amanda.compile(model, "numpy"),
    ]
    for feeds in steps():
        wanted = list(reference(feeds).values())
        for other in others:
            expect_equal(list(other(feeds).values()), wanted)
            assert sorted(other.state) == ["n", "w"]
            for key in ("w", "n"):
                expect_equal([other.state[key]], [reference.state[key]])


def test_the_file_is_run_without_amanda(saved):
    """Results are fed as inputs; the first run has the initializers."""
    session = onnxruntime.InferenceSession(saved)
    inputs = [each.name for each in session.get_inputs()]
    outputs = [each.name for each in session.get_outputs()]
    props = session.get_modelmeta().custom_metadata_map
    rows = json.loads(props["amanda.state"])
    assert rows == {
        "w": {"input": "w", "output": "w.next"},
        "n": {"input": "n", "output": "n.next"},
    }
    assert inputs == ["x", "y"]  # the others have a default
    reference, state = amanda.compile(train.graph(*TYPES), "numpy"), {}
    for x, y in steps():
        values = session.run(None, {"x": x, "y": y, **state})
        found = dict(zip(outputs, values, strict=True))
        state = {row["input"]: found.pop(row["output"]) for row in rows.values()}
        expect_equal(list(found.values()), list(reference([x, y]).values()))
    assert state["n"] == reference.state["n"]


def test_a_written_model_has_its_variables_again(saved):
    model = amanda.load(saved)
    assert [str(port) for port in state_ports(model)] == [
        "variable 'w': input 'w', result 'w.next'",
        "variable 'n': input 'n', result 'n.next'",
    ]
    hub = amanda.convert(model, "amanda/std/1")
    keys = [op.attrs["key"] for op in hub if op.type == "variable"]
    assert keys == ["w", "n"]
    assert [port.name for port in hub.parameters] == ["x", "y"]
    assert len(hub.outputs) == 4
    again = amanda.convert(hub, "onnx@20")
    assert len(again.parameters) == 4
    assert amanda.plan(model, "amanda/std/1").reports[0].losses == ()


def test_a_file_is_written_as_it_was_read(saved, tmp_path):
    again = tmp_path / "again.onnx"
    amanda.save(amanda.load(saved), again)
    assert amanda.load(again).digest() == amanda.load(saved).digest()
    assert [p.name for p in amanda.load(again).parameters] == ["x", "y", "w", "n"]


def test_the_report_lists_variables():
    (report,) = amanda.plan(train.graph(*TYPES), "onnx@20").reports
    assert [str(port) for port in report.state_ports] == [
        "variable 'w': input 'w', result 'w.next'",
        "variable 'n': input 'n', result 'n.next'",
    ]


def test_a_session_feeds_variables():
    state = State()
    session = amanda.Session(train.graph(*TYPES), "onnxruntime", state=state)
    reference = amanda.compile(train.graph(*TYPES), "numpy")
    for feeds in steps():
        expect_equal(
            list(session.run(feeds=feeds).values()), list(reference(feeds).values())
        )
        expect_equal([state[k] for k in "wn"], [reference.state[k] for k in "wn"])
    for _ in session.steps(feeds=feeds):
        pass
    reference(feeds)
    expect_equal([state[k] for k in "wn"], [reference.state[k] for k in "wn"])


def test_state_is_shared_set_and_reset():
    first = amanda.compile(train.graph(*TYPES), "onnxruntime")
    second = amanda.compile(train.graph(*TYPES), "onnxruntime", state=first.state)
    feeds = next(steps())
    first(feeds)
    before = first.state["n"]
    second(feeds)
    assert first.state["n"] > before
    amanda.run(train.graph(*TYPES), feeds, backend="onnxruntime", state=first.state)
    first.state["n"] = np.int64(100)
    second(feeds)
    assert first.state["n"] > 100
    first.state.reset()
    assert first.state["n"] == 0


def test_a_complex_variable_is_a_pair_of_real_numbers():
    @amanda.function
    def turn(x):
        z = ops.variable(np.complex64([1, 1j]), key="z")
        return ops.assign(z, ops.read(z) * x)

    graph = turn.graph("complex64[2]")
    run, reference = (amanda.compile(graph, b) for b in ("onnxruntime", "numpy"))
    x = np.complex64([1 + 1j, -2j])
    for _ in range(3):
        expect_equal(list(run([x]).values()), list(reference([x]).values()))
    expect_equal([run.state["z"]], [reference.state["z"]])


def test_a_variable_without_a_value_is_a_required_input(tmp_path):
    @amanda.function
    def add(x):
        total = ops.variable(key="total", type="float32[2]")
        return ops.read(total) + x

    amanda.save(
        amanda.convert(add.graph("float32[2]"), "onnx@20"), tmp_path / "add.onnx"
    )
    session = onnxruntime.InferenceSession(tmp_path / "add.onnx")
    assert [each.name for each in session.get_inputs()] == ["x", "total"]
    run = amanda.compile(amanda.load(tmp_path / "add.onnx"), "onnxruntime")
    with pytest.raises(amanda.errors.UsageError, match="'total' has no value yet"):
        run([np.ones(2, "f")])
    run.state["total"] = np.float32([1, 2])
    assert next(iter(run([np.ones(2, "f")]).values())).tolist() == [2, 3]


def test_a_variable_with_a_computed_initial_value_is_a_gap():
    @amanda.function
    def add(x):
        return ops.read(ops.variable(x, key="total"))

    with pytest.raises(ConversionError, match="variable"):
        amanda.convert(add.graph("float32[2]"), "onnx@20")


@pytest.mark.parametrize(
    "text",
    [
        "[]", "{", '{"w": 1}', '{"w": {"input": "missing"}}', '{"w": {"output": "y"}}',
        '{"w": {"input": "x", "output": 3}}', '{"w": {"input": "x", "more": "x"}}',
    ],
)  # fmt: skip
def test_damaged_metadata_is_kept_as_it_is(text, tmp_path):
    onnx = pytest.importorskip("onnx")
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 18]> g (float[2] x) => (float[2] y) '
        "{ y = Relu(x) }"
    )
    onnx.helper.set_model_props(model, {"amanda.state": text})
    graph = amanda.load(model)
    assert state_ports(graph) == ()
    amanda.save(graph, tmp_path / "again.onnx")
    assert onnx.load(tmp_path / "again.onnx").metadata_props == model.metadata_props


@pytest.mark.parametrize("backend", ["numpy", "onnxruntime"])
def test_the_command_line_runs_a_model_with_variables(backend, saved, capsys):
    from amanda.cli import run_command_line

    command = ["run", str(saved), "--random", "1", "--backend", backend]
    assert run_command_line(command) == 0
    text = capsys.readouterr().out
    assert "scan/Scan_1" in text
    assert "w.next" not in text
    assert run_command_line(["info", str(saved)]) == 0
    assert "variable 'w': input 'w', result 'w.next'" in capsys.readouterr().out
