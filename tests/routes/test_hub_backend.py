"""A third party's backend for the hub: 22 kernels run what composites are made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pytest

import amanda
from amanda.errors import BackendError
from amanda.graph import Graph, Op, OutputPort
from amanda.types import DType, parse_type

pytest.importorskip("amanda_std")

from amanda_std import ops, trace


def windows(x: Any, size: Any, strides: Any, padding: Any, fill: float) -> Any:
    """Windows over the axes of space, which come last."""
    space = len(size)
    pads = [(0, 0), (0, 0), *(padding or [(0, 0)] * space)]
    x = np.pad(x, pads, constant_values=fill)
    axes = tuple(range(2, 2 + space))
    found = np.lib.stride_tricks.sliding_window_view(x, size, axis=axes)
    steps = (slice(None, None, step) for step in strides or (1,) * space)
    return found[(slice(None), slice(None), *steps)]


def conv(x: Any, w: Any, *, strides: Any = None, padding: Any = None) -> Any:
    found = windows(x, w.shape[2:], strides, padding, 0.0)
    return np.einsum("nchwij,ocij->nohw", found, w)


def max_pool(x: Any, *, window: Any, strides: Any = None, padding: Any = None) -> Any:
    return windows(x, window, strides, padding, -np.inf).max((-2, -1))


def erf(x: Any) -> Any:
    return np.vectorize(math.erf)(x).astype(x.dtype)


def total(x: Any, *, axes: Any, keepdims: bool = False) -> Any:
    return x.sum(axes, keepdims=keepdims)


def largest(x: Any, *, axes: Any, keepdims: bool = False) -> Any:
    return x.max(axes, keepdims=keepdims)


KERNELS: dict[str, Callable[..., Any]] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply,
    "divide": np.divide, "maximum": np.maximum, "minimum": np.minimum,
    "matmul": np.matmul, "sqrt": np.sqrt, "exp": np.exp, "erf": erf,
    "greater_equal": np.greater_equal, "less_equal": np.less_equal,
    "logical_and": np.logical_and, "sum": total, "max": largest,
    "conv": conv, "max_pool": max_pool,
    "astype": lambda x, *, dtype: x.astype(DType(dtype).numpy),
    "reshape": lambda x, *, shape: x.reshape(shape),
    "transpose": lambda x, *, perm: x.transpose(perm),
    "gather": lambda x, indices, *, axis=0: x.take(indices, axis),
}  # fmt: skip


class SmallBackend:
    """Runs the kernels above, one after the other."""

    name = "small"
    namespace = "amanda/std/1"

    def __init__(self, *without: str) -> None:
        self.kernels = {k: v for k, v in KERNELS.items() if k not in without}
        self.compiled: list[Graph] = []

    def devices(self) -> Sequence[str]:
        return ["cpu"]

    def takes(self, op: Op) -> Literal[True] | str:
        return op.type in self.kernels or f"there is no kernel for {op.type}"

    def compile(
        self, graph: Graph, device: str | None, options: Mapping[str, Any]
    ) -> Callable[..., Sequence[Any]]:
        del device, options
        self.compiled.append(graph)

        def run(feeds: Mapping[Any, Any], out: Any = None) -> Sequence[Any]:
            del out
            values: dict[OutputPort | None, Any] = {}
            values.update(zip(graph.parameters, feeds.values(), strict=True))
            for op in graph:
                values[op.outputs[0]] = self.result(op, values)
            return [values[port] for port in graph.results]

        return run

    def result(self, op: Op, values: Mapping[OutputPort | None, Any]) -> Any:
        if op.type == "constant":
            return op.attrs["value"].numpy()
        return self.kernels[op.type](*(values[v] for v in op.inputs), **op.attrs)


def weight(*shape: int) -> Any:
    size = int(np.prod(shape))
    return (np.sin(np.arange(size) * 1.7) * 0.3).astype("float32").reshape(shape)


def resnet(x: Any) -> Any:
    """A stem, a residual block and a classifier."""
    pads = [[1, 1], [1, 1]]

    def block(x: Any, channels: int, **options: Any) -> Any:
        w = weight(8, channels, 3, 3)
        y = ops.conv(x, w, padding=pads, **options)
        scale, bias, mean, var = (weight(8) + i for i in (1, 0, 0, 2))
        return ops.batch_norm(y, scale, bias, mean, var)

    y = ops.relu(block(x, 3, strides=[2, 2]))
    y = ops.max_pool(y, window=[3, 3], strides=[2, 2], padding=pads)
    y = ops.relu(ops.add(y, block(ops.relu(block(y, 8)), 8)))
    y = ops.mean(y, axes=[2, 3])
    return ops.softmax(ops.linear(y, weight(8, 5), weight(5)), axes=[1])


def bert(ids: Any) -> Any:
    """An embedding and two layers of a transformer."""

    def heads(h: Any) -> Any:
        y = ops.linear(h, weight(16, 16), weight(16))
        return ops.transpose(ops.reshape(y, [2, 7, 4, 4]), perm=[0, 2, 1, 3])

    def norm(h: Any) -> Any:
        return ops.layer_norm(h, weight(16) + 1, weight(16))

    h = ops.add(ops.take(weight(50, 16), ids, axis=0), weight(7, 16))
    for _ in range(2):
        y = ops.attention(heads(h), heads(h), heads(h))
        y = ops.reshape(ops.transpose(y, perm=[0, 2, 1, 3]), [2, 7, 16])
        h = norm(ops.add(h, ops.linear(y, weight(16, 16))))
        y = ops.gelu(ops.linear(h, weight(16, 32)))
        h = norm(ops.add(h, ops.linear(y, weight(32, 16))))
    return h


IMAGES = np.random.default_rng(0).standard_normal((2, 3, 32, 32)).astype("float32")
IDS = np.arange(14).reshape(2, 7) % 50


@pytest.fixture
def host() -> amanda.Host:
    return amanda.Host()


def small(host: amanda.Host, *without: str) -> SmallBackend:
    backend = SmallBackend(*without)
    host.register_backend("small", backend)
    return backend


@pytest.mark.parametrize(
    ("model", "type", "feed"),
    [(resnet, "float32[2, 3, 32, 32]", IMAGES), (bert, "int64[2, 7]", IDS)],
)
def test_models_of_composites(
    host: amanda.Host, model: Any, type: str, feed: Any
) -> None:
    graph = trace(model, [parse_type(type)])
    backend = small(host)
    before = [op.type for op in graph]
    [found] = amanda.run(graph, [feed], backend="small", host=host).values()
    [expected] = amanda.run(graph, [feed], backend="numpy", host=host).values()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert [op.type for op in graph] == before
    assert not {"relu", "softmax", "gelu"} & {op.type for op in backend.compiled[0]}
    assert amanda.plan(graph, "small", host=host).is_clear


def test_a_graph_that_is_supported_is_compiled_as_it_is(host: amanda.Host) -> None:
    graph = trace(ops.exp, [parse_type("float32[3]")])
    backend = small(host)
    amanda.run(graph, [np.float32([0, 1, 2])], backend="small", host=host)
    assert backend.compiled == [graph]


def test_a_gap_is_named_with_the_op_that_needs_it(host: amanda.Host) -> None:
    graph = trace(lambda x: ops.sinh(ops.relu(x)), [parse_type("float32[3]")])
    graph.rename(graph.ops[0], "first")
    small(host, "maximum")
    with pytest.raises(BackendError) as caught:
        amanda.compile(graph, "small", host=host)
    assert [str(each) for each in caught.value.problems] == [
        "relu 'first': its definition needs maximum: there is no kernel for maximum",
        "sinh #1: there is no kernel for sinh",
    ]
    plan = amanda.plan(graph, "small", host=host)
    assert tuple(map(str, plan.refusals)) == caught.value.problems


def test_what_cannot_be_lowered_goes_whole_to_the_fallback(host: amanda.Host) -> None:
    graph = trace(lambda x: ops.relu(ops.softmax(x, axes=[0])), [parse_type("f32[3]")])
    backend = small(host, "maximum")
    compiled = amanda.compile(graph, "small", fallback="numpy", host=host)
    first, second = compiled.executable.report().pieces
    assert (first.backend, second.backend) == ("small", "numpy")
    assert [op.partition(" ")[0] for op in second.ops] == ["relu"]
    found = compiled([np.float32([1, 2, 3])])
    expected = amanda.run(graph, [np.float32([1, 2, 3])], backend="numpy", host=host)
    np.testing.assert_allclose([*found.values()], [*expected.values()], rtol=1e-6)
    assert "softmax" not in {op.type for op in backend.compiled[0]}


def test_values_inside_are_found_by_handles_of_the_graph(host: amanda.Host) -> None:
    graph = trace(lambda x: ops.exp(ops.relu(x)), [parse_type("float32[2]")])
    small(host)
    relu = graph.ops[0].output
    found = amanda.run(graph, [np.float32([-1, 1])], [relu], backend="small", host=host)
    assert found[relu].tolist() == [0, 1]


def test_functions_and_nested_graphs_are_inlined(host: amanda.Host) -> None:
    @amanda.function
    def twice(x: Any) -> Any:
        return ops.relu(x) * 2.0

    inner = trace(ops.relu, [parse_type("float32[2]")])
    graph = trace(lambda x: twice(twice(x)), [parse_type("float32[2]")])
    result = graph.results[0]
    graph.remove_result(0)
    graph.result(graph.add_graph(inner, [result]).output)
    small(host)
    assert graph.functions
    [found] = amanda.run(
        graph, [np.float32([-1, 3])], backend="small", host=host
    ).values()
    assert found.tolist() == [0, 12]


def test_a_custom_op_in_a_graph_of_the_hub(host: amanda.Host) -> None:
    @amanda.custom_op("com.acme/ops@1", "Swish(x: T) -> (y: T)  T in {f32}", host=host)
    def swish(x: Any) -> Any:
        return x / (1 + np.exp(-x))

    @swish.to("amanda/std/1")
    def _(o: Any, x: Any) -> Any:
        return o.divide(x, o.add(1.0, o.exp(o.multiply(x, -1.0))))

    graph = Graph("amanda/std/1")
    x = graph.parameter(parse_type("float32[2]"))
    graph.result(swish.add(graph, x))
    small(host)
    feed = np.float32([-1, 3])
    [found] = amanda.run(graph, [feed], backend="small", host=host).values()
    np.testing.assert_allclose(found, swish(feed), rtol=1e-6)


def test_a_foreign_op_that_a_mapping_supports_is_mapped(host: amanda.Host) -> None:
    pytest.importorskip("amanda_onnx")
    graph = Graph("amanda/std/1")
    x = graph.parameter(parse_type("float32[2]"))
    graph.result(graph.add("Relu", [x], namespace="amanda/onnx/18").output)
    assert [op.type for op in amanda.convert(graph, "std", host=host)] == ["relu"]
    small(host)
    feed = np.float32([-1, 3])
    for backend in ("small", "numpy"):
        [found] = amanda.run(graph, [feed], backend=backend, host=host).values()
        assert found.tolist() == [0, 3]
