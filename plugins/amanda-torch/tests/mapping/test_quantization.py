"""Ops of `quantized_decomposed`: read, run, converted to ONNX and written again."""

from __future__ import annotations

import warnings
from importlib import import_module

import numpy as np
import pytest

import amanda
from amanda.errors import ConversionError

torch = pytest.importorskip("torch", reason="computes the expected results")

from torch.utils._pytree import tree_leaves  # noqa: E402

from amanda_torch import to_module  # noqa: E402

import_module("torch.ao.quantization.fx._decomposed")  # registers the ops
OPS = torch.ops.quantized_decomposed
INT8 = (-128, 127, torch.int8)
GENERATOR = torch.Generator().manual_seed(3)
X = torch.randn(6, 32, generator=GENERATOR)
SCALES = torch.rand(6, generator=GENERATOR) / 50 + 0.01
ZEROS = torch.tensor([0, 3, -5, 120, -128, 7])
GROUPS = torch.rand(6, 4, generator=GENERATOR) / 50 + 0.01
GROUP_ZEROS = torch.arange(24).reshape(6, 4) - 12
Q = torch.randint(-128, 128, (6, 32), generator=GENERATOR, dtype=torch.int8)


class Call(torch.nn.Module):
    def __init__(self, function, constants):
        super().__init__()
        self.function = function
        for i, tensor in enumerate(constants):
            self.register_buffer(f"c{i}", tensor)
        self.count = len(constants)

    def forward(self, x):
        own = [getattr(self, f"c{i}") for i in range(self.count)]
        return tuple(torch.utils._pytree.tree_leaves(self.function(x, *own)))


def dynamic(x):
    scale, zero = OPS.choose_qparams.tensor(x, 0, 255, 1e-5, torch.uint8)
    y = OPS.quantize_per_tensor.tensor(x, scale, zero, 0, 255, torch.uint8)
    z = OPS.dequantize_per_tensor.tensor(y, scale, zero, 0, 255, torch.uint8)
    return scale, zero, y, z


def per_row(x):
    scale, zero = OPS.choose_qparams_per_token_asymmetric(x, torch.int8)
    y = OPS.quantize_per_token(x, scale, zero, *INT8)
    return scale, zero, y, OPS.dequantize_per_token(y, scale, zero, *INT8, x.dtype)


CALLS = {
    "quantize": (lambda x: OPS.quantize_per_tensor(x, 0.017, 5, *INT8), X, []),
    "narrow range": (
        lambda x: OPS.quantize_per_tensor(x, 0.011, 0, -127, 120, torch.int8), X, []),
    "uint8": (
        lambda x: OPS.quantize_per_tensor(x, 0.02, 128, 0, 255, torch.uint8), X, []),
    "int16": (
        lambda x: OPS.quantize_per_tensor(x, 1e-4, 0, -32768, 32767, torch.int16), X,
        []),
    "half": (lambda x: OPS.quantize_per_tensor(x, 0.017, 5, *INT8), X.half(), []),
    "limits as tensors": (
        lambda x, s, z, low, high: OPS.quantize_per_tensor.tensor2(
            x, s, z, low, high, torch.int8),
        X, [SCALES[:1], ZEROS[1:2], torch.tensor(-100), torch.tensor(100)]),
    "dequantize": (lambda q: OPS.dequantize_per_tensor(q, 0.017, 5, *INT8), Q, []),
    "dequantize to half": (
        lambda q: OPS.dequantize_per_tensor(
            q, 0.25, 5, *INT8, out_dtype=torch.float16), Q, []),
    "channels": (
        lambda x, s, z: OPS.quantize_per_channel(x, s, z, 0, *INT8), X,
        [SCALES, ZEROS]),
    "dequantize channels": (
        lambda q, s, z: OPS.dequantize_per_channel(q, s, z, 0, *INT8), Q,
        [SCALES, ZEROS]),
    "channels without zero points": (
        lambda q, s: OPS.dequantize_per_channel(q, s, None, 0, *INT8), Q, [SCALES]),
    "channels with float64": (
        lambda q, s, z: OPS.dequantize_per_channel(q, s, z, 0, *INT8), Q,
        [SCALES.double(), ZEROS]),
    "groups": (
        lambda x, s, z: OPS.quantize_per_channel_group(x, s, z, *INT8, 8), X,
        [GROUPS, GROUP_ZEROS]),
    "dequantize groups": (
        lambda q, s, z: OPS.dequantize_per_channel_group(
            q, s, z, *INT8, 8, torch.float32), Q, [GROUPS, GROUP_ZEROS]),
    "dynamic": (dynamic, X, []),
    "symmetric": (
        lambda x: OPS.choose_qparams_symmetric.tensor(x, -127, 127, 1e-5, torch.int8),
        X, []),
    "rows": (per_row, X, []),
    "symmetric rows": (
        lambda x: OPS.choose_qparams_per_token(x, torch.int8), X, []),
    "fake": (
        lambda x, s, z: OPS.fake_quant_per_channel(x, s, z, 0, -128, 127), X,
        [SCALES, ZEROS]),
    "cast": (lambda q: OPS.convert_element_type.no_fuse(q, torch.float32), Q, []),
}  # fmt: skip
KEPT = {
    "quantize": ["quantize_per_tensor.default"],
    "dequantize": ["dequantize_per_tensor.default"],
    "channels": ["quantize_per_channel.default"],
    "dequantize channels": ["dequantize_per_channel.default"],
    "channels without zero points": ["dequantize_per_channel.default"],
    "groups": ["quantize_per_channel_group.default"],
    "dequantize groups": ["dequantize_per_channel_group.default"],
    "dynamic": ["quantize_per_tensor.tensor", "dequantize_per_tensor.tensor"],
}
"""Ops of the program that is written from the hub."""


def load(name):
    function, x, constants = CALLS[name]
    module = Call(function, constants)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return amanda.load(torch.export.export(module, (x,), strict=False)), module, x


def expect_equal(found, expected):
    """Integers are equal, floats within two units in the last place."""
    for have, want in zip(found, expected, strict=True):
        assert have.dtype == want.numpy().dtype
        if have.dtype.kind == "f":
            rtol = 2 * np.finfo(have.dtype).eps
            np.testing.assert_allclose(have, want.numpy(), rtol=rtol, atol=1e-12)
        else:
            np.testing.assert_array_equal(have, want.numpy())


@pytest.mark.parametrize("backend", ["numpy", "jax", "onnxruntime", "torch"])
@pytest.mark.parametrize("name", CALLS)
def test_values(name, backend):
    graph, module, x = load(name)
    feeds = {graph.parameters[0].name: x.numpy()}
    found = amanda.run(graph, feeds, backend=backend)
    expect_equal(map(np.asarray, found.values()), module(x))


@pytest.mark.parametrize("name", KEPT)
def test_quantization_is_kept(name):
    graph, module, x = load(name)
    onnx = amanda.convert(graph, "onnx@21")
    kinds = {op.type for op in onnx}
    assert kinds & {"QuantizeLinear", "DequantizeLinear"}
    written = amanda.convert(amanda.convert(onnx, "std"), "torch@2.13")
    space = "quantized_decomposed."
    types = [op.type for op in written if op.type.startswith(space)]
    assert types == [space + kind for kind in KEPT[name]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        back = to_module(written)
    expect_equal([y.detach().numpy() for y in tree_leaves(back(x))], module(x))


def test_programs_of_older_releases():
    """Before 2.4, dequantization has no element type of its result."""
    graph = amanda.Graph("amanda/torch/2.3.0")
    q = graph.parameter(amanda.parse_type("int8[6, 32]"), "q")
    attrs = {"scale": 0.5, "zero_point": 3, "quant_min": -128, "quant_max": 127,
             "dtype": amanda.types.DType("int8")}  # fmt: skip
    op = graph.add("quantized_decomposed.dequantize_per_tensor.default", [q], attrs)
    graph.result(op.output)
    assert amanda.namespace("torch@2.3.0").validate(graph) == []
    (found,) = amanda.run(graph, {"q": Q.numpy()}, backend="numpy").values()
    np.testing.assert_array_equal(found, (Q.numpy().astype("float32") - 3) * 0.5)


def test_float_types_are_declined():
    graph = amanda.Graph("amanda/torch/2.13.0")
    x = graph.parameter(amanda.parse_type("float32[6, 32]"), "x")
    attrs = {"scale": 0.5, "zero_point": 0, "quant_min": -448, "quant_max": 448,
             "dtype": amanda.types.DType("float8_e4m3fn")}  # fmt: skip
    op = graph.add("quantized_decomposed.quantize_per_tensor.default", [x], attrs)
    graph.result(op.output)
    with pytest.raises(ConversionError, match="quantization to float8_e4m3fn"):
        amanda.convert(graph, "std")


# -- torchao -------------------------------------------------------------------------


BLOCKS = {
    "tensor": ([6, 32], []), "rows": ([1, 32], [6]), "columns": ([6, 1], [32]),
    "groups": ([1, 8], [6, 4]), "tiles": ([3, 8], [2, 4]),
    "elements": ([1, 1], [6, 32]),
}  # fmt: skip


def spread(value, blocks):
    """A value for each element, from one for each block."""
    counts = [6 // blocks[0], 32 // blocks[1]]
    rows = np.asarray(value).reshape(counts)
    return rows.repeat(blocks[0], axis=0).repeat(blocks[1], axis=1)


@pytest.mark.parametrize("backend", ["numpy", "onnxruntime"])
@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_of_torchao(name, backend):
    blocks, shape = BLOCKS[name]
    random = np.random.default_rng(5)
    scale = np.float32(2.0 ** random.integers(-7, -4, shape))
    zero = np.asarray(random.integers(-9, 9, shape), "int8")
    graph = amanda.Graph("amanda/torch/2.13.0")
    x = graph.parameter(amanda.parse_type("float32[6, 32]"), "x")
    given = [x, graph.constant(scale).output, graph.constant(zero).output]
    limits = {"block_size": blocks, "quant_min": -100, "quant_max": 127}
    steps = add_affine(graph, "quantize", given, **limits, output_dtype="int8")
    given[0] = steps
    graph.result(steps)
    graph.result(add_affine(graph, "dequantize", given, **limits, input_dtype="int8"))
    found = amanda.run(graph, {"x": X.numpy()}, backend=backend).values()
    by_element, zeros = spread(scale, blocks), spread(zero, blocks).astype("float32")
    q = np.clip(np.round(X.numpy() / by_element) + zeros, -100, 127)
    for have, want in zip(found, (q, (q - zeros) * by_element), strict=True):
        np.testing.assert_array_equal(have, want)


def add_affine(graph, kind, inputs, **attrs):
    attrs = {k: amanda.types.DType(v) if "dtype" in k else v for k, v in attrs.items()}
    op = graph.add(f"torchao.{kind}_affine.default", inputs, attrs)
    for port, name in zip(
        op.input_ports, ("input", "scale", "zero_point"), strict=True
    ):
        port.set_name(name)
    result = "int8" if kind == "quantize" else "float32"
    op.output.type = amanda.parse_type(f"{result}[6, 32]")
    return op.output


@pytest.mark.parametrize(
    ("kind", "scale", "zero"),
    [
        ("ASYMMETRIC", lambda low, high: (high - low) / 255,
         lambda low, scale: np.clip(-128 - np.round(low / scale), -128, 127)),
        ("SYMMETRIC", lambda low, high: np.maximum(-low, high) / 127.5,
         lambda low, _: np.zeros_like(low)),
        ("SYMMETRIC_NO_CLIPPING_ERR",
         lambda low, high: np.maximum(low / -128, high / 127),
         lambda low, _: np.zeros_like(low)),
    ],
)  # fmt: skip
def test_parameters_of_torchao(kind, scale, zero):
    graph = amanda.Graph("amanda/torch/2.13.0")
    x = graph.parameter(amanda.parse_type("float32[6, 32]"), "x")
    int8 = amanda.types.DType("int8")
    attrs = {"mapping_type": kind, "block_size": [1, 8], "target_dtype": int8,
             "eps": None, "zero_point_dtype": int8}  # fmt: skip
    op = graph.add("torchao.choose_qparams_affine.default", [x], attrs, outputs=2)
    op.input_ports[0].set_name("input")
    for port in op.outputs:
        graph.result(port)
    found = amanda.run(graph, {"x": X.numpy()}, backend="numpy").values()
    groups = X.numpy().reshape(6, 4, 8)
    low = np.minimum(groups.min(-1), 0)
    steps = scale(low, np.maximum(groups.max(-1), 0))
    for have, want in zip(found, (steps, zero(low, steps)), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-6)
    assert have.dtype == "int8"


def test_a_weight_of_another_class_is_declined():
    graph = amanda.Graph("amanda/torch/2.13.0")
    x = graph.parameter(amanda.parse_type("float32[6, 32]"), "x")
    kind = "export.access_subclass_inner_tensor.default"
    graph.result(graph.add(kind, [x], {"attr": "qdata"}).output)
    with pytest.raises(ConversionError, match=r"call run_decompositions\("):
        amanda.convert(graph, "std")
