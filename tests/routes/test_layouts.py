"""Ops of the hub in every layout, converted to ONNX and run by onnxruntime."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest

import amanda
from amanda.errors import BackendError
from amanda.graph import Graph
from amanda.tensors import Tensor
from amanda.types import TensorType

pytest.importorskip("onnxruntime")
pytest.importorskip("amanda_onnx")

OPS = (
    "conv", "conv_transpose", "max_pool", "avg_pool", "global_avg_pool",
    "global_max_pool", "conv_integer", "quantized_conv", "depth_to_space",
    "space_to_depth", "batch_norm", "group_norm", "instance_norm", "layer_norm",
)  # fmt: skip
MOST = 6
"""Samples of each op."""
LAYOUTS = ("NC*", "N*C")
KERNELS = {"conv_transpose": ("IO*", "OI*", "*IO", "*OI")}


def to_single(x: Any) -> Any:
    """Floats in single precision: onnxruntime convolves no other."""
    is_float = isinstance(x, np.ndarray) and x.dtype.kind not in "biuOSU"
    return x.astype("float32") if is_float else x


def to_layout(x: Any, own: str, wanted: str) -> Any:
    """Data or a kernel in another layout, by the letters of both."""
    spatial = "XYZ"[: x.ndim - 2]
    here, there = (each.replace("*", spatial) for each in (own, wanted))
    return np.ascontiguousarray(x.transpose([here.index(axis) for axis in there]))


def variants() -> Iterator[Any]:
    """Samples of every op, in every layout of data and of kernels."""
    from amanda_std.ops import OPS as DEFINITIONS

    for name in OPS:
        if name not in DEFINITIONS:
            continue
        form, rule = DEFINITIONS[name].form, DEFINITIONS[name].samples_rule
        kernels = KERNELS.get(name, ("OI*", "IO*", "*IO", "O*I"))
        at = [param.name for param in form.params]
        for i, sample in enumerate(islice(rule() if rule else (), MOST)):
            own = sample.attrs.get("layout", form.attributes.get("layout"))
            kernel = sample.attrs.get(
                "kernel_layout", form.attributes.get("kernel_layout")
            )
            for layout in LAYOUTS if own else (None,):
                for wanted in kernels if kernel else (None,):
                    args, attrs = [*map(to_single, sample.args)], dict(sample.attrs)
                    if own:
                        args[0] = to_layout(args[0], own, layout)
                        attrs["layout"] = layout
                    if kernel:
                        w = at.index("w")
                        args[w] = to_layout(args[w], kernel, wanted)
                        attrs["kernel_layout"] = wanted
                    case = f"{name} {i} {layout} {wanted}"
                    yield pytest.param(name, args, attrs, id=case)


def build(name: str, args: list[Any], attrs: dict[str, Any], fed: int) -> Graph:
    """A graph of one op, of whose inputs the first are fed."""
    from amanda_std import Value, ops, tracing

    graph = Graph("amanda/std/1")
    values: list[Any] = []
    with tracing(graph):
        for i, arg in enumerate(args):
            if not isinstance(arg, np.ndarray):
                values.append(arg)
            elif i < fed:
                type_ = TensorType(Tensor.of(arg).dtype, arg.shape)
                values.append(Value(graph.parameter(type_, f"x{i}")))
            else:
                values.append(Value(graph.constant(Tensor.of(arg)).output))
        made = ops.find(name)(*values, **attrs)
    for i, each in enumerate(made if isinstance(made, tuple | list) else (made,)):
        graph.result(each.port, f"y{i}")
    return graph


def run_onnx(graph: Graph, feeds: dict[Any, Any]) -> dict[Any, Any]:
    """The results of onnxruntime; of onnx's reference where that has no kernel.

    It lacks kernels of int64, and of zero points per channel."""
    try:
        return amanda.run(graph, feeds, backend="onnxruntime")
    except BackendError:
        import onnx
        from onnx.reference import ReferenceEvaluator

        from amanda_onnx.format import Format

        model = onnx.load_from_string(Format().dumps(graph))
        onnx.checker.check_model(model, full_check=True)
        found = ReferenceEvaluator(model).run(None, feeds)
    return {port.name: value for port, value in zip(graph.outputs, found, strict=True)}


CASES = list(variants())


@pytest.mark.parametrize("fed", [1, 9])
@pytest.mark.parametrize(("name", "args", "attrs"), CASES)
def test_every_layout_runs_on_onnxruntime(
    name: str, args: list[Any], attrs: dict[str, Any], fed: int
) -> None:
    graph = build(name, args, attrs, fed)
    feeds = {p.name: args[int((p.name or "x0")[1:])] for p in graph.parameters}
    want = amanda.run(graph, feeds, backend="numpy")
    onnx = amanda.convert(graph, "onnx@21")
    got = run_onnx(onnx, feeds)
    for key, value in want.items():
        assert (got[key].dtype, got[key].shape) == (value.dtype, value.shape)
        np.testing.assert_allclose(
            got[key].astype("float64"), value.astype("float64"), rtol=1e-4, atol=1e-5
        )


def test_transposes_between_ops_cancel() -> None:
    """A channels-last network has two transposes in ONNX, and none of its weights."""
    from amanda_std import ops

    rng = np.random.default_rng(3)
    first, second = (
        rng.standard_normal(shape).astype("float32")
        for shape in ((3, 3, 4, 8), (3, 3, 8, 8))
    )

    def network(x: Any) -> Any:
        y = ops.conv(x, first, layout="N*C", kernel_layout="*IO", padding="same_upper")
        y = ops.max_pool(ops.relu(y), window=(2, 2), strides=(2, 2), layout="N*C")
        y = ops.conv(y, second, layout="N*C", kernel_layout="*IO")
        return ops.avg_pool(ops.relu(y), window=(2, 2), layout="N*C")

    from amanda_std import trace

    graph = trace(network, [amanda.parse_type("float32[2, 8, 8, 4]")])
    onnx = amanda.convert(graph, "onnx@21")
    types = [op.type for op in onnx if not op.is_constant]
    assert sorted(types) == sorted(
        ["Transpose", "Conv", "Relu", "MaxPool", "Conv", "Relu", "AveragePool",
         "Transpose"]
    )  # fmt: skip
    x = rng.standard_normal((2, 8, 8, 4)).astype("float32")
    got = amanda.run(onnx, [x], backend="onnxruntime")
    want = amanda.run(graph, [x], backend="numpy")
    for a, b in zip(got.values(), want.values(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_graphs_of_the_right_layout_keep_their_transposes() -> None:
    from amanda_std import ops, trace

    def network(x: Any) -> Any:
        return ops.transpose(ops.relu(ops.transpose(x, perm=(0, 2, 1))), perm=(2, 1, 0))

    graph = trace(network, [amanda.parse_type("float32[2, 8, 4]")])
    onnx = amanda.convert(graph, "onnx@21")
    assert [op.type for op in onnx] == ["Transpose", "Relu", "Transpose"]


@pytest.mark.parametrize("computed", [False, True])
def test_the_pass_converts_kernels(computed: bool) -> None:
    from amanda_std import ops, trace

    def network(x: Any, w: Any) -> Any:
        w = w if computed else kernel
        y = ops.conv(x, w, layout="N*C", kernel_layout="*IO")
        return ops.conv_transpose(y, w, layout="N*C", kernel_layout="*OI")

    kernel = np.random.default_rng(4).standard_normal((2, 3, 4, 5)).astype("float32")
    types = ["float32[1, 6, 7, 4]", "float32[2, 3, 4, 5]"]
    graph = trace(network, [*map(amanda.parse_type, types)])
    x = np.random.default_rng(5).standard_normal((1, 6, 7, 4)).astype("float32")
    want = amanda.run(graph, [x, kernel], backend="numpy")
    amanda.improve(graph, "channels_first")
    laid = [op for op in graph if op.type in ("conv", "conv_transpose")]
    assert [op.attrs.get("layout", "NC*") for op in laid] == ["NC*", "NC*"]
    assert all("kernel_layout" not in op.attrs for op in laid)
    count = sum(op.type == "transpose" and op.output.is_used for op in graph)
    assert count == (4 if computed else 2)
    assert amanda.improve(graph, "channels_first") is not None
    got = amanda.run(graph, [x, kernel], backend="numpy")
    for a, b in zip(got.values(), want.values(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
