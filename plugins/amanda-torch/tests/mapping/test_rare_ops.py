"""Ops that few models use, with arguments that the op database does not have."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import amanda
from amanda.errors import ConversionError

torch = pytest.importorskip("torch", reason="computes the expected results")

sys.path.insert(0, str(Path(__file__).parents[1]))
from exported_calls import Call, normal  # noqa: E402  it imports torch

ATEN = torch.ops.aten


def check(function, *tensors, rtol=1e-5, atol=1e-5):
    """An exported call, mapped and run by numpy, returns what PyTorch returns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(Call(function), tensors, strict=False)
    graph = amanda.convert(amanda.load(program), "std")
    feeds = [tensor.numpy() for tensor in tensors]
    names = [port.name for port in graph.parameters]
    found = amanda.run(graph, dict(zip(names, feeds, strict=True)), backend="numpy")
    wanted = torch.utils._pytree.tree_leaves(function(*tensors))
    for have, want in zip(found.values(), wanted, strict=True):
        assert have.dtype == want.numpy().dtype
        np.testing.assert_allclose(have, want.numpy(), rtol=rtol, atol=atol)


@pytest.mark.parametrize("edge_order", [1, 2])
def test_gradients_by_coordinates(edge_order):
    x, rows = normal(5, 4), torch.tensor([0.0, 0.5, 2.0, 2.25, 4.0])
    columns = torch.tensor([-1.0, 0.0, 3.0, 3.5])
    order = {"edge_order": edge_order}
    check(lambda x, a, b: torch.gradient(x, spacing=(a, b), **order), x, rows, columns)
    check(lambda x, a: torch.gradient(x, spacing=(a,), dim=1, **order), x, columns)
    check(lambda x: torch.gradient(x, spacing=[0.5, 2.0], dim=[1, 0], **order), x)
    check(lambda x: torch.gradient(x, dim=[-1], **order), x)


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 4, 4)])
def test_householder_reflections(shape):
    x = normal(*shape)
    check(torch.geqrf, x)
    check(torch.geqrf, torch.triu(x))
    a, tau = torch.geqrf(x)
    for left, transpose in ((1, 0), (1, 1), (0, 0), (0, 1)):
        rows = shape[-2]
        other = normal(*shape[:-2], *((rows, 3) if left else (3, rows)))
        check(
            lambda a, t, y, m=left, f=transpose: torch.ormqr(a, t, y, bool(m), bool(f)),
            a, tau, other,
        )  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 6.0])
def test_matrix_exponentials(dtype, scale):
    x = torch.stack([normal(4, 4, dtype=dtype) * scale, torch.zeros(4, 4, dtype=dtype)])
    largest = torch.matrix_exp(x).abs().max().item()
    exact = 1e-12 if dtype == torch.float64 else 3e-6
    check(torch.matrix_exp, x, rtol=exact, atol=exact * largest)


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize("initial", [None, 0.5])
def test_segments(reduce, initial):
    lengths = torch.tensor([2, 0, 3, 1])
    check(
        lambda x, n: torch.segment_reduce(x, reduce, lengths=n, initial=initial),
        normal(6, 2), lengths,
    )  # fmt: skip


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 2])
def test_bags_of_embeddings(mode, padding):
    indices, offsets = torch.tensor([2, 1, 2, 0, 4, 2, 2]), torch.tensor([0, 3, 3, 5])
    check(
        lambda w, i, o: torch.nn.functional.embedding_bag(
            i, w, o, mode=mode, padding_idx=padding
        ), normal(5, 3), indices, offsets,
    )  # fmt: skip
    ends = torch.tensor([0, 3, 3, 5, 7])
    check(
        lambda w, i, o: torch.nn.functional.embedding_bag(
            i, w, o, mode=mode, include_last_offset=True
        ), normal(5, 3), indices, ends,
    )  # fmt: skip


def test_hashes():
    for x in (normal(3, 4, 5), torch.arange(-3, 4), torch.tensor([True, True, True])):
        check(torch.hash_tensor, x)
    check(lambda x: torch.hash_tensor(x, [0, 2]), normal(3, 4, 5))
    check(lambda x: torch.hash_tensor(x, [1], keepdim=True), normal(3, 7))


@pytest.mark.parametrize("shape", [(2, 3, 9, 7), (3, 9, 8)])
def test_fractional_pooling(shape):
    batch = shape[:-2] if len(shape) == 4 else (1, *shape[:-2])
    samples = torch.rand(*batch, 2, generator=torch.Generator().manual_seed(2))
    check(lambda x, s: ATEN.fractional_max_pool2d(x, [3, 2], [4, 3], s),
          normal(*shape), samples)  # fmt: skip
    deep = torch.rand(*batch, 3, generator=torch.Generator().manual_seed(2))
    check(lambda x, s: ATEN.fractional_max_pool3d(x, [2, 3, 2], [3, 4, 3], s),
          normal(*shape[:-2], 6, *shape[-2:]), deep)  # fmt: skip


def test_histograms_of_rows():
    x, weight = normal(30, 2), normal(30).abs()
    for density in (False, True):
        options = {"range": [-1, 1, -2, 2], "density": density}
        check(
            lambda x, w, options=options: torch.histogramdd(
                x, [3, 4], weight=w, **options
            ), x, weight,
        )  # fmt: skip
    edges = torch.tensor([-1.0, 0.0, 2.0]), torch.tensor([-2.0, -1.0, 1.0])
    check(lambda x, a, b: torch.histogramdd(x, (a, b)), x, *edges)
    check(lambda x: torch.histogramdd(x, 3), x)


def test_airy_function():
    special = pytest.importorskip("scipy.special")
    x = np.linspace(-30, 30, 1201)
    graph = amanda.load(
        torch.export.export(Call(torch.special.airy_ai), (torch.from_numpy(x),))
    )
    (found,) = amanda.run(graph, [x], backend="numpy").values()
    np.testing.assert_allclose(found, special.airy(x)[0], rtol=1e-11, atol=1e-13)


def test_other_ops():
    check(lambda x: torch.combinations(x, 1, with_replacement=True), normal(1))
    check(torch.nn.functional.silu, normal(3, dtype=torch.complex64))
    check(lambda x: torch._chunk_cat([x, x + 1], -1, 3), normal(2, 5))
    check(lambda x: torch.nn.functional.pad(x, [-3, 4, 2, -1], mode="replicate"),
          normal(1, 2, 3, 3))  # fmt: skip
    frames = normal(2, 6, 5, dtype=torch.complex64)
    check(lambda x: torch.istft(x, 6, onesided=False, return_complex=True,
                                window=torch.ones(6)), frames)  # fmt: skip
    check(lambda x: torch.istft(x, 6, onesided=False, window=torch.ones(6)), frames)
    dropout = torch.nn.functional.feature_alpha_dropout
    check(lambda x: dropout(x, 1.0, training=True), normal(2, 3, 4))


LAYERS = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def add_packed(kind, both, params, states):
    """A graph of one op, which `torch.export` does not take."""
    graph = amanda.Graph("amanda/torch/2.13.0")
    data = graph.parameter(amanda.parse_type("float32[9, 4]"), "data")
    sizes = graph.parameter(amanda.parse_type("int64[5]"), "sizes")
    lists = [graph.constant(t.numpy()).output for t in states + params]
    attrs = {"has_biases": True, "num_layers": 2, "dropout": 0.0, "train": False,
             "bidirectional": both}  # fmt: skip
    outputs = len(states) + 1
    op = graph.add(f"aten.{kind}.data", [data, sizes, *lists], attrs, outputs=outputs)
    if kind == "lstm":
        names = [f"hx.{i}" for i in range(2)] + [
            f"params.{i}" for i in range(len(params))
        ]
        for i, name in enumerate(names, 2):
            op.input_ports[i].set_name(name)
    for port in op.outputs:
        graph.result(port)
    return graph


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("kind", LAYERS)
def test_layers_of_packed_sequences(kind, both):
    """Two layers of 3 sequences with 5, 3 and 1 steps, one after another by step."""
    sizes = torch.tensor([3, 2, 2, 1, 1])
    rows, count = 5 * LAYERS[kind], 2 if both else 1
    params = [
        normal(*shape) / 3
        for width in (4, 5 * count)
        for _ in range(count)
        for shape in ((rows, width), (rows, 5), (rows,), (rows,))
    ]
    states = [normal(2 * count, 3, 5) for _ in range(1 + (kind == "lstm"))]
    data = normal(9, 4)
    hx = states if kind == "lstm" else states[0]
    wanted = getattr(ATEN, kind).data(
        data, sizes, hx, params, True, 2, 0.0, False, both
    )
    graph = add_packed(kind, both, params, states)
    found = amanda.run(graph, [data.numpy(), sizes.numpy()], backend="numpy")
    for have, want in zip(found.values(), wanted, strict=True):
        np.testing.assert_allclose(have, want.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["to_sparse", "to_sparse_csr"])
def test_sparse_tensors_are_declined(kind):
    graph = amanda.Graph("amanda/torch/2.13.0")
    x = graph.parameter(amanda.parse_type("float32[2, 3]"), "x")
    graph.result(graph.add(f"aten.{kind}.default", [x]).output)
    with pytest.raises(ConversionError, match="tensors of the hub are dense; export"):
        amanda.convert(graph, "std")


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_losses_of_linear_layers_in_chunks(reduction):
    options = torch.nn.LinearCrossEntropyOptions(batch_chunk_size=2)

    def loss(x, weight, target, bias, classes):
        return torch.nn.functional.linear_cross_entropy(
            x, weight, target, linear_bias=bias, weight=classes, reduction=reduction,
            ignore_index=1, options=options,
        )  # fmt: skip

    target = torch.tensor([0, 3, 1, 2, 2, 1, 3, 0])
    operands = normal(8, 3), normal(4, 3), target, normal(4), normal(4).abs()
    check(loss, *operands)
    check(lambda x, w, t: loss(x, w, t, None, None), *operands[:3])


@pytest.mark.parametrize("dtype", [torch.float32, torch.int8, torch.complex64])
def test_numbers_times_a_factor(dtype):
    x = (normal(2, 3) * 9).to(dtype)
    check(lambda x: torch.add(x, 100, alpha=3), x)
    check(lambda x: torch.sub(x, 2, alpha=3), x)
    check(lambda x: torch.rsub(x, 2, alpha=3), x)
    check(lambda x: x.clone().sub_(2, alpha=-3), x)
    check(lambda x: torch.add(x, x, alpha=5), x)
    check(lambda x: torch.addcmul(x, x, x, value=3), x)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.float32])
def test_negative_numbers(dtype):
    x = torch.tensor([0, 1, 7, 127]).to(dtype)
    check(lambda x: (-x, torch.negative(x), x.clone().neg_()), x)


@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (5, 2), (7, 3), (3, 3, 3)])
@pytest.mark.parametrize("wrap", [False, True])
def test_filled_diagonals(shape, wrap):
    def fill(x):
        base = x.clone() + 1
        return base.fill_diagonal_(2.5, wrap=wrap) * 1, base * 1

    def fill_view(x):
        base = x.clone()
        base[None].mT[0].fill_diagonal_(7, wrap=False)
        return base * 1

    check(fill, normal(*shape))
    check(fill, normal(*shape).to(torch.int32))
    check(fill_view, normal(*shape))
