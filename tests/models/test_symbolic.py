"""Models with symbolic batch and length: inference derives every type from these."""

from __future__ import annotations

import pytest
from models.architectures import export

import amanda
from amanda.types import Sym, TensorType

pytestmark = pytest.mark.filterwarnings("ignore")  # by PyTorch's exporter

RESULTS = {
    "BERT-base": ["float32[batch, length, {hidden_size}]",
                  "float32[batch, {hidden_size}]"],
    "GPT-2": ["float32[batch, length, {vocab_size}]"],
    "ResNet-50": ["float32[batch, {num_labels}]"],
}  # fmt: skip
FULL = {"hidden_size": 768, "vocab_size": 50257, "num_labels": 1000}
SMALL = {"hidden_size": 32, "vocab_size": 99, "num_labels": 5}


@pytest.mark.most_cases(1)
@pytest.mark.parametrize("name", RESULTS)
def test_small_model(name, tmp_path):
    expect_symbols(name, tmp_path, small=True)


@pytest.mark.models
@pytest.mark.parametrize("name", RESULTS)
def test_full_size_model(name, tmp_path):
    expect_symbols(name, tmp_path, small=False)


def expect_symbols(name, folder, *, small):
    for needed in ("torch", "transformers", "onnxscript", "amanda_onnx"):
        pytest.importorskip(needed, reason=f"{needed} is not installed")
    path = export(name, folder, small=small, dynamic=True).path
    graph = amanda.convert(amanda.load(path), "std")
    amanda.improve(graph, "infer")
    sizes = SMALL if small else FULL
    wanted = [each.format(**sizes) for each in RESULTS[name]]
    assert [str(value.type) for value in graph.results] == wanted
    known = {
        s
        for value in graph.parameters
        for d in value.type.shape
        for s in free_symbols(d)
    }
    assert {str(symbol) for symbol in known} <= {"batch", "length"}
    ports = [port for op in graph.walk() for port in op.outputs]
    assert len(ports) > 50
    unknown = {
        port.op.label: str(port.type) for port in ports if not is_inferred(port, known)
    }
    assert unknown == {}


def is_inferred(port, known):
    """Return whether dtype and rank are known, with dims in terms of `known`."""
    type = port.type
    if not isinstance(type, TensorType) or type.dtype.kind == "unknown":
        return False
    if not type.shape.has_rank:
        return False
    return all(free_symbols(dim) <= known for dim in type.shape)


def free_symbols(dim):
    return dim.free if isinstance(dim, Sym) else frozenset()
