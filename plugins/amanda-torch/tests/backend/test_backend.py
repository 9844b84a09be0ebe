"""The backend `torch`: the inherited checks, devices, feeds and results, gradients."""

from __future__ import annotations

import numpy as np
import pytest

import amanda
from amanda.errors import BackendError, UsageError
from amanda.testing import BackendSuite
from amanda.types import parse_type
from amanda_std import ops, trace
from amanda_std.backends import State, op_samples

torch = pytest.importorskip("torch")


class TestTorch(BackendSuite):
    backend = "torch"
    device = "cpu"
    late = ("torch", "numpy")

    def samples(self):
        names = ("add", "softmax", "conv", "max_pool", "gather", "if", "topk", "qr")
        return op_samples(names, most=2)


def compiled(function, *types, **options):
    names = ["x", "y", "z"][: len(types)]
    graph = trace(function, [parse_type(t) for t in types], names=names)
    return amanda.compile(graph, "torch", "cpu", **options)


def result(executable, *feeds):
    return next(iter(executable(list(feeds)).values()))


# -- devices and options -------------------------------------------------------------


def test_devices_are_named():
    devices = amanda.default_host().get("backends", "torch").devices()
    assert devices[-1] == "cpu"
    executable = compiled(ops.tanh, "float32[n]").executable
    assert executable.report().device == "cpu"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_an_absent_device_says_what_to_do():
    graph = trace(ops.tanh, [parse_type("float32[n]")])
    with pytest.raises(BackendError, match="this PyTorch has no CUDA device"):
        amanda.compile(graph, "torch:cuda:0")


def test_unknown_options_are_refused():
    with pytest.raises(BackendError, match="has no option 'threads'"):
        compiled(ops.tanh, "float32[n]", threads=2)
    with pytest.raises(BackendError, match="option 'results'"):
        compiled(ops.tanh, "float32[n]", results="jax")


def test_the_report_names_what_runs_each_op():
    executable = compiled(lambda x: ops.dawsn(ops.softmax(x)), "float64[n]")
    rows = {
        row.type: row.name for row in executable.executable.report().implementations
    }
    assert rows["softmax"] == "amanda_torch.backend.kernels.layers.softmax"
    assert rows["dawsn"].startswith("its definition, over numpy arrays")


# -- feeds and results ---------------------------------------------------------------


def test_arrays_give_arrays_and_tensors_give_tensors():
    double = compiled(lambda x: x + x, "float32[n]")
    x = np.float32([1, 2])
    assert isinstance(result(double, x), np.ndarray)
    assert isinstance(result(double, torch.from_numpy(x)), torch.Tensor)
    as_torch = compiled(lambda x: x + x, "float32[n]", results="torch")
    assert isinstance(result(as_torch, x), torch.Tensor)
    as_numpy = compiled(lambda x: x + x, "float32[n]", results="numpy")
    assert isinstance(result(as_numpy, torch.from_numpy(x)), np.ndarray)


@pytest.mark.parametrize(
    "dtype",
    ["bool", "uint8", "uint16", "uint32", "uint64", "int64", "float16", "bfloat16",
     "float8_e4m3fn", "float8_e5m2", "complex64"],
)  # fmt: skip
@pytest.mark.parametrize("writeable", [True, False])
def test_elements_are_not_copied_on_the_way_in(dtype, writeable):
    from amanda_torch.backend.arrays import to_numpy, to_tensor

    array = np.array([0, 1, 1]).astype(amanda.DType(dtype).numpy)
    array.flags.writeable = writeable
    tensor = to_tensor(array, torch.device("cpu"))
    assert str(tensor.dtype) == f"torch.{dtype}"
    assert tensor.data_ptr() == array.ctypes.data
    back = to_numpy(tensor)
    assert back.dtype == array.dtype
    assert back.ctypes.data == array.ctypes.data


def test_elements_that_pytorch_does_not_have_stay_with_numpy():
    split = compiled(lambda x: ops.string_upper(x), "string[n]")
    assert result(split, np.array(["a", "b"], object)).tolist() == ["A", "B"]
    int4 = amanda.DType("int4")
    cast = compiled(lambda x: ops.astype(x, dtype=amanda.DType("float32")), "int4[n]")
    assert result(cast, np.array([1, -8]).astype(int4.numpy)).tolist() == [1.0, -8.0]


def test_feeds_of_another_type_are_refused():
    with pytest.raises(UsageError, match="float64, not float32"):
        compiled(ops.tanh, "float32[n]")([torch.zeros(2, dtype=torch.float64)])


def test_results_are_row_major():
    """Also from the second call on, which has packed weights."""
    weight = np.arange(216, dtype="f4").reshape(8, 3, 3, 3) / 99
    image = np.ones((2, 3, 12, 12), "f4")
    cases = [
        (lambda x: ops.conv(x, weight), image),
        (lambda x: ops.conv(x, weight), np.asfortranarray(image)),
        (ops.relu, np.asfortranarray(image)),
        (lambda x: ops.transpose(x, perm=(0, 2, 3, 1)) + np.float32(1), image),
        (lambda x: ops.broadcast_to(x[:1], (2, 3, 12, 12)), image),
    ]
    for function, feed in cases:
        graph = trace(function, [parse_type("float32[n, 3, 12, 12]")])
        wanted = result(amanda.compile(graph, "numpy"), feed)
        run = amanda.compile(graph, "torch", "cpu", results="numpy")
        for fed in (feed, feed, feed, torch.from_numpy(feed)):
            found = result(run, fed)
            assert found.flags.c_contiguous
            np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_results_share_no_memory():
    graph = amanda.Graph("amanda/std/1")
    x = graph.parameter(parse_type("float32[2, 3]"), "x")
    w = graph.constant(amanda.Tensor.of(np.float32([1, 2]))).output
    graph.result(x, "same")
    graph.result(graph.add("transpose", [x]).output, "view")
    graph.result(w, "weight")
    graph.result(graph.add("expand_dims", [w], {"axes": [0]}).output, "weights")
    executable = amanda.compile(graph, "torch", "cpu")
    feed = torch.arange(6.0).reshape(2, 3)
    found = executable([feed])
    addresses = {t.untyped_storage().data_ptr() for t in (feed, *found.values())}
    assert len(addresses) == 5
    found["weight"].fill_(7)
    assert executable([feed])["weight"].tolist() == [1, 2]


def test_a_second_call_has_the_shapes_of_its_feeds():
    total = compiled(
        lambda x: ops.sum(ops.broadcast_to(x, [2, x.shape[0]])), "float64[n]"
    )
    assert result(total, np.ones(3)) == 6
    assert result(total, np.ones(3)) == 6
    assert result(total, np.ones(5)) == 10


# -- state and random numbers --------------------------------------------------------


def test_variables_persist():
    state = State()

    def count(x):
        v = ops.variable(np.float32(1), key="v")
        return ops.assign_add(v, x)

    executable = compiled(count, "float32[]", state=state)
    assert [float(result(executable, np.float32(2))) for _ in range(2)] == [3, 5]
    assert state["v"] == 5
    state["v"] = np.float32(0)
    assert result(executable, np.float32(2)) == 2


@pytest.mark.parametrize("name", ["uniform", "normal", "bernoulli", "gumbel"])
def test_random_numbers_are_those_of_numpy(name):
    def draw(key):
        more = (np.float32(0.5),) if name == "bernoulli" else ()
        return getattr(ops, f"random_{name}")(key, *more, shape=(1000,))

    graph = trace(draw, [parse_type("uint32[2]")])
    key = np.array([7, 2**32 - 1], "uint32")
    one, other = (amanda.run(graph, [key], backend=b)[0] for b in ("numpy", "torch"))
    if name in ("normal", "gumbel"):  # a logarithm rounds
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    else:
        np.testing.assert_array_equal(one, other)


def test_random_bits_are_those_of_numpy():
    for rounds in ("threefry2x32", "philox4x32"):
        key = parse_type("uint32[3, 2]")
        count = parse_type("uint32[3, 2]" if rounds[0] == "t" else "uint32[3, 4]")
        graph = trace(getattr(ops, rounds), [key, count])
        bits = np.random.default_rng(0)
        feeds = [bits.integers(0, 2**32, t.shape, "uint32") for t in (key, count)]
        one, other = (
            amanda.run(graph, feeds, backend=b)[0] for b in ("numpy", "torch")
        )
        np.testing.assert_array_equal(one, other)


# -- gradients -----------------------------------------------------------------------


def layers(x, w, b):
    y = ops.gelu(ops.linear(x, w, b))
    y = ops.layer_norm(ops.reshape(y, [2, 2, -1]))
    return ops.sum(ops.attention(y, y, ops.softmax(y), causal=True) * y)


def test_gradients_of_results_are_those_of_pytorch():
    types = "float64[2, 3]", "float64[3, 4]", "float64[4]"
    executable = compiled(layers, *types)
    generator = torch.Generator().manual_seed(0)
    shapes = (2, 3), (3, 4), (4,)
    feeds = [torch.randn(s, dtype=torch.float64, generator=generator) for s in shapes]

    def call(*values):
        return result(executable, *values)

    for feed in feeds:
        feed.requires_grad_()
    assert call(*feeds).grad_fn is not None
    assert torch.autograd.gradcheck(call, feeds)


def test_no_gradient_by_numpy():
    dawsn = compiled(ops.dawsn, "float64[n]")
    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    with pytest.raises(BackendError, match="NumPy computes dawsn"):
        dawsn([x])
    with torch.no_grad():
        assert result(dawsn, x).shape == (2,)
