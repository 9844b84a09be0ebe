"""Ops of models that PyTorch's op database does not have."""

from __future__ import annotations

import numpy as np
import pytest

import amanda

torch = pytest.importorskip("torch", reason="makes the programs")


BACKENDS = ("numpy", "jax", "onnxruntime")


def compare(function, *args, backends=BACKENDS, dynamic=None, rtol=1e-5):
    class Call(torch.nn.Module):
        def forward(self, *args):
            return function(*args)

    program = torch.export.export(Call(), args, dynamic_shapes=dynamic, strict=False)
    graph = amanda.load(program)
    expected = function(*args)
    for backend in backends:
        feeds = {p.name: x.numpy() for p, x in zip(graph.parameters, args, strict=True)}
        (y,) = amanda.compile(graph, backend)(feeds).values()
        np.testing.assert_allclose(y, expected.numpy(), rtol=rtol, atol=rtol)


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_weight_norm(dim):
    v = torch.randn(3, 4, 5)
    shape = [n if i == dim else 1 for i, n in enumerate(v.shape)]
    g = torch.rand(shape if dim >= 0 else ())
    compare(lambda v, g: torch._weight_norm(v, g, dim), v, g)


def test_grouped_products():
    """PyTorch exports it for bfloat16 only."""
    x, w = torch.randn(8, 16), torch.randn(3, 16, 8)

    def multiply(x, w, ends):
        return torch._grouped_mm(x.bfloat16(), w.bfloat16(), offs=ends).float()

    for numbers in ([3, 3, 8], [0, 5, 8]):
        ends = torch.tensor(numbers, dtype=torch.int32)
        compare(multiply, x, w, ends, backends=("numpy", "jax"), rtol=2**-7)
    compare(
        lambda a, b: torch._grouped_mm(a.bfloat16(), b.bfloat16()).float(),
        torch.randn(3, 8, 16), w, backends=("numpy", "jax"), rtol=2**-7,
    )  # fmt: skip


def test_grouped_products_of_transformers():
    pytest.importorskip("transformers", reason="registers the op")
    from transformers.integrations import moe  # noqa: F401

    x, w = torch.randn(8, 3), torch.randn(3, 3, 2)
    batch = torch.export.Dim("batch", min=2, max=64)
    compare(
        torch.ops.transformers.grouped_mm_fallback, x, w, torch.tensor([2, 2, 7]),
        dynamic=(({0: batch}, None, None),),
    )  # fmt: skip
