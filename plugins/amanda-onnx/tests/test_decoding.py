"""A small language model with a key-value cache: one compilation for each shape."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import amanda
from amanda.graph import CORE
from amanda_onnx.format import Format

onnxruntime = pytest.importorskip("onnxruntime")
HEADS, SHARED, DEPTH, WIDTH, WORDS, LAYERS = 4, 2, 16, 64, 50, 2
HOUSE = "com.microsoft"
info = helper.make_tensor_value_info


class Made:
    """A model as exporters write them: nodes, weights and caches, by name."""

    def __init__(self, room=None):
        """With `room`, the cache has so many places, and keeps them."""
        self.room = room
        self.random = np.random.default_rng(3)
        self.nodes, self.weights, self.inputs, self.outputs = [], [], [], []

    def weight(self, name, *shape, array=None):
        if array is None:
            array = self.random.standard_normal(shape) / np.sqrt(shape[0])
            array = array.astype("f")
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def node(self, kind, inputs, outputs, domain="", **attrs):
        made = helper.make_node(kind, inputs, outputs, domain=domain, **attrs)
        self.nodes.append(made)
        return outputs[0]

    def layer(self, x, i):
        sizes = (HEADS * DEPTH, SHARED * DEPTH, SHARED * DEPTH)
        norm = self.weight(f"norm{i}", array=np.full(WIDTH, 1.1, "f"))
        x1 = self.node("SimplifiedLayerNormalization", [x, norm], [f"n{i}"])
        q, k, v = (
            self.node("MatMul", [x1, self.weight(f"w{w}{i}", WIDTH, size)], [f"{w}{i}"])
            for w, size in zip("qkv", sizes, strict=True)
        )
        cache = [f"past_key{i}", f"past_value{i}"]
        fresh = [f"present_key{i}", f"present_value{i}"]
        y = self.node(
            "GroupQueryAttention",
            [q, k, v, *cache, "last", "total", "cos", "sin"],
            [f"a{i}", *fresh],
            HOUSE, num_heads=HEADS, kv_num_heads=SHARED, do_rotary=1,
        )  # fmt: skip
        self.inputs += [
            info(n, 1, ["b", SHARED, self.room or f"p{n}", DEPTH]) for n in cache
        ]
        self.outputs += [
            info(n, 1, ["b", SHARED, self.room or f"t{n}", DEPTH]) for n in fresh
        ]
        y = self.node(
            "MatMul", [y, self.weight(f"wo{i}", HEADS * DEPTH, WIDTH)], [f"o{i}"]
        )
        scale = self.weight(f"scale{i}", array=np.full(WIDTH, 0.9, "f"))
        out = [f"m{i}", "", "", f"r{i}"]
        self.node("SkipSimplifiedLayerNormalization", [x, y, scale], out, HOUSE)
        up = self.node("MatMul", [out[0], self.weight(f"up{i}", WIDTH, 96)], [f"u{i}"])
        up = self.node("QuickGelu", [up], [f"g{i}"], HOUSE, alpha=1.0)
        down = self.node("MatMul", [up, self.weight(f"dn{i}", 96, WIDTH)], [f"d{i}"])
        return self.node("Add", [out[3], down], [f"x{i + 1}"])

    def model(self):
        angle = np.outer(np.arange(64), 1 / 100 ** (np.arange(DEPTH // 2) / 8))
        self.weight("cos", array=np.cos(angle).astype("f"))
        self.weight("sin", array=np.sin(angle).astype("f"))
        x = self.node("Gather", [self.weight("words", WORDS, WIDTH), "ids"], ["x0"])
        for i in range(LAYERS):
            x = self.layer(x, i)
        self.node("MatMul", [x, self.weight("head", WIDTH, WORDS)], ["logits"])
        ends = [info("ids", 7, ["b", "s"]), info("last", 6, ["b"]),
                info("total", 6, [])]  # fmt: skip
        outs = [info("logits", 1, ["b", "s", WORDS]), *self.outputs]
        graph = helper.make_graph(
            self.nodes, "small", [*ends, *self.inputs], outs, self.weights
        )
        imports = [helper.make_opsetid("", 18), helper.make_opsetid(HOUSE, 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=9)


@pytest.fixture(scope="module")
def proto():
    return Made().model()


def in_runtime(raw):
    """A model in onnxruntime, as a function of feeds."""
    session = onnxruntime.InferenceSession(raw, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_outputs()]
    return lambda feeds: dict(zip(names, session.run(names, feeds), strict=True))


def decoded(run, prompt, steps, room=0):
    """Words chosen one after the other, and the logits of each step."""
    cache = {
        f"past_{kind}{i}": np.zeros((1, SHARED, room, DEPTH), "f")
        for i in range(LAYERS)
        for kind in ("key", "value")
    }
    ids, there, words, told = list(prompt), 0, [], []
    for _ in range(steps):
        there += len(ids)
        out = run({
            "ids": np.array([ids]), "last": np.array([there - 1], "i4"),
            "total": np.array(there, "i4"), **cache,
        })  # fmt: skip
        told.append(np.asarray(out["logits"])[0, -1])
        cache = {n: np.asarray(out[n.replace("past", "present")]) for n in cache}
        ids = [int(told[-1].argmax())]
        words += ids
    return words, told


@pytest.fixture(scope="module")
def wanted(proto):
    return decoded(in_runtime(proto.SerializeToString()), [3, 14, 15], 6)


@pytest.mark.most_cases(1)
@pytest.mark.parametrize("backend", ["numpy", "jax", "onnxruntime"])
def test_every_step_is_as_onnxruntime_has_it(backend, proto, wanted):
    pytest.importorskip(backend)
    made = amanda.compile(Format().read(proto), backend)
    words, told = decoded(made, [3, 14, 15], 6)
    assert words == wanted[0]
    for ours, theirs in zip(told, wanted[1], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)


def test_nothing_is_compiled_twice(proto):
    """XLA has a program for each length of the past, and none for another text."""
    pytest.importorskip("jax")
    made = amanda.compile(Format().read(proto), "jax")
    decoded(made, [3, 14, 15], 5)
    count = made.executable.report().compilations
    assert count <= 5
    decoded(made, [7, 1, 2], 5)
    assert made.executable.report().compilations == count


def test_what_is_written_again_has_the_standard_ops_only(proto, wanted):
    """Where nobody imports the domain: no op of onnxruntime's own is left."""
    graph = amanda.convert(Format().read(proto), "amanda/std/1")
    del graph.imports[HOUSE]
    back = amanda.convert(graph, "amanda/onnx/21")
    assert {op.own_namespace for op in back.walk()} <= {None, CORE}
    words, _ = decoded(amanda.compile(back, "onnxruntime"), [3, 14, 15], 6)
    assert words == wanted[0]


def test_ops_of_its_own_come_back_as_they_were(proto, wanted):
    """Where the domain is imported: by way of the hub set, op for op."""
    graph = amanda.convert(Format().read(proto), "amanda/std/1")
    assert sum(op.type == "grouped_attention" for op in graph.walk()) == LAYERS
    back = amanda.convert(graph, "amanda/onnx/18")
    kinds = Counter(op.type for op in back.walk() if op.type != "constant")
    assert kinds == Counter(node.op_type for node in proto.graph.node)
    raw = Format().dumps(back)
    assert onnx.load_from_string(raw).ir_version == 9
    assert decoded(in_runtime(raw), [3, 14, 15], 6)[0] == wanted[0]


# -- a cache that is as long as it will ever be ----------------------------------------

ROOM = 12


@pytest.fixture(scope="module")
def shared():
    return Made(room=ROOM).model()


@pytest.fixture(scope="module")
def wanted_of_shared(shared):
    """onnxruntime has such a cache where it is told so by one buffer for both."""
    return decoded(in_runtime(shared.SerializeToString()), [3, 14, 15], 6, ROOM)


def test_the_cache_is_read_as_one_in_place(shared):
    graph = amanda.convert(Format().read(shared), "amanda/std/1")
    steps = [op for op in graph.walk() if op.type == "grouped_attention"]
    assert [op.attrs["grows"] for op in steps] == ["never"] * LAYERS


@pytest.mark.parametrize("backend", ["numpy", "jax", "onnxruntime"])
def test_steps_in_place_are_as_onnxruntime_has_them(backend, shared, wanted_of_shared):
    pytest.importorskip(backend)
    made = amanda.compile(Format().read(shared), backend)
    words, told = decoded(made, [3, 14, 15], 6, ROOM)
    assert words == wanted_of_shared[0]
    for ours, theirs in zip(told, wanted_of_shared[1], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)


def test_a_cache_in_place_chooses_the_words_that_a_growing_one_does(
    shared, wanted, wanted_of_shared
):
    assert wanted_of_shared[0] == wanted[0]


def test_no_step_compiles_anything_on_xla(shared):
    """The text is one program, a step another; however many steps there are."""
    pytest.importorskip("jax")
    made = amanda.compile(Format().read(shared), "jax")
    counts = []

    def run(feeds):
        found = made(feeds)
        counts.append(made.executable.report().compilations)
        return found

    decoded(run, [3, 14, 15], 8, ROOM)
    assert counts == [1, 2, 2, 2, 2, 2, 2, 2]
    decoded(run, [7, 1, 2], 8, ROOM)
    assert counts[8:] == [2] * 8
    assert "outside XLA" not in str(made.executable.report())


def test_no_step_prepares_anything_on_numpy(shared, wanted_of_shared, monkeypatch):
    made = amanda.compile(Format().read(shared), "numpy")

    def refused(*_args, **_more):
        raise AssertionError("a step made a program")

    monkeypatch.setattr("amanda_std.runtime.step_runner.StepRunner.__init__", refused)
    assert decoded(made, [3, 14, 15], 6, ROOM)[0] == wanted_of_shared[0]


def test_a_cache_that_is_not_told_to_be_in_place_is_filled_all_the_same(wanted):
    """The types say that it grows; the lengths that it gets say what is in it."""
    proto = Made().model()
    words, _ = decoded(
        amanda.compile(Format().read(proto), "numpy"), [3, 14, 15], 6, ROOM
    )
    assert words == wanted[0]
