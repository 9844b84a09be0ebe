"""Branches, loops, scans, attention of scores, regions and effects, against PyTorch."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest

import amanda
from amanda.errors import ConversionError
from amanda.graph import Graph

torch = pytest.importorskip("torch", reason="makes the programs")

from torch._higher_order_ops import (  # noqa: E402
    associative_scan,
    scan,
    while_loop,
)
from torch._higher_order_ops import map as map_rows  # noqa: E402
from torch._higher_order_ops.hints_wrap import hints_wrapper  # noqa: E402
from torch._higher_order_ops.strict_mode import strict_mode  # noqa: E402
from torch.nn.attention.flex_attention import (  # noqa: E402
    create_block_mask,
    flex_attention,
)


class _Layer(torch.nn.Module):
    """A module with a linear layer, whose weights bodies capture."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)


class CapturingBranch(_Layer):
    def forward(self, x):
        y = x.sin()
        return torch.cond(
            x.sum() > 0, lambda x: self.linear(x) + y, lambda x: x * y, (x,)
        )


class NestedBranch(_Layer):
    def forward(self, x):
        def inner(x):
            return torch.cond(x.max() > 1, lambda x: x.exp(), self.linear, (x,))

        return torch.cond(x.sum() > 0, inner, lambda x: x - 1, (x,))


class BranchOnSize(torch.nn.Module):
    def forward(self, x):
        return torch.cond(x.shape[0] > 6, lambda x: x + 1, lambda x: x - 1, (x,))


class WriteInBranch(torch.nn.Module):
    """A branch that writes into a tensor of its own."""

    def forward(self, x):
        def left(x):
            y = x.clone()
            y[0].fill_(5.0)
            y.mul_(2)
            return y

        return torch.cond(x.sum() > 0, left, lambda x: x.clone().add_(1), (x,))


class CapturingLoop(_Layer):
    def forward(self, x):
        y = x * 2

        def step(i, v):
            return i + 1, torch.tanh(self.linear(v)) + y

        i = torch.zeros((), dtype=torch.int64)
        return while_loop(lambda i, v: (i < 4) & (v.sum() < 50), step, (i, x))


class Rows(_Layer):
    def forward(self, x):
        y = x.mean(0)
        return map_rows(lambda row, c: self.linear(row) * c + y, x, torch.ones(4) * 2)


class RowsOfPairs(torch.nn.Module):
    def forward(self, x):
        return map_rows(lambda p, c: (p[0] + c, p[1].sum(0)), (x, x * 2), x[0] + 1)


class CapturingScan(_Layer):
    def forward(self, x):
        def step(state, row):
            new = torch.tanh(self.linear(state) + row)
            return new, (new * 2, row.sum())

        return scan(step, x[0], x)


class ReversedScan(torch.nn.Module):
    def forward(self, x):
        return scan(
            lambda c, v: (c * 0.5 + v, c + v), x[:, 0].clone(), x, dim=1, reverse=True
        )


class CumulativeSums(torch.nn.Module):
    def forward(self, x):
        return associative_scan(lambda a, b: a + b, x, dim=0, combine_mode="generic")


class LinearRecurrence(torch.nn.Module):
    """The scan of a state space model: pairs of factors and terms."""

    def forward(self, x):
        def combine(left, right):
            return left[0] * right[0], left[1] * right[0] + right[1]

        return associative_scan(
            combine, (torch.sigmoid(x), x), dim=0, reverse=True, combine_mode="generic"
        )


class Regions(_Layer):
    def forward(self, x):
        with torch.no_grad():
            y = self.linear(x) * 2
        with torch.enable_grad():
            z = y + 1
        return y, z


class Autocast(_Layer):
    """`linear` in bfloat16, `sum` in float32, and a nested region without autocast."""

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.linear(x)
            with torch.autocast("cpu", enabled=False):
                z = torch.nn.functional.linear(y.float(), self.linear.weight)
            w = torch.matmul(y, y.t()) + torch.softmax(y, -1).sum()
        return y, z, w


class Checkpoint(_Layer):
    def forward(self, x):
        def block(x):
            return torch.tanh(self.linear(x)) * x

        return torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False) + 1


class Wrappers(_Layer):
    """Graphs as arguments of ops that call them."""

    def forward(self, x):
        x = strict_mode(lambda x: (self.linear(x) + 1,), (x,))[0]
        hints = {"block": "first"}
        return hints_wrapper(lambda x: (torch.sin(x) * 2,), (x,), {}, hints=hints)


class Effects(torch.nn.Module):
    """Prints, ordered by tokens in the core IR, and checks."""

    def forward(self, x):
        torch._higher_order_ops.print("x is {x}", x=x)
        torch.ops.aten._print("done")
        n = (x > 0).sum().item()
        torch._check(n >= 0)
        torch._check(n < 100)
        return x + n


def _attention(x):
    return [x.reshape(1, 2, -1, 4) * f for f in (1.0, 0.5, 2.0)]


class BiasedAttention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.slope = torch.nn.Parameter(torch.tensor([0.5, 0.25]))

    def forward(self, x):
        def score(s, b, h, q, k):
            return s + self.slope[h] * (k - q)

        return flex_attention(*_attention(x), score_mod=score)


class MaskedAttention(torch.nn.Module):
    def forward(self, x):
        q, k, v = _attention(x)
        n = q.shape[2]
        mask = create_block_mask(
            lambda b, h, q, k: q >= k, 1, 1, n, n, device="cpu", BLOCK_SIZE=128
        )
        return flex_attention(q, k, v, block_mask=mask, scale=0.3)


class GroupedAttention(torch.nn.Module):
    def forward(self, x):
        q = x.reshape(1, 4, -1, 2)
        k = x.reshape(1, 2, -1, 2)
        return flex_attention(q, k, k * 2, enable_gqa=True)


def export(module, tmp_path, *, strict=False, decompose=False, **options):
    x = torch.randn(8, 4, generator=torch.Generator().manual_seed(3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(
            copy.deepcopy(module), (x,), strict=strict, **options
        )
        if decompose:
            program = program.run_decompositions()
        if isinstance(module, NOT_SAVED):
            return amanda.load(program)
        torch.export.save(program, tmp_path / "model.pt2")
    return amanda.load(tmp_path / "model.pt2")


def compare(run, module, size):
    fed = torch.randn(size, 4, generator=torch.Generator().manual_seed(5))
    wanted = torch.utils._pytree.tree_leaves(module(fed.clone()))
    found = list(run({"x": fed.numpy()}).values())
    for have, want in zip(found, wanted, strict=True):
        want = want if isinstance(want, torch.Tensor) else torch.tensor(want)
        assert str(have.dtype) == str(want.dtype).removeprefix("torch.")
        far = 2e-2 if isinstance(module, Autocast) else 1e-5
        np.testing.assert_allclose(
            have.astype("float64"), want.detach().double().numpy(), rtol=far, atol=far
        )


NOT_SAVED = (BiasedAttention, MaskedAttention, GroupedAttention)
"""Modules that PyTorch exports and cannot save."""
MODULES = [
    CapturingBranch, NestedBranch, WriteInBranch, CapturingLoop,
    Rows, RowsOfPairs, CapturingScan, ReversedScan, CumulativeSums, LinearRecurrence,
    Regions, Autocast, Checkpoint, Wrappers, Effects, *NOT_SAVED,
]  # fmt: skip


def check(module, tmp_path, **options):
    torch.manual_seed(0)
    module = module().eval()
    run = amanda.compile(export(module, tmp_path, **options), "numpy")
    compare(run, module, 8)


@pytest.mark.most_cases(3)
@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__)
def test_programs(module, tmp_path):
    check(module, tmp_path)


CORE = [CumulativeSums, LinearRecurrence, Autocast, Wrappers, Effects]


@pytest.mark.most_cases(2)
@pytest.mark.parametrize("module", CORE, ids=lambda m: m.__name__)
def test_programs_of_the_core_ir(module, tmp_path):
    check(module, tmp_path, decompose=True)


def test_what_is_left_out_is_reported(tmp_path):
    (report,) = amanda.plan(export(Effects(), tmp_path), "std").reports
    assert {loss.partition(",")[0] for loss in report.losses} == {
        "higher_order.print", "aten._print.default", "aten._assert_scalar.default"
    }  # fmt: skip
    assert report.losses[0].endswith("op 'print_1': checks and prints are left out")


def test_an_associative_scan():
    """As it is where it is not expanded, on GPUs: along the first axis."""
    graph = Graph("amanda/torch/2.13.0")
    type = amanda.parse_type("float32[5, 2]")
    a, b = (graph.parameter(type, name) for name in "ab")
    body = Graph(graph.namespace)
    v = [body.parameter(amanda.parse_type("float32[2]")) for _ in range(4)]
    body.result(body.add("aten.mul.Tensor", [v[0], v[2]]).output)
    scaled = body.add("aten.mul.Tensor", [v[1], v[2]]).output
    body.result(body.add("aten.add.Tensor", [scaled, v[3]]).output)
    op = graph.add("higher_order.associative_scan", [a, b], outputs=2,
                   bodies={"combine_fn": body})  # fmt: skip
    for i, port in enumerate(op.input_ports):
        port.set_name(f"xs.{i}")
    for port in op.outputs:
        graph.result(port)
    x, y = np.random.default_rng(0).standard_normal((2, 5, 2)).astype("float32")
    found = list(amanda.run(graph, [x, y], backend="numpy").values())
    sums = [y[0]]
    for factor, term in zip(x[1:], y[1:], strict=True):
        sums.append(sums[-1] * factor + term)
    np.testing.assert_allclose(found[0], np.cumprod(x, 0), rtol=1e-5)
    np.testing.assert_allclose(found[1], sums, rtol=1e-5)


def test_kernels_in_triton_are_refused():
    graph = Graph("amanda/torch/2.13.0")
    attrs = {"kernel_idx": 0, "constant_args_idx": 0, "grid": [], "kwargs": {}}
    graph.add("higher_order.triton_kernel_wrapper_functional", [],
              {**attrs, "tensors_to_clone": []}, outputs=1)  # fmt: skip
    graph.result(graph.ops[-1].output)
    with pytest.raises(ConversionError, match="Triton is code for GPUs; write the"):
        amanda.convert(graph, "std")


def test_a_branch_on_a_size(tmp_path):
    shapes = {"x": {0: torch.export.Dim("n", min=2, max=100)}}
    graph = export(BranchOnSize(), tmp_path, dynamic_shapes=shapes)
    run = amanda.compile(graph, "numpy")
    for size in (5, 8):
        compare(run, BranchOnSize(), size)
