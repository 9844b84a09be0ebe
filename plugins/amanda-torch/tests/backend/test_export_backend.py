"""The backend `torch-export`: written programs, which PyTorch loads and runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import amanda
from amanda.errors import BackendError
from amanda.testing import BackendSuite
from amanda.types import parse_type
from amanda_std import ops, trace
from amanda_std.backends import op_samples

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")


class TestTorchExport(BackendSuite):
    backend = "torch-export"
    device = "cpu"
    late = ("torch", "numpy")

    def samples(self):
        names = ("add", "softmax", "conv", "max_pool", "gather", "if", "topk")
        return op_samples(names, most=2)


class Counter(torch.nn.Module):
    """Counts its calls, and takes and returns trees."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: Any, *, more: Any, scale: int = 2) -> Any:
        self.count.add_(1)
        x.mul_(scale)
        return {"sum": x + more["y"], "count": self.count.clone()}


def counter() -> Any:
    x, y = torch.ones(2), torch.full((2,), 3.0)
    return torch.export.export(Counter(), (x,), {"more": {"y": y}, "scale": 2})


@pytest.mark.parametrize("is_functional", [False, True])
def test_calls_are_independent(is_functional):
    """A program that writes to buffers and inputs: its file, and functional."""
    program = counter()
    if is_functional:
        program = program.run_decompositions()
    run = amanda.compile(amanda.load(program), "torch-export")
    for _ in range(2):
        x = np.ones(2, "f")
        results = list(run([x, np.full(2, 3, "f")]).values())
        sums = [r for r in results if r.shape == (2,) and (r == 5).all()]
        assert len(sums) == 1
        assert all(r == 1 for r in results if r.shape == ())
        np.testing.assert_array_equal(x, [1, 1])


def test_tensors_give_tensors_that_have_gradients():
    graph = trace(lambda x: ops.sum(ops.tanh(x)), [parse_type("float32[n]")])
    run = amanda.compile(graph, "torch-export")
    x = torch.zeros(3, requires_grad=True)
    run([x])[0].backward()
    torch.testing.assert_close(x.grad, torch.ones(3))


def test_results_share_no_memory():
    graph = trace(
        lambda x: (ops.expand_dims(x, axes=[0]), x), [parse_type("float32[2]")]
    )
    run = amanda.compile(graph, "torch-export")
    x = np.ones(2, "f")
    first, second = run([x]).values()
    first[...] = 5
    assert (x == 1).all()
    assert (second == 1).all()


def test_errors_of_pytorch():
    graph = trace(lambda a, b: ops.add(a, b), [parse_type("float32[n]")] * 2)
    run = amanda.compile(graph, "torch-export")
    with pytest.raises(BackendError, match="cannot run the program"):
        run.executable({"a": np.ones(2, "f"), "b": np.ones(3, "f")})
    with pytest.raises(BackendError, match="has no option 'results'"):
        amanda.compile(graph, "torch-export", results="torch")


def test_a_program_of_a_file_is_run_as_it_is(tmp_path):
    """PyTorch's own outputs of a `.pt2`, also of ops that no rule maps."""

    class Model(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.ops.aten._euclidean_dist(x, x), x.shape[0]

    x = torch.arange(6.0).view(3, 2)
    rows = torch.export.Dim("rows")
    program = torch.export.export(Model(), (x,), dynamic_shapes=({0: rows},))
    torch.export.save(program, tmp_path / "model.pt2")
    run = amanda.compile(amanda.load(tmp_path / "model.pt2"), "torch-export")
    distances, count = run([x[:2].numpy()]).values()
    np.testing.assert_array_equal(distances, Model()(x[:2])[0])
    assert count == 2


def test_inputs_whose_names_are_no_names_of_python():
    names = ["0", "x/y:0", "lambda"]
    types = [parse_type("float32[2]")] * 3
    graph = trace(lambda a, b, c: a + b * c, types, names=names)
    run = amanda.compile(graph, "torch-export")
    (found,) = run([np.full(2, n, "f") for n in (1, 2, 3)]).values()
    np.testing.assert_array_equal(found, [7, 7])
