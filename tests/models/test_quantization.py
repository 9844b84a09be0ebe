"""Transformers with packed weights of 4 bits run on onnxruntime's MatMulNBits."""

from __future__ import annotations

import numpy as np
import pytest
from models.architectures import ARCHITECTURES, make_input
from models.architectures import build_network as build_architecture
from models.differentiable import build_network
from models.test_pruning import export, first_result

pytestmark = pytest.mark.filterwarnings("ignore")  # by PyTorch's exporter

LAYERS = {"BERT": 12, "GPT-2": 9, "ViT": 13}
"""Six or four in each of two blocks, and the last one of GPT-2 and ViT."""


@pytest.fixture(autouse=True)
def _installed():
    for name in ("torch", "transformers", "amanda_torch", "amanda_tools"):
        pytest.importorskip(name, reason=f"{name} is not installed")
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


@pytest.mark.most_cases(3)
@pytest.mark.parametrize("name", LAYERS)
def test_packed_weights_of_transformers(name, tmp_path):
    check_packed(*export(*build_network(name), tmp_path), LAYERS[name], 16, tmp_path)


@pytest.mark.models
@pytest.mark.parametrize(("name", "layers"), [("GPT-2", 48), ("BERT-base", 73)])
def test_packed_weights_of_full_size(name, layers, tmp_path):
    """The last layer of GPT-2 reads its embedding, transposed when it runs."""
    module = build_architecture(name, small=False)
    x = make_input(ARCHITECTURES[name], batch=1, small=False)
    check_packed(*export(module, x, tmp_path), layers, 32, tmp_path)


def check_packed(graph, x, layers, block, folder):
    """The file has a MatMulNBits for each layer, whose results are those of numpy."""
    import amanda
    from amanda_tools.quantization.quantise import Quantise, signal_to_noise

    exact = first_result(graph, x, "numpy")
    tool = Quantise(mode="weights", bits=4, block=block)
    packed = amanda.apply(graph, tool).graph
    written = amanda.convert(packed, "onnx@21")
    assert [op.type for op in written.walk()].count("MatMulNBits") == layers
    amanda.save(written, folder / "packed.onnx")
    found = run_file(folder / "packed.onnx", x)
    expected = first_result(packed, x, "numpy")
    tolerance = 1e-4 * np.abs(expected).max()
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=tolerance)
    assert signal_to_noise(exact, found) > 10


def run_file(path, x):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        str(path), options, providers=["CPUExecutionProvider"]
    )
    [name] = [port.name for port in session.get_inputs()]
    return session.run(None, {name: x})[0]
