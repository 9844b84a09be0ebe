"""Complex parameters and results, on numpy and XLA."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import amanda

torch = pytest.importorskip("torch", reason="makes the programs")


class Complex(torch.nn.Module):
    def forward(self, x):
        y = torch.fft.fft(x) * torch.polar(x.abs(), x.angle())
        z = x @ x.mH + y[0, 0]
        parts = torch.view_as_real(x)
        return y, z, x.conj() / (x + 2), parts.sum(0), torch.complex(x.imag, x.real)


class ComplexWrites(torch.nn.Module):
    """Writes through views of the parts of complex numbers."""

    def forward(self, x):
        y = x * 2
        torch.view_as_real(y)[..., 0] += 1
        y.imag.mul_(3)
        return y, torch.polar(y.abs(), y.angle())


@pytest.mark.parametrize("backend", ["numpy", "jax"])
@pytest.mark.parametrize("module", [Complex, ComplexWrites])
def test_complex_programs(module, backend, tmp_path):
    x = torch.randn(3, 4, dtype=torch.complex64, generator=torch.manual_seed(0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(module(), (x,))
        torch.export.save(program, tmp_path / "model.pt2")
    graph = amanda.load(tmp_path / "model.pt2")
    found = amanda.run(graph, {"x": x.numpy()}, backend=backend).values()
    for have, want in zip(found, module()(x), strict=True):
        assert have.dtype == want.resolve_conj().numpy().dtype
        np.testing.assert_allclose(have, want.resolve_conj().numpy(), 1e-4, 1e-5)


class Constants(torch.nn.Module):
    """Complex numbers as arguments."""

    def forward(self, x):
        return x * 1j, torch.add(x, 2 + 3j), torch.full((2,), -1j)


def test_complex_arguments(tmp_path):
    x = torch.arange(4.0)
    graph = amanda.load(torch.export.export(Constants(), (x,)))
    for suffix in ("pt2", "yaml", "amanda"):
        amanda.save(graph, tmp_path / f"model.{suffix}")
        loaded = amanda.load(tmp_path / f"model.{suffix}")
        assert loaded.ops["mul"].attrs["other"] == 1j
        found = amanda.run(loaded, [x.numpy()], backend="numpy").values()
        for have, want in zip(found, Constants()(x), strict=True):
            np.testing.assert_array_equal(have, want.numpy())
