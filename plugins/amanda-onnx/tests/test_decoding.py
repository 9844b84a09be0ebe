"""A small language model with a cache, step by step: one compilation for each shape."""

from __future__ import annotations

import numpy as np
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

    def __init__(self):
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
        self.inputs += [info(n, 1, ["b", SHARED, f"p{n}", DEPTH]) for n in cache]
        self.outputs += [info(n, 1, ["b", SHARED, f"t{n}", DEPTH]) for n in fresh]
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


def decoded(run, prompt, steps):
    """Words chosen one after the other, and the logits of each step."""
    cache = {
        f"past_{kind}{i}": np.zeros((1, SHARED, 0, DEPTH), "f")
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
    options = onnxruntime.SessionOptions()
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [each.name for each in session.get_outputs()]
    return decoded(
        lambda feeds: dict(zip(names, session.run(names, feeds), strict=True)),
        [3, 14, 15], 6,
    )  # fmt: skip


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
    """By way of the hub set: no op of onnxruntime's own is left, and it still runs."""
    graph = amanda.convert(Format().read(proto), "amanda/std/1")
    back = amanda.convert(graph, "amanda/onnx/21")
    assert {op.own_namespace for op in back.walk()} <= {None, CORE}
    words, _ = decoded(amanda.compile(back, "onnxruntime"), [3, 14, 15], 6)
    assert words == wanted[0]
