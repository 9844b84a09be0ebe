"""One executable at several sizes, where rules compute with the sizes."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import amanda

torch = pytest.importorskip("torch", reason="computes the expected results")

sys.path.insert(0, str(Path(__file__).parents[1]))
from exported_calls import Call, normal  # noqa: E402  it imports torch

F = torch.nn.functional


def check(function, *calls, backend="numpy", rtol=1e-4, dynamic=None):
    """The program of the first call returns what PyTorch returns, for every call.

    Sizes above 1 are symbolic, or those that `dynamic` has for each argument.
    """
    auto = torch.export.Dim.AUTO
    dims = dynamic or [
        {i: auto for i, size in enumerate(x.shape) if size > 1} for x in calls[0]
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(
            Call(function), calls[0], dynamic_shapes=(tuple(dims),), strict=False
        )
    graph = amanda.convert(amanda.load(program), "std")
    run = amanda.compile(graph, backend)
    names = [port.name for port in graph.parameters]
    for call in calls:
        feeds = [x.numpy() for x in call]
        found = run(dict(zip(names, feeds, strict=True))).values()
        wanted = torch.utils._pytree.tree_leaves(function(*call))
        for have, want in zip(found, wanted, strict=True):
            assert have.dtype == want.numpy().dtype
            np.testing.assert_allclose(have, want.numpy(), rtol=rtol, atol=1e-5)


@pytest.mark.parametrize("function", [
    lambda x: torch.chunk(x, 3, 1), lambda x: torch.tensor_split(x, 3, 1),
    lambda x: torch.tensor_split(x, (1, 4), 1), lambda x: torch.hsplit(x, (2, 4)),
    lambda x: torch.diag_embed(x, 1), lambda x: torch.diag_embed(x, -2, 0, 1),
    lambda x: torch.block_diag(x, x[:1], x.T),
    lambda x: torch.fft.fftshift(x), lambda x: torch.fft.ifftshift(x, 1),
    lambda x: F.pad(x, (2, -1), mode="replicate"),
    lambda x: F.pad(x[None], (2, 1), mode="circular"),
    lambda x: torch._chunk_cat([x, x[:, :2]], 1, 2),
])  # fmt: skip
def test_parts_and_padding(function):
    check(function, (normal(3, 6),), (normal(4, 6),), (normal(5, 6),))
    check(function, *((normal(3, n),) for n in (8, 9)))


@pytest.mark.parametrize("backend", ["numpy", "onnxruntime"])
@pytest.mark.parametrize("offset", [-2, 0, 1])
def test_diagonals(offset, backend):
    sizes = [(4, 5), (6, 9), (9, 6)]
    pairs = [
        (x := normal(*size), normal(*torch.diagonal(x, offset).shape)) for size in sizes
    ]
    auto = torch.export.Dim.AUTO
    check(
        lambda x, y: torch.diagonal_scatter(x, y, offset), *pairs[:2],
        dynamic=[{0: auto, 1: auto}, {0: auto}], backend=backend,
    )  # fmt: skip
    vectors, matrices = (((normal(n),) for n in (4, 7)), ((x,) for x, _ in pairs))
    check(lambda x: torch.diag(x, offset), *vectors, backend=backend)
    check(lambda x: torch.diagonal(x, offset), *matrices, backend=backend)


def test_slices_replaced():
    def replace(x, y):
        return torch.slice_scatter(x, y, 0, 1, None, 2)

    check(replace, *((normal(n, 3), normal(n // 2, 3)) for n in (6, 8, 4)))


def test_vector_products():
    check(torch.linalg.cross, *((normal(n, 3), normal(n, 3)) for n in (4, 2)))
    check(torch.cross, *((normal(n, 3), normal(n, 3)) for n in (4, 2)))


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("ceil_mode", [False, True])
def test_pooling(stride, ceil_mode):
    def pool(x):
        return F.avg_pool2d(
            x, 3, stride, 1, ceil_mode=ceil_mode, divisor_override=4
        )  # fmt: skip

    check(pool, *((normal(2, c, n, n + 1),) for c, n in ((2, 7), (3, 8), (4, 10))))


def test_adaptive_pooling():
    for size in (3, (2, 5)):
        check(
            lambda x, size=size: F.adaptive_max_pool2d(x, size, return_indices=True),
            *((normal(2, c, n, n + 1),) for c, n in ((2, 7), (3, 6), (4, 11))),
        )


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 4, 4)])
def test_triangular_factors(shape):
    def grow(by):
        return normal(*shape[:-2], *(n + by for n in shape[-2:]))

    matrices = [(grow(by),) for by in (0, 1, 3)]
    check(torch.linalg.lu, *matrices)
    check(torch.linalg.lu_factor, *matrices)
    check(lambda x: torch.lu_unpack(*torch.linalg.lu_factor(x)), *matrices)
    factors = [torch.linalg.lu_factor(x) for (x,) in matrices]
    check(torch.lu_unpack, *factors)
    if shape[-1] == shape[-2]:
        pairs = zip(factors, matrices, strict=True)
        check(torch.linalg.lu_solve, *((*factor, x) for factor, (x,) in pairs))


@pytest.mark.parametrize("shape", [(5, 3), (4, 4), (2, 6, 4)])
def test_householder_products(shape):
    def factor(by):
        return torch.geqrf(normal(*shape[:-2], *(n + by for n in shape[-2:])))

    factors = [factor(by) for by in (0, 2)]
    check(torch.linalg.householder_product, *factors)
    for left in (True, False):
        for transpose in (True, False):
            sides = [
                (a, tau, a[..., :2] if left else a[..., :2].mT) for a, tau in factors
            ]
            check(
                lambda a, tau, x, m=left, t=transpose: torch.ormqr(a, tau, x, m, t),
                *sides,
            )


def test_tensor_equations():
    def operands(n):
        return normal(2, n, 2 * n) + torch.eye(2 * n).reshape(2, n, 2 * n)

    check(lambda x: torch.linalg.tensorinv(x), *((operands(n),) for n in (3, 5)))
    pairs = [(operands(n), normal(2, n)) for n in (3, 5)]
    check(torch.linalg.tensorsolve, *pairs)


@pytest.mark.parametrize("backend", ["numpy", "onnxruntime"])
def test_ranks_and_pseudo_inverses(backend):
    def low(rows, columns):
        return normal(rows, 2) @ normal(2, columns)

    matrices = [(low(4, 6),), (low(7, 5),), (low(3, 8),)]
    check(torch.linalg.matrix_rank, *matrices, backend=backend)
    check(torch.linalg.pinv, *matrices, rtol=1e-3, backend=backend)
    check(torch.matrix_exp, *((normal(n, n),) for n in (3, 5)), backend=backend)


@pytest.mark.filterwarnings("ignore::UserWarning")  # PyTorch's, of windows and lengths
@pytest.mark.parametrize("options", [
    {}, {"center": False, "window": torch.ones(8)}, {"length": 19}, {"length": 60},
])  # fmt: skip
def test_inverse_transforms(options):
    def invert(x):
        return torch.istft(x, 8, 2, return_complex=False, **options)

    frames = [torch.stft(normal(2, n), 8, 2, return_complex=True) for n in (24, 40)]
    check(invert, *((x,) for x in frames))


@pytest.mark.parametrize("backend", ["numpy", "onnxruntime"])
@pytest.mark.parametrize("mode", ["nearest", "bilinear", "nearest-exact", "bicubic"])
def test_images_resized_by_factors(mode, backend):
    for factor in (2, 2.5, (0.75, 0.3)):
        check(
            lambda x, f=factor: F.interpolate(x, scale_factor=f, mode=mode),
            *((normal(1, 2, *size),) for size in ((10, 20), (7, 9), (5, 10))),
            dynamic=[{2: torch.export.Dim.AUTO, 3: torch.export.Dim.AUTO}],
            backend=backend,
        )
    check(
        lambda x: F.interpolate(x, scale_factor=1.5, mode="linear", align_corners=True),
        *((normal(1, 2, n),) for n in (5, 8)), backend=backend,
    )  # fmt: skip


@pytest.mark.parametrize("function", [
    lambda x: x.unfold(1, 2, 1), lambda x: x.unfold(0, 3, 2),
    lambda x: x.unfold(-1, 1, 3), lambda x: F.unfold(x[None, None], 2),
    lambda x: F.unfold(x[None], (3, 2), padding=1),
    lambda x: F.unfold(x[None, None], 2, dilation=2, stride=2),
])  # fmt: skip
@pytest.mark.parametrize("backend", ["numpy", "onnxruntime"])
def test_windows(function, backend):
    calls = ((normal(*size),) for size in ((4, 6), (5, 5), (7, 4)))
    check(function, *calls, backend=backend)


def test_filled_diagonals():
    """PyTorch fixes the number of columns."""
    calls = ((normal(rows, 6),) for rows in (4, 6, 9))
    rows = {0: torch.export.Dim.AUTO}
    check(lambda x: x.clone().fill_diagonal_(3), *calls, dynamic=[rows])
