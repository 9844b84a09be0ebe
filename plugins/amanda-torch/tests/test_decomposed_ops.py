"""Transforms and linear algebra of programs after `run_decompositions()`."""

from __future__ import annotations

import pytest

import amanda

torch = pytest.importorskip("torch", reason="makes the programs")

pytestmark = pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")

FFT, LINALG = torch.fft, torch.linalg
REAL, COMPLEX = torch.rand(3, 8), torch.randn(3, 8, dtype=torch.complex64)
MATRICES = torch.randn(2, 3, 3) + 3 * torch.eye(3)
CASES = {
    "fft": (FFT.fft, REAL),
    "rfft": (lambda x: FFT.rfft(x, norm="ortho"), REAL),
    "ifft": (lambda x: FFT.ifft(x, norm="forward"), COMPLEX),
    "irfft": (lambda x: FFT.irfft(x, 7), COMPLEX),
    "irfftn": (lambda x: FFT.irfftn(x, norm="forward"), COMPLEX),
    "rfftn": (lambda x: FFT.rfftn(x, norm="ortho"), REAL),
    "fft2": (FFT.fft2, COMPLEX),
    "hfft": (FFT.hfft, COMPLEX),
    "det": (LINALG.det, MATRICES),
    "slogdet": (LINALG.slogdet, MATRICES),
    "solve": (lambda a: LINALG.solve(a, a + 1), MATRICES),
    "solve, right": (lambda a: LINALG.solve(a, a + 1, left=False), MATRICES),
    "solve, vector": (lambda a: LINALG.solve(a[0], a[1, 0]), MATRICES),
    "eigvalsh": (lambda a: LINALG.eigvalsh(a @ a.mT), MATRICES),
    "eigh": (lambda a: LINALG.eigh(a + a.mT).eigenvectors.abs(), MATRICES),
    "svdvals": (LINALG.svdvals, MATRICES),
    "svd": (lambda a: LINALG.svd(a).U.abs(), MATRICES),
    "pinv": (LINALG.pinv, MATRICES),
}


class Function(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


@pytest.mark.parametrize("name", CASES)
def test_decomposed_programs(name):
    function, x = CASES[name]
    exported = torch.export.export(Function(function), (x,)).run_decompositions()
    graph = amanda.load(exported)
    found = amanda.run(graph, [x.numpy()], backend="numpy").values()
    wanted = function(x)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    for got, want in zip(found, wanted, strict=True):
        torch.testing.assert_close(torch.tensor(got), want, rtol=1e-3, atol=1e-4)
