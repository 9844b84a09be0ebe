"""The backend `tensorflow`: samples of the hub's ops, run by TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

import amanda
from amanda.errors import AmandaError, BackendError, UsageError
from amanda.graph import VALUE_NOTE
from amanda.testing import BackendSample, BackendSuite
from amanda.types import DType, Shape, Sym, TensorType
from amanda_std import ops, trace
from amanda_std.backends import op_samples

pytest.importorskip("tensorflow", reason="needs TensorFlow, which is the backend")


def softmax():
    graph = trace(ops.softmax, [amanda.parse_type("float32[n, 2]")])
    return BackendSample(graph, [np.ones((1, 2), "f")], [np.full((1, 2), 0.5, "f")])


class TestBackend(BackendSuite):
    backend = "tensorflow"
    late = ("numpy", "tensorflow")

    def samples(self):
        return {"softmax": softmax}


DECLINED = {
    "allocate_0": "memory of a device is not a value of TensorFlow's graphs",
    "assign_0": "its input is a variable, which a graph has inside",
    "assign_add_0": "as assign",
    "assign_subtract_0": "as assign",
    "host_callback_0": "a GraphDef has no functions of Python",
    "map_get_0": "maps are values of ONNX",
    "map_keys_0": "as map_get",
    "map_values_0": "as map_get",
    "map_vectorize_0": "as map_get",
    "optional_0": "its result is an optional",
    "read_0": "as assign",
    "transfer_0": "devices are those of the executable",
    "tuple_get_0": "tuples are values of the hub",
}
"""Samples of ops that TensorFlow lacks, with the reason."""


@pytest.mark.most_cases(1)
@pytest.mark.parametrize("part", range(3))
def test_samples_of_the_hub_pass_or_are_declined(part):
    declined, wrong, passed = [], [], 0
    samples = dict([*op_samples(ops.OPS, 1).items()][part::3])
    for name, make in samples.items():
        try:
            sample = make()
            feeds = dict(zip(sample.graph.parameters, sample.feeds, strict=True))
            results = amanda.compile(sample.graph, backend="tensorflow")(feeds)
        except AmandaError:
            declined.append(name)
            continue
        for got, expected in zip(_as_list(results), sample.expected, strict=True):
            wide = np.asarray(got, np.result_type(np.asarray(expected)))
            if wide.shape != np.shape(expected) or not np.allclose(
                wide, expected, rtol=2e-3, atol=1e-5, equal_nan=True
            ):
                wrong.append(name)
        passed += 1
    assert wrong == []
    assert set(declined) == DECLINED.keys() & samples.keys()
    assert passed >= 105


def growing_sequence(x, n):
    """The first elements of x, one more in each element of a sequence."""

    def grow(i, xs):
        end = i + np.int64(1)
        return end, ops.sequence_insert(xs, ops.slice_(x, [0], ops.reshape(end, [1])))

    start = np.int64(0), ops.sequence_empty(dtype="float32")
    _, xs = ops.while_(lambda i, xs: ops.less(i, n), grow, *start)
    rest = ops.sequence_erase(xs)
    return (
        ops.sequence_length(rest), ops.sequence_at(xs, np.int64(-1)),
        ops.concat_from_sequence(xs),
    )  # fmt: skip


def test_a_loop_carries_a_sequence():
    kinds = [amanda.parse_type("float32[4]"), amanda.parse_type("int64[]")]
    graph = trace(growing_sequence, kinds)
    run = amanda.compile(graph, backend="tensorflow")
    x = np.array([1, 2, 3, 4], "f")
    for n in (1, 3, 4):
        length, last, joined = _as_list(run([x, np.int64(n)]))
        assert length == n - 1
        np.testing.assert_array_equal(last, x[:n])
        rows = np.concatenate([x[: i + 1] for i in range(n)])
        np.testing.assert_array_equal(joined, rows)


def split_by(x, sizes):
    parts = ops.split_to_sequence(x, sizes)
    return ops.sequence_at(parts, np.int64(1)), ops.sequence_length(parts)


def rows_and_columns(x, i):
    slices = ops.split_to_sequence(x, axis=1, keepdims=False)
    wide = ops.split_to_sequence(x, axis=1)
    return (
        ops.concat_from_sequence(slices, axis=1, new_axis=True),
        ops.sequence_at(wide, i),
    )


@pytest.mark.parametrize(
    ("function", "second"),
    [(split_by, np.array([1, 0, 2])), (rows_and_columns, np.int64(-2))],
)
def test_sequences_are_lists_of_tensors(function, second):
    x = np.arange(12, dtype="f").reshape(3, 4)
    shape = ", ".join(map(str, np.shape(second)))
    kinds = [amanda.parse_type("float32[3, 4]"), amanda.parse_type(f"int64[{shape}]")]
    graph = trace(function, kinds)
    got, expected = (
        _as_list(amanda.compile(graph, backend)([x, second]))
        for backend in ("tensorflow", "numpy")
    )
    for value, wanted in zip(got, expected, strict=True):
        np.testing.assert_array_equal(value, wanted)


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("sizes", [None, [4, 5], [2, 8]])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft"])
def test_fourier_transforms(name, sizes, norm):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(4, 3, 5))
    if name != "rfft":
        x = x + 1j * rng.normal(size=x.shape)
    kind = amanda.parse_type(f"{x.dtype}[4, 3, 5]")

    def transform(x):
        return getattr(ops, name)(x, sizes, axes=[0, 2], norm=norm)

    graph = trace(transform, [kind])
    (got,) = _as_list(
        amanda.compile(graph, backend="tensorflow")({graph.parameters[0]: x})
    )
    expected = getattr(np.fft, f"{name}n")(x, sizes, (0, 2), norm)
    np.testing.assert_allclose(got, expected, atol=1e-12)


def test_graphs_with_bodies_of_the_same_name_share_a_process():
    for factor in (2.0, 3.0):

        def model(x, factor=factor):
            return ops.while_(
                lambda x: ops.less(ops.sum(x), 50.0), lambda x: [x * factor], x
            )

        graph = trace(model, [amanda.parse_type("float32[2]")])
        run = amanda.compile(graph, backend="tensorflow")
        (got,) = _as_list(run({graph.parameters[0]: np.ones(2, "f")}))
        expected = np.ones(2)
        while expected.sum() < 50:
            expected = expected * factor
        np.testing.assert_allclose(got, expected)


def placeholder_graph(default):
    """x * d, with placeholders as ops: d need not be fed. A variable counts calls."""
    graph = amanda.Graph("amanda/tensorflow/2.21.0")
    floats = {"dtype": amanda.DType("float32")}
    x = graph.add("Placeholder", [], {**floats, "shape": Shape([2])}, name="x")
    three = graph.constant(np.float32(default)).output
    d = graph.add("PlaceholderWithDefault", [three], {"shape": Shape([])}, name="d")
    graph.add("Mul", [x.output, d.output], {}, name="y")
    return graph


@pytest.mark.parametrize("backend", ["tensorflow", "tensorflow:cpu", "numpy"])
def test_placeholders_are_inputs(backend):
    x = np.array([1, 2], "f")
    for default in (3, 4):  # graphs that differ in a default alone
        run = amanda.compile(placeholder_graph(default), backend)
        assert [slot.key for slot in run.inputs] == ["x", "d"]
        np.testing.assert_array_equal(run({"x": x})["y"], x * default)
        np.testing.assert_array_equal(run({"d": np.float32(5), "x": x})["y"], x * 5)
        with pytest.raises(UsageError, match="no feed for 'x'"):
            run({"d": np.float32(5)})
    graph = placeholder_graph(3)
    found = amanda.run(graph, {"x": x}, targets=["y", "d"], backend=backend)
    np.testing.assert_array_equal(found["y"], x * 3)
    assert found["d"] == 3
    assert len(graph) == 4  # the graph of the caller keeps its ops


def test_devices_are_chosen_by_name():
    graph = placeholder_graph(3)
    run = amanda.compile(graph, "tensorflow", device="cpu")
    assert run.device == "cpu"
    with pytest.raises(BackendError, match="no device 'gpu:99'"):
        amanda.compile(graph, "tensorflow:gpu:99")


def test_variables_keep_their_values_between_calls():
    graph = amanda.Graph("amanda/tensorflow/2.21.0")
    floats = {"dtype": amanda.DType("float32")}
    handle = graph.add("VarHandleOp", [], {**floats, "shape": Shape([]),
                                           "shared_name": "v"}, name="v")  # fmt: skip
    handle.attrs[VALUE_NOTE] = amanda.Tensor.of(np.float32(10))
    x = graph.add("Placeholder", [], {**floats, "shape": Shape([])}, name="x")
    add = graph.add("AssignAddVariableOp", [handle.output, x.output], {}, outputs=0)
    read = graph.add("ReadVariableOp", [handle.output], floats, name="now")
    graph.control(add, read)
    run = amanda.compile(graph, "tensorflow")
    values = [float(run({"x": np.float32(n)})["now"]) for n in (1, 2)]
    assert values == [11, 13]
    assert run.state["v"] == 13
    run.state["v"] = np.float32(0)
    assert run({"x": np.float32(5)})["now"] == 5
    run.state.reset()
    assert run({"x": np.float32(5)})["now"] == 15


def _as_list(results):
    if isinstance(results, dict):
        return list(results.values())
    return list(results) if isinstance(results, list | tuple) else [results]


@pytest.mark.parametrize("groups", [1, 2])
def test_transposed_convolutions_of_any_batch(groups):
    x, w = (np.random.default_rng(0).normal(size=s).astype("f")
            for s in ((2, 4, 5, 3), (4, 2, 3, 2)))  # fmt: skip

    def function(x):
        return ops.conv_transpose(x, w, strides=(2, 1), groups=groups)

    graph = trace(function, [TensorType("float32", [Sym.named("n"), 4, 5, 3])])
    found, expected = (
        amanda.run(graph, [x], backend=name)[0] for name in ("tensorflow", "numpy")
    )
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_colocations_with_inputs_are_no_obstacle():
    graph = amanda.Graph("amanda/tensorflow/2.21.0")
    x = graph.parameter(TensorType("float32", [2]), "x")
    attrs = {"T": DType("float32"), "_class": ["loc:@x"]}
    y = graph.add("Neg", [x], attrs, name="y").output
    y.type = x.type
    graph.result(y, "y")
    (found,) = amanda.run(graph, [np.ones(2, "f")], backend="tensorflow").values()
    assert found.tolist() == [-1, -1]


def test_conditionals_without_results():
    def function(x):
        v = ops.variable(np.zeros(2, "float32"), key="v")

        def add(x):
            ops.assign_add(v, x)
            return ()

        ops.if_(ops.greater(ops.sum(x), 0.0), add, lambda x: (), x)
        return ops.read(v)

    run = amanda.compile(trace(function, [TensorType("float32", [2])]), "tensorflow")
    for expected in (1.0, 2.0):
        assert run([np.ones(2, "f")])[0].tolist() == [expected] * 2
