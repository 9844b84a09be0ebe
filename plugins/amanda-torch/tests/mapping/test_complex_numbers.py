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
