"""Primitives of the hub that ONNX lacks, written by their decompositions.

The samples of the hub, whose oracles are independent, on onnxruntime and on onnx's
reference evaluator.
"""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

import amanda
from amanda.types import TensorType, parse_type
from amanda_onnx.format import Format
from amanda_std import trace
from amanda_std.ops import OPS

STD = amanda.namespace("std")
OPSET = 21
DECOMPOSED = [n for n, op in OPS.items() if op.definition and not op.is_composite]
TOLERANCE = {
    "float32": 2e-5, "float64": 1e-8, "complex64": 2e-5, "complex128": 1e-8, "bool": 0,
}  # fmt: skip


def run_reference(model, feeds):
    with np.errstate(all="ignore"):
        return ReferenceEvaluator(model).run(None, feeds)


def run_onnxruntime(model, feeds):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return session.run(None, feeds)


RUNTIMES = {"reference": run_reference, "onnxruntime": run_onnxruntime}


WITHOUT_KERNEL = {
    ("det", "float64", "onnxruntime"),
    ("atan2", "float64", "onnxruntime"),
    ("cbrt", "complex128", "onnxruntime"),
}
"""Samples of which onnxruntime has no kernel: Det, and Atan, also for angles."""


@pytest.mark.most_cases(6)
@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("name", DECOMPOSED)
def test_decomposition(name, runtime):
    if runtime == "reference" and name.startswith("cumulative"):
        pytest.skip("onnx's reference evaluator has Scan along the first axis only")
    compared = 0
    for sample in OPS[name].samples_rule():
        wanted = (
            sample.expected if isinstance(sample.expected, list) else [sample.expected]
        )
        dtype = str(wanted[0].dtype)
        known = dtype in TOLERANCE and (name, dtype, runtime) not in WITHOUT_KERNEL
        if not known or any(0 in a.shape for a in tensors_of(sample)):
            continue
        found = RUNTIMES[runtime](*model_of(OPS[name], sample))
        limit = max(TOLERANCE[dtype], sample.tolerance or 0)
        for got, want in zip(found, map(as_pairs, wanted), strict=True):
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=limit, atol=limit)
        compared += 1
    assert compared


def as_pairs(array):
    """A complex array as ONNX has it: real, with a last axis of two elements."""
    return OPS["as_pairs"](array) if np.iscomplexobj(array) else array


def tensors_of(sample):
    return [a for a in sample.args if isinstance(a, np.ndarray | np.generic)]


def model_of(op, sample):
    """The op as a model of ONNX, and its feeds."""
    tensors = tensors_of(sample)
    others = sample.args[len(tensors) :]
    types = [TensorType(str(a.dtype), a.shape) for a in tensors]
    graph = STD.trace(lambda *xs: op(*xs, *others, **sample.attrs), types)
    raw = Format().dumps(amanda.convert(graph, f"onnx@{OPSET}"))
    model = onnx.load_from_string(raw)
    names = [value.name for value in model.graph.input]
    return model, dict(zip(names, map(as_pairs, map(np.asarray, tensors)), strict=True))


def runs_of(function, *arrays):
    """The results of a function of the hub: its own, and those of each runtime."""
    graph = STD.trace(function, [TensorType(str(a.dtype), a.shape) for a in arrays])
    model = onnx.load_from_string(
        Format().dumps(amanda.convert(graph, f"onnx@{OPSET}"))
    )
    names = [value.name for value in model.graph.input]
    feeds = dict(zip(names, arrays, strict=True))
    return [function(*arrays), *(run(model, feeds)[0] for run in RUNTIMES.values())]


@pytest.mark.parametrize("padding", [((0, 0), (1, 1)), ((2, 4), (0, 1))])
@pytest.mark.parametrize("output_padding", [(2, 1), (3, 5)])
def test_results_padded_by_a_stride(padding, output_padding):
    rng = np.random.default_rng(0)
    x, w, b = (rng.normal(size=s) for s in ((2, 4, 3, 4), (4, 3, 3, 2), (3,)))

    def convolve(x, w, b):
        return OPS["conv_transpose"](
            x, w, b, strides=(2, 1), padding=padding, dilations=(2, 4),
            output_padding=output_padding,
        )  # fmt: skip

    wanted, *found = runs_of(convolve, *(v.astype("float32") for v in (x, w, b)))
    for got in found:
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("padding", ["same_upper", "same_lower"])
def test_dilated_convolutions_that_keep_an_unknown_size(padding):
    """onnxruntime refuses `auto_pad` with dilations."""
    rng = np.random.default_rng(0)
    x, w = (rng.normal(size=s).astype("float32") for s in ((1, 2, 11), (3, 2, 4)))
    graph = trace(
        lambda x, w: OPS["conv"](x, w, padding=padding, dilations=(3,)),
        [parse_type("float32[n, 2, m]"), parse_type("float32[3, 2, 4]")],
    )
    written = amanda.convert(graph, f"onnx@{OPSET}")
    model = onnx.load_from_string(Format().dumps(written))
    feeds = dict(zip([v.name for v in model.graph.input], (x, w), strict=True))
    low, high = (4, 5) if padding == "same_upper" else (5, 4)
    wide = np.pad(x, ((0, 0), (0, 0), (low, high)))
    wanted = sum(
        np.einsum("nci,oc->noi", wide[..., 3 * k : 3 * k + 11], w[..., k])
        for k in range(4)
    )
    for run in RUNTIMES.values():
        np.testing.assert_allclose(run(model, feeds)[0], wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("axes", [[], [1], [0, 1]])
def test_axes_that_are_computed_may_be_none(axes):
    """ONNX reduces all axes where it is given none, unless an attribute forbids it."""
    x = np.float32([[1, 2, 4], [8, 16, 32]])
    graph = trace(
        lambda x, axes: OPS["sum"](x, axes),
        [parse_type("float32[2, 3]"), parse_type("int64[k]")],
    )
    written = amanda.convert(graph, f"onnx@{OPSET}")
    model = onnx.load_from_string(Format().dumps(written))
    names = [value.name for value in model.graph.input]
    feeds = dict(zip(names, (x, np.array(axes, np.int64)), strict=True))
    again = amanda.convert(written, "std")
    [found] = amanda.run(again, [*feeds.values()], backend="numpy").values()
    for got in (found, *(run(model, feeds)[0] for run in RUNTIMES.values())):
        np.testing.assert_array_equal(got, x.sum(tuple(axes)) if axes else x)


def test_coordinates_of_a_scalar():
    for number in (0.0, 2.0):
        _, *found = runs_of(OPS["nonzero"], np.asarray(number, "float32"))
        assert [got.shape for got in found] == [(0, int(number != 0))] * 2


def test_rolls_of_empty_tensors():
    def roll(x):
        return OPS["roll"](x, np.array([1, 2]), axes=(0, 1))

    for shape in ((0, 3), (3, 0)):
        assert [y.shape for y in runs_of(roll, np.zeros(shape, "float32"))] == [
            shape
        ] * 3


def test_random_integers():
    from amanda_std import ops

    def draw():
        low, high = np.int64(-3), np.int64(4)
        return ops.random_integers(ops.next_random_key(), (7000,), low, high,
                                   dtype=amanda.types.DType("int64"))  # fmt: skip

    graph = STD.trace(draw, [])
    model = onnx.load_from_string(
        Format().dumps(amanda.convert(graph, f"onnx@{OPSET}"))
    )
    for run in RUNTIMES.values():
        [drawn] = run(model, {})
        assert drawn.dtype == np.int64
        numbers, counts = np.unique(drawn, return_counts=True)
        assert numbers.tolist() == list(range(-3, 4))
        assert np.abs(counts - 1000).max() < 6 * 30  # six standard deviations
