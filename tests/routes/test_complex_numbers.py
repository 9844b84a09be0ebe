"""Graphs of complex numbers in ONNX, run by onnxruntime, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

import amanda
from amanda.mapping import Report
from amanda_std import ops

pytest.importorskip("onnxruntime")
RNG = np.random.default_rng(3)


def numbers(*shape):
    return (RNG.normal(size=shape) + 1j * RNG.normal(size=shape)).astype("complex64")


Z, X = numbers(2, 6), RNG.normal(size=(2, 6)).astype("float32")


def graph_of(function, *types):
    return amanda.function(function).graph(*types)


def run(graph, *feeds):
    return list(amanda.run(graph, list(feeds), backend="onnxruntime").values())


TRANSFORMS = [
    (name, norm, sizes, axes)
    for norm in ("backward", "ortho", "forward")
    for name in ("fft", "ifft", "rfft", "irfft")
    for sizes, axes in ((None, (-1,)), ((3, 5), (0, 1)), (None, (1, 0)))
]


@pytest.mark.parametrize(("name", "norm", "sizes", "axes"), TRANSFORMS)
def test_fourier_transforms(name, norm, sizes, axes):
    x = X if name == "rfft" else Z

    def transform(x):
        return getattr(ops, name)(x, sizes, axes, norm=norm)

    graph = graph_of(transform, f"{x.dtype}[n, 6]")
    wanted = getattr(np.fft, f"{name}n")(x, sizes, axes, norm)
    (found,) = run(graph, x)
    assert found.dtype.kind == wanted.dtype.kind
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_rotary_embedding_by_complex_products():
    """As in models of DeepSeek: pairs are viewed as complex numbers and back."""
    angles = RNG.normal(size=(5, 4)).astype("float32")
    x = RNG.normal(size=(3, 5, 8)).astype("float32")

    def rotate(x, angles):
        z = ops.from_pairs(ops.reshape(x, (*x.shape[:-1], 4, 2)))
        turn = ops.complex(ops.cos(angles), ops.sin(angles))
        return ops.reshape(ops.as_pairs(z * turn), x.shape)

    graph = graph_of(rotate, "float32[batch, n, 8]", "float32[n, 4]")
    wanted = x.view("complex64") * np.exp(1j * angles)
    (found,) = run(graph, x, angles)
    np.testing.assert_allclose(found, wanted.astype("complex64").view("float32"), 1e-5)
    model = amanda.convert(graph, "onnx@18")
    assert sum(op.type == "Mul" for op in model if not op.is_constant) == 4


@pytest.mark.parametrize("opset", [13, 18, 21])
def test_arithmetic_of_older_opsets(opset):
    def program(z):
        return ops.exp(z) / (z + (1 + 2j)), ops.modulus(z), ops.matmul(z, z.T)

    onnx = amanda.convert(graph_of(program, "complex64[a, b]"), f"onnx@{opset}")
    found = list(amanda.run(onnx, [as_pairs(Z)], backend="onnxruntime").values())
    wanted = np.exp(Z) / (Z + 1 + 2j), np.abs(Z), Z @ Z.T
    np.testing.assert_allclose(found[0], as_pairs(wanted[0]), 1e-4, 1e-5)
    np.testing.assert_allclose(found[1], wanted[1], 1e-5)
    np.testing.assert_allclose(found[2], as_pairs(wanted[2]), 1e-4, 1e-5)


def as_pairs(z):
    return np.stack([z.real, z.imag], -1)


def test_the_report_states_the_types_of_inputs_and_results():
    def product(z):
        return {"y": z * z}

    reports: list[Report] = []
    graph = graph_of(product, "complex128[n, 3]")
    model = amanda.convert(graph, "onnx@18", reports=reports)
    ports = [(p.name, str(p.type)) for p in model.parameters]
    assert ports == [("z", "float64[n, 3, 2]")]
    changed = [str(port) for report in reports for port in report.changed_ports]
    assert changed == [
        "input 'z': complex128[n, 3] became float64[n, 3, 2], with real and imaginary "
        "parts along the last axis",
        "result 'y': complex128[n, 3] became float64[n, 3, 2], with real and imaginary "
        "parts along the last axis",
    ]


def test_feeds_and_results_are_complex():
    compiled = amanda.compile(
        graph_of(lambda z, x: (z * z, x + x), "complex64[n, 3]", "float32[]"),
        backend="onnxruntime",
    )
    assert [str(slot.type) for slot in compiled.inputs] == [
        "complex64[n, 3]",
        "float32[]",
    ]
    for n in (2, 0):
        z = numbers(n, 3)
        y, two = compiled([z[:, ::-1], np.float32(1)]).values()
        assert y.dtype == "complex64"
        assert y.shape == (n, 3)
        np.testing.assert_allclose(y, (z * z)[:, ::-1], 1e-5)
        assert two == 2
    out = {0: np.zeros((2, 3), "complex64")}
    z = numbers(2, 3)
    assert compiled([z, np.float32(1)], out)[0] is out[0]
    np.testing.assert_allclose(out[0], z * z, 1e-5)


def test_a_scalar_feed():
    (y,) = run(graph_of(lambda z: ops.conj(z), "complex64[]"), np.complex64(1 + 2j))
    assert y.shape == ()
    assert y == 1 - 2j


def test_a_short_time_fourier_transform_of_onnx_stays_one():
    graph = graph_of(lambda x: ops.as_pairs(ops.stft(x, 4, 2)), "float32[1, 16]")
    model = amanda.convert(graph, "onnx@18")
    assert [op.type for op in model if op.type in ("STFT", "DFT")] == ["STFT"]


def test_an_op_without_a_rule_is_a_gap():
    graph = graph_of(lambda z: ops.string_format(z, conversion="%g"), "complex64[3]")
    with pytest.raises(amanda.AmandaError, match="complex, op"):
        amanda.convert(graph, "onnx@18")
