"""Resize is written with `exclude_outside` only where it changes the result."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import amanda
from amanda_onnx.format import Format

CODEC = Format()
STD = amanda.namespace("std")


def resizing(**attrs):
    graph = amanda.Graph(STD.name)
    x = graph.parameter(amanda.parse_type("float32[1, 2, 5, 7]"), "x")
    y = STD.build(graph).resize(x, sizes=[1, 2, 3, 9], **attrs)
    graph.result(y, "y")
    return graph


LINEAR, CUBIC, WIDE = {"mode": "linear"}, {"mode": "cubic"}, {"antialias": True}


@pytest.mark.parametrize(
    ("attrs", "is_written", "opsets"),
    [
        (LINEAR, False, (11, 13, 21)),
        ({"mode": "nearest"}, False, (11, 13, 21)),
        (LINEAR | {"coordinates": "align_corners"}, False, (11, 13, 21)),
        (CUBIC, True, (11, 13, 21)),
        (LINEAR | WIDE, True, (18, 21)),
        (CUBIC | WIDE, True, (18, 21)),
    ],
)
def test_exclude_outside(attrs, is_written, opsets):
    graph = resizing(exclude_outside=True, **attrs)
    x = np.random.default_rng(0).standard_normal((1, 2, 5, 7)).astype("float32")
    expected = amanda.run(graph, [x], backend="numpy")["y"]
    for opset in opsets:
        expect_written(graph, opset, is_written, x, expected)


def expect_written(graph, opset, is_written, x, expected):
    made = amanda.convert(graph, f"onnx@{opset}")
    (op,) = (each for each in made if each.type == "Resize")
    assert op.attrs.get("exclude_outside", 0) == is_written
    raw = CODEC.dumps(made)
    onnx.checker.check_model(raw, full_check=True)
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(raw, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"x": x})
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_what_is_outside_changes_nothing(mode):
    """Neighbors outside are the edge itself, unless a filter is wider than they are."""
    x = np.random.default_rng(1).standard_normal((1, 2, 5, 7)).astype("float32")
    first, second = (
        amanda.run(resizing(mode=mode, exclude_outside=e), [x], backend="numpy")["y"]
        for e in (False, True)
    )
    np.testing.assert_allclose(first, second, rtol=1e-6, atol=1e-6)
