"""Ops that compare truth values: false is less than true."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import amanda

torch = pytest.importorskip("torch", reason="computes the expected results")

sys.path.insert(0, str(Path(__file__).parents[1]))
from exported_calls import Call  # noqa: E402  it imports torch

CALLS = {
    "orders": lambda a, b: (a < b, a <= b, a > b, a >= b, a == b, a != b),
    "orders of numbers": lambda a, b: (a < True, a >= 1, a < 0.5, a > b.int()),
    "extrema": lambda a, b: (a.max(), a.min(), a.amax(1), a.amin(0), torch.aminmax(a)),
    "extrema along axes": lambda a, b: (a.max(0), b.min(1, keepdim=True), b.max(1)),
    "larger and smaller": lambda a, b: (
        torch.maximum(a, b), torch.minimum(a, b), torch.fmax(a, b), torch.fmin(a, b),
    ),
    "extrema so far": lambda a, b: (a.cummax(0), b.cummin(1)),
    "steps": torch.heaviside,
    "sorted": lambda a, b: (torch.sort(a, stable=True), torch.msort(b)),
}  # fmt: skip


@pytest.mark.parametrize("backend", ["numpy", "onnxruntime", "jax", "torch"])
@pytest.mark.parametrize("name", CALLS)
def test_truth_values_have_an_order(name, backend):
    a = torch.tensor([[True, False, True], [False, False, True]])
    b = torch.tensor([[False, True, True], [True, False, True]])
    call = Call(CALLS[name])
    graph = amanda.load(torch.export.export(call, (a, b), strict=False))
    names = [port.name for port in graph.parameters]
    feeds = dict(zip(names, (a.numpy(), b.numpy()), strict=True))
    found = amanda.run(graph, feeds, backend=backend).values()
    for ours, theirs in zip(found, call(a, b), strict=True):
        assert np.asarray(ours).dtype == theirs.numpy().dtype
        np.testing.assert_array_equal(ours, theirs.numpy())
