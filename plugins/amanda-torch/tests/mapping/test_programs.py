"""Programs with branches, loops, recurrent layers, symbolic sizes and buffers."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest

import amanda

torch = pytest.importorskip("torch", reason="makes the programs")


class Branch(torch.nn.Module):
    def forward(self, x):
        return torch.cond(
            x.sum() > 0, lambda x: (x + 1, x * 3), lambda x: (x * 2, x - 1), (x,)
        )


class Loop(torch.nn.Module):
    def forward(self, x):
        start = (torch.tensor(0), x)
        return torch._higher_order_ops.while_loop(
            lambda i, _: i < 5, lambda i, x: (i + 1, x * 1.5 + 1), start
        )


class Scan(torch.nn.Module):
    def forward(self, x):
        from torch._higher_order_ops.scan import scan

        return scan(lambda total, row: (total + row, total * row), x[0], x, dim=0)


class Recurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(4, 5, 2, batch_first=True, bidirectional=True)
        self.gru = torch.nn.GRU(4, 5)

    def forward(self, x):
        y, (h, c) = self.lstm(x[None])
        return y, h, c, *self.gru(x[:, None])


class Sizes(torch.nn.Module):
    def forward(self, x):
        n = x.shape[0]
        numbers = torch.arange(n) * 1.5, torch.zeros(n, 3) + n / 2
        return x.view(n * 4) + n, x[: n - 1], x.reshape(-1, 2), *numbers


class Buffers(torch.nn.Module):
    """Batch normalization in training, a buffer, and a write into a row."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(4)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls.add_(1)
        y = self.norm(x)
        y[0] = self.calls
        return y, torch.nonzero(x > 0), self.norm.running_var + 0


class Instances(torch.nn.Module):
    """Running statistics of instances."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.InstanceNorm1d(4, affine=True, track_running_stats=True)

    def forward(self, x):
        y = self.norm(x.t()[None] * 2)
        return y, self.norm.running_mean * 1, self.norm.running_var * 1


class SharedMemory(torch.nn.Module):
    """Ops that copy only where strides demand it, or return their argument."""

    def forward(self, x):
        z = x * 2
        a = z.t().reshape(-1)
        a.add_(1)
        b = z.reshape(-1)
        b.mul_(3)
        z.t().contiguous().zero_()
        z.contiguous().add_(7)
        z.to(torch.float32).mul_(2)
        z.to(torch.float32, copy=True).zero_()
        c = torch.dropout(z, 0.5, False)
        c.add_(1)
        torch.atleast_2d(z).mul_(3)
        return z, a, b, c


def check(module, tmp_path, sizes, *, dynamic=False, core=False):
    """Run the exported module several times, as the module itself."""
    shapes = {"x": {0: torch.export.Dim("n", min=3, max=100)}} if dynamic else None
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(
            copy.deepcopy(module), (x,), dynamic_shapes=shapes, strict=False
        )
        program = program.run_decompositions() if core else program
        torch.export.save(program, tmp_path / "model.pt2")
    run = amanda.compile(amanda.load(tmp_path / "model.pt2"), "numpy")
    for size in sizes:
        fed = torch.randn(size, 4)
        wanted = torch.utils._pytree.tree_leaves(module(fed.clone()))
        found = list(run({"x": fed.numpy()}).values())
        for have, want in zip(found, wanted, strict=True):
            want = want.detach().numpy()
            assert have.dtype == want.dtype
            np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("module", [Branch, Loop, Scan])
def test_bodies(module, tmp_path):
    check(module(), tmp_path, [6, 6])


def test_recurrent_layers(tmp_path):
    check(Recurrent().eval(), tmp_path, [6])


class Layers(torch.nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.layers = kind(4, 6, **options)

    def forward(self, x):
        return self.layers(x[:, None] * torch.ones(1, 3, 1))


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize(
    "module",
    [
        Layers(torch.nn.LSTM, num_layers=2, proj_size=3, bidirectional=True),
        Layers(torch.nn.LSTM, num_layers=2, proj_size=3, bias=False),
        Layers(torch.nn.GRU, num_layers=3, bidirectional=True, dropout=0.5),
        Layers(torch.nn.RNN, num_layers=2, nonlinearity="relu", batch_first=True),
        Layers(torch.nn.LSTM, bias=False, bidirectional=True, batch_first=True),
    ],
    ids=["projected", "without biases", "gru", "relu", "batch first"],
)
def test_options_of_recurrent_layers(module, tmp_path):
    check(module.eval(), tmp_path, [6])


def test_dropout_between_recurrent_layers(tmp_path):
    """All elements between the layers are dropped: the second one sees zeros."""
    module = Layers(torch.nn.LSTM, num_layers=2, dropout=1.0).train()
    check(module, tmp_path, [6])


def test_symbolic_sizes(tmp_path):
    check(Sizes(), tmp_path, [6, 9], dynamic=True)


@pytest.mark.parametrize("core", [False, True], ids=["training", "core"])
def test_buffers_keep_their_values_between_calls(core, tmp_path):
    check(Buffers().train(), tmp_path, [6, 9, 6], dynamic=True, core=core)


@pytest.mark.parametrize("core", [False, True], ids=["training", "core"])
def test_running_statistics_of_instances(core, tmp_path):
    check(Instances().train(), tmp_path, [6, 6], core=core)


def test_copies_follow_from_strides(tmp_path):
    check(SharedMemory(), tmp_path, [6])


def test_inputs_that_a_program_writes(tmp_path):
    """Their values follow the results, in the core IR, which has them."""

    class Module(torch.nn.Module):
        def forward(self, x):
            x.add_(1)
            return x.sum(0)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(Module(), (torch.zeros(6, 4),))
        torch.export.save(program.run_decompositions(), tmp_path / "model.pt2")
    x = np.ones((6, 4), "float32")
    run = amanda.compile(amanda.load(tmp_path / "model.pt2"), "numpy")
    total, written = run({"x": x}).values()
    assert (total == 12).all()
    assert (written == 2).all()
