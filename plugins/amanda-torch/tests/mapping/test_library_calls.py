"""Calls of PyTorch's Python interface that no entry of its op database reaches.

Window functions, cells of recurrent layers, ops on lists of tensors, results written
into an argument `out`, fake quantization and others; PyTorch computes what is expected.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import amanda

torch = pytest.importorskip("torch", reason="computes the expected results")

sys.path.insert(0, str(Path(__file__).parents[1]))
from exported_calls import normal  # noqa: E402  it imports torch

ATEN = torch.ops.aten


class MethodCall(torch.nn.Module):
    """A call of a function with the module, which has other modules."""

    def __init__(self, function, **modules):
        super().__init__()
        self.function = function
        for name, module in modules.items():
            setattr(self, name, module)

    def forward(self, *args):
        return tuple(torch.utils._pytree.tree_leaves(self.function(self, *args)))


def check(function, *tensors, dynamic=False, **modules):
    """The exported program of a call, run by numpy, returns what PyTorch returns."""
    call = MethodCall(function, **modules).eval()
    dims = {0: torch.export.Dim("batch", max=64)}
    shapes = (tuple(dims for _ in tensors),) if dynamic else None
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        program = torch.export.export(call, tensors, dynamic_shapes=shapes)
        feeds = [tensor.detach().numpy().copy() for tensor in tensors]
        wanted = program.module()(*tensors)
    found = amanda.run(amanda.load(program), feeds, backend="numpy")
    outputs = list(found.values())[-len(wanted) :]
    for have, want in zip(outputs, wanted, strict=True):
        assert have.dtype == want.numpy().dtype
        np.testing.assert_allclose(have, want.numpy(), rtol=1e-5, atol=1e-5)


WINDOWS = {
    "hann": torch.hann_window, "hamming": torch.hamming_window,
    "blackman": torch.blackman_window, "bartlett": torch.bartlett_window,
    "kaiser": torch.kaiser_window,
}  # fmt: skip


@pytest.mark.parametrize("name", WINDOWS)
def test_windows(name):
    window = WINDOWS[name]

    def call(self, x):
        return [
            x + window(size, periodic).sum() * window(size, periodic)[:1]
            for size in (1, 2, 7, 8)
            for periodic in (True, False)
        ] + [window(6, dtype=torch.float64)]

    check(call, normal(3))


def test_windows_with_parameters():
    def call(self, x):
        return (torch.hamming_window(8, False, 0.5) * x,
                torch.hamming_window(8, True, 0.5, 0.4) * x,
                torch.kaiser_window(8, False, 4.0) * x,
                torch.stft(x, 4, window=torch.hann_window(4), return_complex=True),
                torch.stft(x, 4, center=False, return_complex=True))  # fmt: skip

    check(call, normal(8))


@pytest.mark.parametrize("bias", [True, False])
def test_recurrent_cells(bias):
    cells = {
        "lstm": torch.nn.LSTMCell(4, 6, bias), "gru": torch.nn.GRUCell(4, 6, bias),
        "tanh": torch.nn.RNNCell(4, 6, bias),
        "relu": torch.nn.RNNCell(4, 6, bias, nonlinearity="relu"),
    }  # fmt: skip

    def call(self, x, h, c):
        return (self.lstm(x, (h, c)), self.gru(x, h), self.tanh(x, h), self.relu(x, h))

    check(call, normal(3, 4), normal(3, 6), normal(3, 6), dynamic=True, **cells)


@pytest.mark.parametrize("side", ["right", "left"])
def test_sequences_of_unlike_lengths(side):
    pad = torch.nn.utils.rnn.pad_sequence

    def call(self, a, b):
        return (pad([a, b], batch_first=True, padding_side=side),
                pad([a, b, a[:1]], padding_value=2.0, padding_side=side))  # fmt: skip

    check(call, normal(3, 4), normal(5, 4))


def test_runs_along_an_axis():
    x = torch.tensor([[1, 2], [1, 2], [3, 2], [1, 2], [1, 2]])

    def call(self, x):
        every = {"return_inverse": True, "return_counts": True}
        return (torch.unique_consecutive(x, dim=0, **every),
                torch.unique_consecutive(x, dim=1, **every),
                torch.unique_consecutive(x, **every))  # fmt: skip

    check(call, x)


def test_fake_quantization():
    x = normal(3, 4)
    scale, zero = torch.tensor([0.1, 0.2, 0.05]), torch.tensor([0, 1, -2])

    def call(self, x, scale, zero):
        one, other = scale[0], zero.int()[1]
        return (torch.fake_quantize_per_tensor_affine(x, 0.1, 3, 0, 15),
                torch.fake_quantize_per_tensor_affine(x, one, other, 0, 255),
                torch.fake_quantize_per_channel_affine(x, scale, zero.int(), 0, -8, 7),
                ATEN.fake_quantize_per_tensor_affine_cachemask(
                    x, 0.1, 3, 0, 15))  # fmt: skip

    check(call, x, scale, zero)


def test_embeddings_with_a_largest_norm():
    embedding = torch.nn.Embedding(9, 5, max_norm=1.0)
    check(lambda self, i: self.e(i), torch.tensor([[1, 3], [8, 3]]), e=embedding)


@pytest.mark.parametrize(
    "name",
    [*(f"chebyshev_polynomial_{kind}" for kind in "tuvw"), "hermite_polynomial_h",
     *(f"shifted_chebyshev_polynomial_{kind}" for kind in "tuvw"),
     "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p"],
)  # fmt: skip
def test_polynomials_of_numbers(name):
    function = getattr(torch.special, name)
    x, n = torch.rand(5), torch.tensor([0, 1, 4])
    check(lambda self, x, n: (function(x, 3), function(0.5, n)), x, n)


def test_numbers_among_boundaries():
    boundaries = torch.tensor([-1.0, 0.0, 1.0])

    def call(self, b):
        return ATEN.bucketize(0.3, b), ATEN.bucketize(1.0, b, right=True)

    check(call, boundaries)


def test_norms():
    def call(self, x):
        return (ATEN.frobenius_norm(x, [1, 2]), ATEN.frobenius_norm(x, [-1], True),
                torch.norm_except_dim(x, 2, 1),
                torch.norm_except_dim(x, 2, -1))  # fmt: skip

    check(call, normal(2, 3, 4))


def test_functions_by_other_names():
    def call(self, x):
        whole = x.abs()
        return (torch.special.log1p(whole), torch.special.round(x),
                torch.vander(x), torch.vander(x, 3, increasing=True),
                torch.range(0, 5), torch.range(1, 2, 0.25), ATEN.lift(x), x.to_dense(),
                ATEN.log_sigmoid_forward(x)[0], ATEN._cast_Double(x),
                ATEN._cast_Int(x))  # fmt: skip

    check(call, normal(4))
    check(lambda self, n: torch.repeat_interleave(n), torch.tensor([1, 0, 3]))


def test_convolutions_by_implementation():
    x, w = normal(2, 4, 6, 6), normal(3, 4, 3, 3)
    deep, kernel = normal(1, 4, 5, 5, 5), normal(4, 1, 3, 3, 3)

    def call(self, x, w, deep, kernel):
        return (ATEN.thnn_conv2d(x, w, [3, 3], None, [1, 1], [1, 1]),
                ATEN.slow_conv_dilated2d(x, w, [3, 3], None, [1, 1], [2, 2], [2, 2]),
                ATEN.slow_conv3d(deep, kernel[:, :, :2].expand(-1, 4, -1, -1, -1),
                                 [2, 3, 3], None, [2, 1, 1], [0, 1, 0]))  # fmt: skip

    check(call, x, w, deep, kernel)


def test_results_written_into_arguments():
    """Also into one of another size, which is resized, and into part of a tensor."""

    def call(self, x, y):
        total, empty = torch.zeros(3), torch.empty(0)
        torch.add(x, y, out=total)
        torch.matmul(x, y, out=empty)
        rows = torch.zeros(2, 3, dtype=torch.float64)
        torch.mul(x, 2, out=rows[1])
        values, places = torch.empty(0), torch.empty(0, dtype=torch.int64)
        torch.max(rows.float(), 1, out=(values, places))
        return total * 2, empty, rows, values, places

    check(call, normal(3), normal(3))


FOREACH = {
    "add": lambda x, y: torch._foreach_add([x, y], [y, x], alpha=2),
    "add_scalars": lambda x, y: torch._foreach_add([x, y], [1.0, 2.0]),
    "mul_tensor": lambda x, y: torch._foreach_mul([x, y], torch.tensor(2.0)),
    "pow": lambda x, y: torch._foreach_pow([x.abs(), y.abs()], [2.0, 0.5]),
    "pow_base": lambda x, y: torch._foreach_pow(2.0, [x, y]),
    "lerp": lambda x, y: torch._foreach_lerp([x, y], [y, x], 0.3),
    "lerp_list": lambda x, y: torch._foreach_lerp([x, y], [y, x], [x, y]),
    "addcdiv": lambda x, y: torch._foreach_addcdiv([x], [y], [y.abs() + 1], value=3),
    "addcmul": lambda x, y: torch._foreach_addcmul([x, y], [y, y], [x, x], [2.0, 0.5]),
    "maximum": lambda x, y: torch._foreach_maximum([x, y], 0.2),
    "clamp_max": lambda x, y: torch._foreach_clamp_max([x, y], [y, x]),
    "norm": lambda x, y: torch._foreach_norm([x, y], 1),
    "sqrt": lambda x, y: torch._foreach_sqrt([x.abs(), y.abs()]),
    "max": lambda x, y: torch._foreach_max([x, y]),
}


@pytest.mark.parametrize("name", FOREACH)
def test_ops_on_lists_of_tensors(name):
    function = FOREACH[name]
    check(lambda self, x, y: function(x, y), normal(3), normal(3, 1)[:, 0])


def test_writes_into_lists_of_tensors():
    """A step of SGD with momentum on two tensors."""

    def call(self, x, y):
        params, steps = [x.clone(), y.clone()], [x * 0.1, y * 0.2]
        torch._foreach_mul_(steps, 0.9)
        torch._foreach_add_(params, steps, alpha=-0.5)
        torch._foreach_zero_(steps)
        return params, steps

    check(call, normal(3), normal(2, 4))
