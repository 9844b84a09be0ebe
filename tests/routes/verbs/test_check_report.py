"""What `amanda check` finds beside ops that stop a model, against runs and by hand."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from routes.verbs.planted_graphs import random_graph
from routes.verbs.verb_goldens import DIGITS, call, host_in_calls

import amanda
from amanda.api.compilation import load_backend
from amanda.api.readiness import Readiness, check_readiness
from amanda.backend import estimate_memory, type_bytes
from amanda.graph import Graph


def check(
    graph: Graph,
    goal: str,
    fallback: tuple[str, ...] = (),
    host: amanda.Host | None = None,
) -> Readiness:
    host = host or amanda.Host()
    plan = amanda.plan(graph, goal, prefer_backend=True, host=host)
    backend = load_backend(host, host.find("backends", goal))
    return check_readiness(graph, plan, host, backend, fallback)


def digits() -> Graph:
    return amanda.load(DIGITS / "digits.onnx")


# -- memory --------------------------------------------------------------------------


def test_memory_of_the_digits() -> None:
    """By hand: the input has 8 * 8 floats, and where memory peaks, the second
    convolution and its relu have 16 channels of them. `info` has the same weights."""
    found = estimate_memory(amanda.convert(digits(), "std"))
    batch = amanda.Sym.named("batch")
    assert found == (39208, (64 + 2 * 16 * 64) * 4 * batch, "relu '/4/Relu'", 0)


@pytest.mark.parametrize("seed", range(20))
def test_memory_against_every_pair_of_positions(seed: int) -> None:
    """At each op live all values made until then that are kept, or read later."""
    graph = amanda.convert(random_graph(Random(seed), depth=0), "std")
    assert not any(op.bodies for op in graph)
    ops = [op for op in graph if not op.is_constant]
    kept = {*graph.parameters, *graph.results}
    position = {op: i for i, op in enumerate(ops)}
    peak = 0
    for i in range(len(ops)):
        made = [*graph.parameters, *(p for op in ops[: i + 1] for p in op.outputs)]
        live = [
            port
            for port in made
            if port in kept
            or port.op is ops[i]
            or any(position[user] >= i for user in port.user_ops if user in position)
        ]
        peak = max(peak, sum(type_bytes(port.type) for port in live))  # type: ignore[misc]
    assert estimate_memory(graph).peak == peak


def test_memory_of_a_body_is_added_to_what_lives_around_it() -> None:
    graph = Graph("amanda/std/1")
    x = graph.parameter(amanda.parse_type("float32[100]"), "x")
    condition = graph.parameter(amanda.parse_type("bool[]"), "c")
    bodies = {}
    for key, count in (("then", 3), ("otherwise", 1)):
        bodies[key] = body = Graph(outer=graph)
        value = x
        for _ in range(count):
            value = body.add("exp", [value]).output
            value.type = x.type
        body.result(value)
    chosen = graph.add("if", [condition], bodies=bodies)
    chosen.output.type = x.type
    graph.result(chosen.output)
    # x, c and the result of `if`; in the longer body two values at once
    assert estimate_memory(graph).peak == 400 + 1 + 400 + 2 * 400


def test_values_of_unknown_size_are_counted() -> None:
    graph = Graph("amanda/std/1")
    x = graph.parameter(amanda.parse_type("float32[?]"), "x")
    graph.result(graph.add("exp", [x]).output)
    assert estimate_memory(graph)[1:] == (0, None, 2)


# -- fallback ------------------------------------------------------------------------


def few_host() -> amanda.Host:
    """A host with a backend that runs what numpy does, but `relu` and `maximum`."""
    from amanda_std.runtime.numpy_backend import NumpyBackend

    class Few(NumpyBackend):
        name = "few"

        def takes(self, op: Any) -> Any:
            return "too hard" if op.type in ("relu", "maximum") else super().takes(op)

    host = amanda.Host()
    host.register_backend("few", Few())
    return host


def test_pieces_are_those_of_a_compilation() -> None:
    host = few_host()
    found = check(digits(), "few", ("numpy",), host)
    assert found.is_clear
    assert [refusal.op for refusal in found.refusals] == ["relu"] * 3
    compiled = amanda.compile(digits(), "few", fallback="numpy", host=host)
    compiled({"images": np.zeros((5, 1, 8, 8), np.float32)})
    report = compiled.executable.report()
    assert tuple(found.pieces) == report.pieces
    assert len(found.pieces) == 7
    sizes = [crossing.bytes.substitute({"batch": 5}) for crossing in found.crossings]
    assert sizes == [transfer.bytes for transfer in report.transfers]
    assert sum(sizes) > 0


def test_ops_that_no_backend_takes() -> None:
    host = few_host()
    found = check(digits(), "few", ("few",), host)
    assert not found.is_clear
    assert len(found.unplaced) == 3
    assert not found.pieces


# -- sizes and element types ---------------------------------------------------------


def test_sizes_that_jax_learns_when_it_runs() -> None:
    graph = Graph("amanda/onnx/18")
    x = graph.parameter(amanda.parse_type("float32[n, 3]"), "x")
    k = graph.parameter(amanda.parse_type("int64[1]"), "k")
    graph.result(graph.add("TopK", [x, k], outputs=2, name="top").outputs[0], "y")
    graph.result(graph.add("NonZero", [x], name="places").output, "z")
    kinds = [(size.kind, size.what) for size in check(graph, "jax").sizes]
    assert ("dim", "n") in kinds
    assert [kind for kind, _ in kinds].count("value") == 1
    assert ("result", "nonzero 'places'") in kinds
    assert check(graph, "numpy").sizes == []


def test_dims_that_a_conversion_freezes() -> None:
    with host_in_calls():
        ended = call(f"amanda check {DIGITS / 'digits.onnx'} --to jax")
        assert ended.code == 1
        assert "JAX primitives need static shapes" in ended.out
        assert "batch  dim   open; --dim gives it a size" in ended.out
        ended = call(f"amanda check {DIGITS / 'digits.onnx'} --to jax --dim batch=2")
        assert ended.code == 0


def test_small_floats_on_numpy() -> None:
    graph = Graph("amanda/onnx/18")
    x = graph.parameter(amanda.parse_type("float16[2, 3]"), "x")
    graph.result(graph.add("Exp", [x]).output, "y")
    [change] = check(graph, "numpy").precision
    assert change == ("float16", "float32, rounded once", "1 op")


def test_complex_inputs_that_become_pairs() -> None:
    graph = Graph("amanda/std/1")
    x = graph.parameter(amanda.parse_type("complex64[2, 3]"), "x")
    square = graph.add("multiply", [x, x])
    square.output.type = x.type
    graph.result(square.output, "y")
    host = amanda.Host()
    found = check_readiness(graph, amanda.plan(graph, "onnx@18", host=host), host)
    changes = [(c.dtype, c.computed_in, c.where) for c in found.precision]
    assert changes == [
        ("complex64", "float32", "input x"),
        ("complex64", "float32", "result y"),
        ("complex64", "float32", "multiply #0"),
    ]


def test_faults_of_the_model() -> None:
    graph = Graph("amanda/onnx/18")
    x = graph.parameter(amanda.parse_type("float32[2]"), "x")
    graph.result(graph.add("Relu", [x], {"slope": 1.0}, name="act").output)
    faults = check(graph, "numpy").faults
    assert [(fault.op, fault.kind) for fault in faults] == [
        ("Relu 'act'", "unknown attribute")
    ]


def test_missing_files_are_all_listed(tmp_path: Path) -> None:
    """And the rest is checked as if they were there."""
    graph = digits()
    x = graph.parameters[0]
    graph.result(graph.add("Odd", [x], name="odd").output, "odd")
    file = tmp_path / "model.onnx"
    amanda.save(graph, file, external=True, threshold=16, split=20_000)
    data = {path.name for path in tmp_path.iterdir()} - {file.name}
    assert len(data) == 3
    with host_in_calls():
        info = call(f"amanda info {file} --json")
        assert info.code == 0
        weights = json.loads(info.out)["weights"]["bytes"]
        for name in data:
            (tmp_path / name).unlink()
        assert call(f"amanda info {file}").code == 1
        ended = call(f"amanda check {file} --for numpy --json")
    assert ended.code == 1
    answer = json.loads(ended.out)
    assert {row["file"] for row in answer["missing_files"]} == data
    assert [gap["where"] for gap in answer["gaps"]] == ["op 'odd'"]
    assert answer["memory"][0]["bytes"] == weights


# -- the page ------------------------------------------------------------------------


class Page(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        assert not {"src", "href"} & dict(attrs).keys()
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_the_page_is_self_contained_and_escaped(tmp_path: Path) -> None:
    evil = "<script>alert('&')</script>"
    graph = Graph("amanda/onnx/18")
    x = graph.parameter(amanda.parse_type("float32[2]"), "x")
    graph.result(graph.add("Odd", [x], name=evil).output)
    amanda.save(graph, tmp_path / "model.yaml")
    page = tmp_path / "page.html"
    with host_in_calls():
        ended = call(f"amanda check {tmp_path / 'model.yaml'} --for jax --html {page}")
    assert ended.code == 1
    found = Page(page.read_text(encoding="utf-8"))
    assert found.open == []
    assert "script" not in found.tags
    assert any(evil in word for word in found.words)
    assert {"ops without a mapping", "memory (3)", "route"} <= set(found.words)
