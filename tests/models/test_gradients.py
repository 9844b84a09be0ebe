"""Gradients of exported networks, by weights and inputs, equal those of PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
from models.differentiable import (
    NETWORKS,
    WITH_DYNAMIC_SHAPES,
    build_network,
    export_network,
)

pytestmark = pytest.mark.filterwarnings("ignore")  # by PyTorch's exporter

TOLERANCE = 1e-4  # of the largest element of a gradient, or of 1
IN_CI = ("LSTM", "mamba", "U-Net", "wav2vec2")


@pytest.fixture(autouse=True)
def _installed():
    for name in ("torch", "transformers", "onnxscript", "amanda_onnx", "amanda_jax"):
        pytest.importorskip(name, reason=f"{name} is not installed")


@pytest.mark.most_cases(1)
@pytest.mark.parametrize("name", IN_CI)
def test_gradients_of_exported_networks(name, tmp_path):
    check_gradients(name, tmp_path, backends=["numpy"])


@pytest.mark.models
@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_on_all_backends(name, tmp_path):
    check_gradients(name, tmp_path, backends=["numpy", "jax"])


@pytest.mark.most_cases(1)
@pytest.mark.parametrize("name", WITH_DYNAMIC_SHAPES)
def test_gradients_with_dynamic_shapes(name, tmp_path):
    check_gradients(name, tmp_path, backends=["numpy"], dynamic=True)


def check_gradients(name, folder, backends, dynamic=False):
    import amanda
    from amanda_std import Value, grad, ops, tracing

    module, x = build_network(name)
    export_network(module, x, folder / "model.onnx", dynamic=dynamic)
    output, weights, expected = torch_gradients(module, x)
    graph = amanda.convert(amanda.load(folder / "model.onnx"), "std")
    if dynamic:
        assert not graph.parameters[0].type.shape.is_static
    ports = find_ports(graph, expected)
    with tracing(graph):
        loss = ops.sum(ops.multiply(Value(graph.results[0]), weights))
    for gradient in grad(graph, loss.port, list(ports.values())):
        graph.result(gradient)
    for backend in backends:
        y, *found = amanda.run(graph, [x.detach().numpy()], backend=backend).values()
        np.testing.assert_allclose(y, output, atol=TOLERANCE)
        for key, gradient in zip(ports, found, strict=True):
            bound = TOLERANCE * max(1.0, np.abs(expected[key][1]).max())
            np.testing.assert_allclose(
                gradient, expected[key][1], rtol=0, atol=bound, err_msg=key
            )


def torch_gradients(module, x):
    """Output, weights of the loss, and the value and gradient of each parameter."""
    import torch

    if x.is_floating_point():
        x.requires_grad_(True)
    y = module(x)
    weights = torch.randn(y.shape, generator=torch.Generator().manual_seed(1))
    (y * weights).sum().backward()
    named = {key: p for key, p in module.named_parameters() if p.grad is not None}
    if x.is_floating_point():
        named["input"] = x
    values = {k: (p.detach().numpy(), p.grad.numpy()) for k, p in named.items()}
    return y.detach().numpy(), weights.numpy(), values


def find_ports(graph, expected):
    """The value of the graph for each parameter: the constant of equal content.

    Scalars are compared with no constant, as others may be equal to them."""
    constants = {}
    for op in graph:
        if op.is_constant:
            array = np.asarray(op.attrs["value"])
            constants.setdefault((array.dtype, array.shape, array.tobytes()), op.output)
    ports = {}
    for key, (array, _) in expected.items():
        if key == "input":
            ports[key] = graph.parameters[0]
        elif array.size > 1:
            ports[key] = constants[(array.dtype, array.shape, array.tobytes())]
    return ports
