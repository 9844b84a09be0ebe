"""Networks whose batch and length are symbols: every type follows from these."""

from __future__ import annotations

import pytest
from models.architectures import exported

import amanda
from amanda.types import Sym, TensorType

pytestmark = pytest.mark.filterwarnings("ignore")  # of PyTorch, while it exports

RESULTS = {
    "BERT-base": ["float32[batch, length, {hidden_size}]",
                  "float32[batch, {hidden_size}]"],
    "GPT-2": ["float32[batch, length, {vocab_size}]"],
    "ResNet-50": ["float32[batch, {num_labels}]"],
}  # fmt: skip
FULL = {"hidden_size": 768, "vocab_size": 50257, "num_labels": 1000}
SMALL = {"hidden_size": 32, "vocab_size": 99, "num_labels": 5}


@pytest.mark.parametrize("name", RESULTS)
def test_a_small_one(name, tmp_path):
    expect_symbols(name, tmp_path, small=True)


@pytest.mark.models
@pytest.mark.parametrize("name", RESULTS)
def test_one_of_full_size(name, tmp_path):
    expect_symbols(name, tmp_path, small=False)


def expect_symbols(name, folder, *, small):
    for needed in ("torch", "transformers", "onnxscript", "amanda_onnx"):
        pytest.importorskip(needed, reason=f"{needed} is not installed")
    path = exported(name, folder, small=small, dynamic=True).path
    graph = amanda.convert(amanda.load(path), "std")
    amanda.improve(graph, "infer")
    sizes = SMALL if small else FULL
    wanted = [each.format(**sizes) for each in RESULTS[name]]
    assert [str(value.type) for value in graph.results] == wanted
    known = {s for value in graph.parameters for d in value.type.shape for s in free(d)}
    assert {str(symbol) for symbol in known} <= {"batch", "length"}
    ports = [port for op in graph.walk() for port in op.outputs]
    assert len(ports) > 50
    open_ones = {
        port.op.label: str(port.type) for port in ports if not told(port, known)
    }
    assert open_ones == {}


def told(port, known):
    """Is this a tensor of known element type and rank, with dims made of `known`?"""
    found = port.type
    if not isinstance(found, TensorType) or found.dtype.kind == "unknown":
        return False
    if not found.shape.has_rank:
        return False
    return all(free(dim) <= known for dim in found.shape)


def free(dim):
    return dim.free if isinstance(dim, Sym) else frozenset()
