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


class Recurrent(torch.nn.Module):
    """Layers with buffers, a frozen weight and an initial state of zeros."""

    def __init__(self):
        super().__init__()
        self.norms = torch.nn.Sequential(
            torch.nn.BatchNorm1d(4), torch.nn.GroupNorm(2, 4)
        )
        self.register_buffer("position", torch.randn(5, 4))
        self.lstm = torch.nn.LSTM(4, 3, batch_first=True)
        self.head = torch.nn.Linear(3, 2)
        self.head.weight.requires_grad_(False)

    def forward(self, x):
        y, _ = self.lstm(self.norms(x).transpose(1, 2) + self.position)
        return self.head(y[:, -1])


@pytest.mark.filterwarnings("ignore:The tensor attributes:UserWarning")
@pytest.mark.parametrize("through_onnx", [False, True])
def test_the_weights_that_pytorch_trains_are_trained(tmp_path, through_onnx):
    model = Recurrent().eval()
    graph = amanda.load(torch.export.export(model, (torch.randn(2, 4, 5),)))
    [source], [result] = graph.parameters, graph.outputs
    if through_onnx:
        amanda.save(amanda.convert(graph, "onnx"), tmp_path / "model.onnx")
        graph = amanda.load(tmp_path / "model.onnx")
    trained = amanda.train(
        graph,
        lambda results: ops.mean(results[result.name] * results[result.name]),
        [{source.name: np.ones((2, 4, 5), "float32")}],
        backend="numpy",
    )
    expected = {n for n, p in model.named_parameters() if p.requires_grad}
    initial_states = {"zeros", "zeros_1"} if through_onnx else set()
    assert trained.weights.keys() == expected | initial_states
