"""Programs that torchao quantizes: results, and quantization kept in ONNX."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from importlib.util import find_spec

import numpy as np
import pytest

import amanda

pytestmark = pytest.mark.xdist_group("quantized")

KEPT = {  # QuantizeLinear, DequantizeLinear
    "x86-static": (2, 4),
    "x86-dynamic": (2, 4),
    "xnnpack-channels": (4, 6),
    "xnnpack-tensors": (4, 6),
    "xnnpack-dynamic": (2, 4),
    "int8-weights": (0, 0),  # the program multiplies by scales
    "int8-rows": (2, 0),
    "int4-groups": (0, 2),
    "int4-groups-int8-rows": (2, 4),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """All programs, made in a process of its own."""
    if find_spec("torch") is None or find_spec("torchao") is None:
        pytest.skip("PyTorch and torchao make the programs: pip install torchao")
    path = tmp_path_factory.mktemp("quantized")
    module = "amanda_torch_conformance.making.quantized_programs"
    subprocess.run([sys.executable, "-m", module, str(path)], check=True)
    return path


@pytest.mark.parametrize("name", KEPT)
def test_quantized_programs(folder, name):
    data = np.load(folder / f"{name}.npz")
    graph = amanda.load(folder / f"{name}.pt2")
    feeds = {graph.parameters[0].name: data["x"]}
    for backend in ("numpy", "jax", "onnxruntime"):
        (y,) = amanda.run(graph, feeds, backend=backend).values()
        np.testing.assert_allclose(y, data["y"], rtol=1e-5, atol=1e-6)
    kinds = Counter(op.type for op in amanda.convert(graph, "onnx@21"))
    assert (kinds["QuantizeLinear"], kinds["DequantizeLinear"]) == KEPT[name]
    back = amanda.convert(amanda.convert(graph, "std"), "torch@2.13")
    (y,) = amanda.run(back, list(feeds.values()), backend="numpy").values()
    np.testing.assert_allclose(y, data["y"], rtol=1e-5, atol=1e-6)
