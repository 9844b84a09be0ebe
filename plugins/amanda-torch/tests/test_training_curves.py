"""Exported programs trained by amanda.train: the losses are those of PyTorch."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest

import amanda
from amanda_std import ops

torch = pytest.importorskip("torch", reason="torch is not installed")

STEPS = 50
RATE = 1e-2
OPTIMIZERS = {
    "adam": ({}, lambda p: torch.optim.Adam(p, RATE)),
    "momentum": ({"momentum": 0.9}, lambda p: torch.optim.SGD(p, RATE, momentum=0.9)),
    "rmsprop": (
        {"rho": 0.99, "epsilon": 1e-8, "inside": False},
        lambda p: torch.optim.RMSprop(p, RATE),
    ),
}


def build_network():
    """A small convolutional classifier of 3 classes, and 64 images with labels."""
    torch.manual_seed(3)
    network = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(36, 3),
    )
    return network, torch.randn(64, 1, 8, 8), torch.randint(0, 3, (64,))


def torch_losses(network, images, labels, new_optimizer):
    network = deepcopy(network)
    optimizer = new_optimizer(network.parameters())
    losses = []
    for step in range(STEPS):
        rows = slice(16 * (step % 4), 16 * (step % 4) + 16)
        loss = torch.nn.functional.cross_entropy(network(images[rows]), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize(
    ("optimizer", "backend"),
    [("adam", "numpy"), ("adam", "jax"), ("momentum", "numpy"), ("rmsprop", "numpy")],
)
def test_the_loss_curve_is_that_of_torch(optimizer, backend):
    network, images, labels = build_network()
    settings, new_optimizer = OPTIMIZERS[optimizer]
    expected = torch_losses(network, images, labels, new_optimizer)
    sizes = ({0: torch.export.Dim("n")},)
    graph = amanda.load(
        torch.export.export(network, (images[:16],), dynamic_shapes=sizes)
    )
    [source], [result] = graph.parameters, graph.outputs
    batches = [
        {source.name: images[i : i + 16].numpy(), "labels": labels[i : i + 16].numpy()}
        for i in range(0, 64, 16)
    ]

    def loss(results, labels):
        return ops.mean(ops.softmax_cross_entropy(results[result.name], labels))

    trained = amanda.train(
        graph, loss, lambda epoch: batches if epoch < 12 else batches[:2],
        optimizer=optimizer, learning_rate=RATE, epochs=13, backend=backend, **settings,
    )  # fmt: skip
    assert len(trained.losses) == STEPS
    np.testing.assert_allclose(trained.losses, expected, rtol=1e-4)
