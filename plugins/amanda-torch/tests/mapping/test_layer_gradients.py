"""Gradients of layers as ops of their own, against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

import amanda

torch = pytest.importorskip("torch")


def random(*shape):
    return torch.from_numpy(np.random.default_rng(len(shape)).normal(size=shape))


def convolution(x, w, *, transposed=False, groups=1, output_padding=(0, 0)):
    options = [None, [2, 1], [1, 2], [1, 2], transposed, list(output_padding), groups]
    y = torch.ops.aten.convolution(x, w, *options)
    options[0] = [w.shape[transposed] * (groups if transposed else 1)]
    return lambda x, w: torch.ops.aten.convolution_backward(
        torch.cos(y), x, w, *options, [True] * 3
    ), (x, w)


def max_pool(x, axes):
    options = [[3] * axes, [2] * axes, [1] * axes, [1] * axes, True]
    forward = getattr(torch.ops.aten, f"max_pool{axes}d_with_indices")
    backward = getattr(torch.ops.aten, f"max_pool{axes}d_with_indices_backward")
    y, indices = forward(x, *options)
    return lambda g, x: backward(g, x, *options, indices), (torch.cos(y), x)


def average_pool(x, axes, *more):
    options = [[3] * axes, [2] * axes, [1] * axes, *more]
    y = getattr(torch.ops.aten, f"avg_pool{axes}d")(x, *options)
    backward = getattr(torch.ops.aten, f"avg_pool{axes}d_backward")
    return lambda g, x: backward(g, x, *options), (torch.cos(y), x)


def adaptive_average(x, size):
    axes = len(size)
    y = getattr(torch.ops.aten, f"_adaptive_avg_pool{axes}d")(x, size)
    backward = getattr(torch.ops.aten, f"_adaptive_avg_pool{axes}d_backward")
    return backward, (torch.cos(y), x)


CASES = {
    "convolution": lambda: convolution(random(2, 4, 9, 7), random(6, 4, 3, 2)),
    "convolution, groups": lambda: convolution(
        random(2, 4, 9, 7), random(6, 2, 3, 2), groups=2
    ),
    "convolution, transposed": lambda: convolution(
        random(2, 4, 5, 4), random(4, 3, 3, 2), transposed=True, groups=2,
        output_padding=(1, 0),
    ),
    "max pooling": lambda: max_pool(random(2, 3, 8, 7), 2),
    "max pooling, 3 axes": lambda: max_pool(random(1, 2, 4, 5, 6), 3),
    "average pooling": lambda: average_pool(random(2, 3, 8, 7), 2, False, True, None),
    "average pooling, without padding": lambda: average_pool(
        random(2, 3, 8, 7), 2, True, False, None
    ),
    "average pooling, 3 axes": lambda: average_pool(
        random(1, 2, 4, 5, 6), 3, False, True, None
    ),
    "adaptive average": lambda: adaptive_average(random(2, 3, 8, 7), [3, 2]),
    "adaptive average, 3 axes": lambda: adaptive_average(
        random(1, 2, 4, 5, 6), [2, 1, 3]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_layers(name):
    function, inputs = CASES[name]()

    class Module(torch.nn.Module):
        def forward(self, *xs):
            return function(*xs)

    program = torch.export.export(Module(), inputs)
    graph = amanda.load(program)
    assert [op for op in graph if op.type.startswith("aten") and "backward" in op.type]
    found = amanda.run(graph, [x.numpy() for x in inputs], backend="numpy")
    wanted = function(*inputs)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    for ours, theirs in zip(found.values(), wanted, strict=True):
        np.testing.assert_allclose(ours, theirs.numpy(), atol=1e-10, rtol=1e-10)
