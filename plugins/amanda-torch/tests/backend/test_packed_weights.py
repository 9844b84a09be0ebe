"""The backend `torch`: constant weights that MKL and oneDNN have packed."""

from __future__ import annotations

import numpy as np
import pytest

import amanda
from amanda.types import parse_type
from amanda_std import ops, trace
from amanda_torch.backend import packed_weights

torch = pytest.importorskip("torch")

from torch.nn import functional  # noqa: E402

RANDOM = np.random.default_rng(0)
has_mkl = pytest.mark.skipif(
    not torch.backends.mkl.is_available(), reason="PyTorch is built without MKL"
)
has_onednn = pytest.mark.skipif(
    not torch.backends.mkldnn.is_available(), reason="PyTorch is built without oneDNN"
)


def normal(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def tensor(array):
    return torch.from_numpy(array)


def compiled(function, *types):
    graph = trace(function, [parse_type(t) for t in types])
    return amanda.compile(graph, "torch", "cpu")


def count_calls(compiled, monkeypatch):
    """The names of the steps, and a list of the weights that are packed from now on."""
    packed = []
    for namespace, name in (
        (torch.ops.mkl, "_mkl_reorder_linear_weight"),
        (torch.ops.mkldnn, "_reorder_linear_weight"),
        (torch.ops.mkldnn, "_reorder_convolution_weight"),
    ):
        pack = getattr(namespace, name)

        def counting(*args, name=name, pack=pack):
            packed.append(name)
            return pack(*args)

        monkeypatch.setattr(namespace, name, counting)
    return [step.label.split()[0] for step in compiled.executable.steps.steps], packed


@pytest.fixture(
    params=[
        pytest.param("mkl", marks=has_mkl),
        pytest.param("onednn", marks=has_onednn),
    ]
)
def library(request, monkeypatch):
    """The library that packs factors of products, whatever the CPU."""
    monkeypatch.setattr(packed_weights, "find_product_library", lambda: request.param)
    return request.param


@pytest.mark.parametrize("op", ["linear", "matmul"])
def test_products_are_packed_once_for_one_number_of_rows(op, library, monkeypatch):
    weight, bias = normal(16, 24), normal(24)

    def layer(x):
        y = ops.matmul(x, weight)
        return ops.add(y, bias) if op == "linear" else y

    f = compiled(layer, "float32[n,3,16]")
    steps, packed = count_calls(f, monkeypatch)
    assert steps == [op]
    for n in (5, 5, 7, 1, 5, 0):
        x = tensor(normal(n, 3, 16))
        expected = x @ tensor(weight) + (tensor(bias) if op == "linear" else 0)
        torch.testing.assert_close(f([x])[0], expected)
        turned = tensor(normal(3, n, 16)).transpose(0, 1)
        torch.testing.assert_close(f([turned])[0], f([turned.contiguous()])[0])
    names = {"mkl": "_mkl_reorder_linear_weight", "onednn": "_reorder_linear_weight"}
    assert packed == [names[library]]


@has_mkl
@pytest.mark.parametrize("name", ["Intel(R) Xeon(R)", "AMD EPYC", ""])
def test_mkl_packs_on_processors_of_intel(name, monkeypatch):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"cpu_name": name})
    find = packed_weights.find_product_library.__wrapped__
    other = "onednn" if torch.backends.mkldnn.is_available() else "mkl"
    assert find() == ("mkl" if "Intel" in name else other)


def test_products_with_packed_weights_have_gradients(library):
    weight, bias = normal(16, 24), normal(24)
    f = compiled(lambda x: ops.add(ops.matmul(x, weight), bias), "float32[4,16]")
    x, g = tensor(normal(4, 16)), tensor(normal(4, 24))
    f([x])
    x.requires_grad_()
    (gradient,) = torch.autograd.grad(f([x])[0], x, g)
    torch.testing.assert_close(gradient, g @ tensor(weight).T)


def residual_block(kernel, last):
    def block(x):
        pads = [(1, 1), (1, 1)]
        y = ops.relu(ops.conv(x, kernel, padding=pads))
        return ops.relu(ops.add(x, ops.conv(y, last, padding=pads)))

    return block


@has_onednn
def test_convolutions_compute_the_sum_and_relu_after_them(monkeypatch):
    kernel, last = normal(8, 6, 3, 3), normal(6, 8, 3, 3)
    f = compiled(residual_block(kernel, last), "float32[2,6,9,7]")
    steps, packed = count_calls(f, monkeypatch)
    assert steps == ["relu", "relu"]
    x = tensor(normal(2, 6, 9, 7))
    y = functional.relu(functional.conv2d(x, tensor(kernel), padding=1))
    expected = functional.relu(x + functional.conv2d(y, tensor(last), padding=1))
    for _ in range(2):
        torch.testing.assert_close(f([x])[0], expected, atol=1e-4, rtol=1e-5)
    assert packed == ["_reorder_convolution_weight"] * 2


@has_onednn
def test_relu_after_a_convolution_keeps_nan():
    kernel = normal(4, 3, 3, 3)
    f = compiled(lambda x: ops.relu(ops.conv(x, kernel)), "float32[1,3,6,6]")
    x = tensor(normal(1, 3, 6, 6))
    x[0, 0, 2, 2] = torch.nan
    expected = functional.relu(functional.conv2d(x, tensor(kernel)))
    assert expected.isnan().any()
    torch.testing.assert_close(
        f([x])[0], expected, equal_nan=True, atol=1e-5, rtol=1e-5
    )


@has_onednn
def test_a_result_that_is_read_twice_is_kept(monkeypatch):
    kernel = normal(3, 3, 3, 3)

    def both(x):
        y = ops.conv(x, kernel, padding=[(1, 1), (1, 1)])
        return y, ops.relu(y), ops.add(y, y)

    f = compiled(both, "float32[1,3,5,5]")
    assert sorted(count_calls(f, monkeypatch)[0]) == ["add", "conv", "relu"]
    x = tensor(normal(1, 3, 5, 5))
    y = functional.conv2d(x, tensor(kernel), padding=1)
    for ours, theirs in zip(f([x]).values(), (y, y.relu(), y + y), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


@has_onednn
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("layout", ["NC*", "N*C"])
def test_layouts_groups_pads_and_gradients_of_convolutions(layout, groups):
    kernel, bias = normal(4, 6 // groups, 3, 2), normal(4)
    sizes = "2,6,9,8" if layout == "NC*" else "2,9,8,6"
    f = compiled(
        lambda x: ops.conv(
            x, kernel, bias, layout=layout, strides=(2, 1), dilations=(1, 2),
            padding=[(0, 2), (1, 1)], groups=groups,
        ),
        f"float32[{sizes}]",
    )  # fmt: skip
    x = tensor(normal(2, 6, 9, 8))
    fed = x if layout == "NC*" else x.permute(0, 2, 3, 1).contiguous()
    padded = functional.pad(x, (1, 1, 0, 2)).requires_grad_()
    expected = functional.conv2d(
        padded, tensor(kernel), tensor(bias), (2, 1), 0, (1, 2), groups
    )
    found = f([fed])[0]
    turned = found if layout == "NC*" else found.permute(0, 3, 1, 2)
    torch.testing.assert_close(turned, expected, atol=1e-5, rtol=1e-5)
    (slope,) = torch.autograd.grad(expected.sum(), padded)
    (ours,) = torch.autograd.grad(f([fed.requires_grad_()])[0].sum(), fed)
    ours = ours if layout == "NC*" else ours.permute(0, 3, 1, 2)
    torch.testing.assert_close(ours, slope[:, :, :-2, 1:-1], atol=1e-5, rtol=1e-5)
