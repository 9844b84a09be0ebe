"""Buffers that a program writes: state of the ONNX model, run by onnxruntime."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest

import amanda

torch = pytest.importorskip("torch", reason="makes the program, and is the oracle")
onnxruntime = pytest.importorskip("onnxruntime")


class CachedBlock(torch.nn.Module):
    """Batch normalization in training, a cache that grows by position, a counter."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv1d(3, 4, 3)
        self.norm = torch.nn.BatchNorm1d(4)
        self.register_buffer("cache", torch.zeros(2, 4, 8))
        self.register_buffer("position", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        y = torch.relu(self.norm(self.conv(x)))
        place = self.position.reshape(1)
        self.cache.index_copy_(2, place, y.mean(-1).unsqueeze(-1))
        self.position.add_(1)
        return y, self.cache.sum(-1)


@pytest.mark.parametrize("form", ["training", "core"])
def test_steps_equal_those_of_pytorch(form, tmp_path):
    torch.manual_seed(0)
    model = CachedBlock().train()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(model, (torch.zeros(2, 3, 9),))
        program = program.run_decompositions({}) if form == "core" else program
        graph = amanda.load(program)
    amanda.save(amanda.convert(graph, "onnx@20"), tmp_path / "model.onnx")
    run = amanda.compile(amanda.load(tmp_path / "model.onnx"), "onnxruntime")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    names, fed, model = list(run.state), {}, copy.deepcopy(model)
    for _ in range(4):
        x = torch.randn(2, 3, 9)
        with torch.no_grad():
            wanted = [value.numpy() for value in model(x)]
        found = session.run(None, {"x": x.numpy(), **fed})
        plain, fed = found[:2], dict(zip(names, found[2:], strict=True))
        for results in (plain, list(run([x.numpy()]).values())):
            for value, expected in zip(results, wanted, strict=True):
                np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-5)
    for name, buffer in model.named_buffers():
        for value in (fed[name], run.state[name]):
            np.testing.assert_allclose(value, buffer.numpy(), rtol=1e-4, atol=1e-5)
