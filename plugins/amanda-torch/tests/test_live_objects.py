"""Live objects of PyTorch, TorchScript, weights in other files."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import amanda  # noqa: E402
from amanda.errors import FormatError, UsageError  # noqa: E402

# The converter of TorchScript uses what PyTorch is about to remove.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def layers() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU()).eval()


def types(graph: Any) -> list[str]:
    return [op.type for op in graph]


EXPECTED = ["get_attr", "get_attr", "aten.linear.default", "aten.relu.default"]


def test_a_module_with_inputs() -> None:
    shapes = {0: torch.export.Dim("batch")}
    graph = amanda.load(layers(), args=[torch.zeros(4, 3)], dynamic_shapes=(shapes,))
    assert types(graph) == EXPECTED
    assert not graph.parameters[0].type.shape.is_static  # type: ignore[union-attr]


def test_an_exported_program() -> None:
    program = torch.export.export(layers(), (torch.zeros(4, 3),))
    graph = amanda.load(program)
    assert types(graph) == EXPECTED
    weight = graph.ops[0].attrs["x-value"].numpy()
    np.testing.assert_array_equal(weight, program.state_dict["0.weight"].detach())
    with pytest.raises(UsageError, match="no arguments"):
        amanda.load(program, args=[torch.zeros(4, 3)])


class Memory(torch.nn.Module):
    """Tied weights, views of one storage, an empty buffer, bfloat16, a counter."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(3, 3)
        self.second = torch.nn.Linear(3, 3, bias=False)
        self.second.weight = self.first.weight
        both = torch.arange(12.0).reshape(4, 3)
        self.register_buffer("both", both)
        self.register_buffer("rows", both[1:])
        self.register_buffer("columns", both.t())
        self.register_buffer("empty", torch.zeros(0, 3))
        self.register_buffer("scale", torch.tensor([1.5], dtype=torch.bfloat16))
        self.register_buffer("count", torch.zeros(()))
        self.limit = torch.tensor([2.0, 3.0, 5.0])

    def forward(self, x: Any) -> Any:
        self.count.add_(1)
        y = self.second(self.first(x)) @ self.columns[:, 1:] @ self.rows
        return torch.cat([y * self.scale, self.empty]) + self.limit


def live_values(graph: Any) -> dict[str, Any]:
    weights = [op for op in graph if op.type == "get_attr"]
    return {op.attrs["target"]: op.attrs["x-value"] for op in weights}


def test_a_live_program_is_that_of_its_file(tmp_path: Path) -> None:
    program = torch.export.export(Memory(), (torch.randn(2, 3),))
    torch.export.save(program, tmp_path / "saved.pt2")
    live, read = amanda.load(program), amanda.load(tmp_path / "saved.pt2")
    models = []
    for name, graph in (("live", live), ("read", read)):
        amanda.save(graph, tmp_path / f"{name}.pt2")
        with zipfile.ZipFile(tmp_path / f"{name}.pt2") as archive:
            [model] = [n for n in archive.namelist() if n.endswith("models/model.json")]
            models.append(archive.read(model))
        found = torch.export.load(tmp_path / f"{name}.pt2")
        for key, value in program.state_dict.items():
            torch.testing.assert_close(found.state_dict[key], value)
            assert found.state_dict[key].stride() == value.stride()
    assert models[0] == models[1]
    expected = live_values(read)
    for key, value in live_values(live).items():
        assert value.same_content(expected[key]), key


def test_weights_of_live_programs_are_not_copied() -> None:
    program = torch.export.export(Memory(), (torch.randn(2, 3),))
    values = live_values(amanda.load(program))
    memory = program.state_dict["first.weight"].detach().numpy()
    assert np.shares_memory(values["first.weight"].numpy(), memory)
    assert values["first.weight"] is values["second.weight"]
    program = torch.export.export(torch.nn.BatchNorm1d(3).eval(), (torch.ones(2, 3),))
    mean = live_values(amanda.load(program))["running_mean"].numpy()
    assert np.shares_memory(mean, program.state_dict["running_mean"].numpy())


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of run_decompositions
def test_running_a_live_program_leaves_its_graph_alone() -> None:
    program = torch.export.export(Memory(), (torch.randn(2, 3),))
    values = live_values(amanda.load(program))
    decomposed = program.run_decompositions({})
    decomposed_values = live_values(amanda.load(decomposed))
    for each, before in ((program, values), (decomposed, decomposed_values)):
        old = float(before["count"].numpy())
        each.module()(torch.randn(2, 3))
        assert each.state_dict["count"] > old
        assert before["count"].numpy() == old


def test_a_live_program_takes_weights_of_a_file(tmp_path: Path) -> None:
    program = torch.export.export(layers(), (torch.zeros(4, 3),))
    zeros = {name: torch.zeros_like(t) for name, t in program.state_dict.items()}
    weights = safetensors_file(tmp_path / "w.safetensors", zeros)
    graph = amanda.load(program, weights=weights)
    assert not graph.ops[0].attrs["x-value"].numpy().any()
    with pytest.raises(UsageError, match="one program"):
        amanda.load(program, model="other")


def test_a_graph_module() -> None:
    traced = torch.fx.symbolic_trace(layers())
    assert types(amanda.load(traced, args=[torch.zeros(4, 3)])) == EXPECTED


def test_torchscript(tmp_path: Path) -> None:
    path = tmp_path / "script.pt"
    script = torch.jit.script(layers())
    script.save(path)
    feed = torch.randn(4, 3)
    for source in (path, script):
        graph = amanda.load(source, args=[feed])
        assert types(graph)[2:] == EXPECTED[2:]
        out = tmp_path / "written.pt2"
        amanda.save(graph, out)
        found = torch.export.load(out).module()(feed)
        torch.testing.assert_close(found, layers()(feed))
    with pytest.raises(FormatError, match="TorchScript"):
        amanda.load(path)


def test_modules_need_inputs() -> None:
    with pytest.raises(UsageError, match="example inputs"):
        amanda.load(layers())
    with pytest.raises(FormatError, match="PyTorch cannot export this"):
        amanda.load(layers(), args=[torch.zeros(4, 5)])


def test_checkpoints_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "weights.pt"
    torch.save(layers().state_dict(), path)
    with pytest.raises(FormatError, match="never opened"):
        amanda.load(path)
    torch.save(layers().state_dict(), path, _use_new_zipfile_serialization=False)
    with pytest.raises(FormatError, match="never opened"):
        amanda.load(path)


def safetensors_file(path: Path, tensors: dict[str, Any]) -> Path:
    """The file that the safetensors library writes, by its specification."""
    header, data = {}, b""
    for name, tensor in tensors.items():
        raw = tensor.detach().numpy().tobytes()
        span = [len(data), len(data) + len(raw)]
        header[name] = {
            "dtype": "F32",
            "shape": list(tensor.shape),
            "data_offsets": span,
        }
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def test_weights_of_another_file(tmp_path: Path) -> None:
    program = torch.export.export(layers(), (torch.zeros(4, 3),))
    path = tmp_path / "m.pt2"
    torch.export.save(program, path)
    zeros = {name: torch.zeros_like(t) for name, t in program.state_dict.items()}
    weights = safetensors_file(tmp_path / "w.safetensors", zeros)
    graph = amanda.load(path, weights=weights)
    assert not graph.ops[0].attrs["x-value"].numpy().any()
    weights = safetensors_file(weights, {"0.weight": torch.zeros(2, 2)})
    with pytest.raises(FormatError, match="another type"):
        amanda.load(path, weights=weights)


def test_archives_before_2_8(tmp_path: Path) -> None:
    """The layout of PyTorch 2.1 to 2.7, whose weights are pickles."""
    from torch._export.serde.serialize import serialize

    program = torch.export.export(layers(), (torch.zeros(4, 3),))
    artifact = serialize(program)
    path = tmp_path / "old.pt2"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("version", "8.1")
        archive.writestr("serialized_exported_program.json", artifact.exported_program)
        archive.writestr("serialized_state_dict.pt", artifact.state_dict)
        archive.writestr("serialized_constants.pt", artifact.constants)
    with pytest.raises(FormatError) as caught:
        amanda.load(path)
    assert "never opened" in str(caught.value)
    assert "weights=FILE" in str(caught.value)
    state = dict(program.state_dict)
    weights = safetensors_file(tmp_path / "w.safetensors", state)
    graph = amanda.load(path, weights=weights)
    assert types(graph) == EXPECTED
    np.testing.assert_array_equal(
        graph.ops[0].attrs["x-value"].numpy(), state["0.weight"].detach()
    )


def test_executorch_is_refused() -> None:
    with pytest.raises(FormatError, match="ExecuTorch"):
        amanda.load(
            io.BytesIO(b"\x10\0\0\0ET12" + bytes(32)).getvalue(), format="torch"
        )


class Transformed(torch.nn.Module):
    """A transform of a function that has sums of cubes."""

    def __init__(self, transform: Any) -> None:
        super().__init__()
        self.transform = transform

    def forward(self, x: Any) -> Any:
        return self.transform(lambda v: (v**3).sum())(x)


@pytest.mark.parametrize("transform", [torch.func.grad, torch.func.jacrev])
def test_a_module_that_calls_transforms(transform: Any) -> None:
    module = Transformed(transform)
    with pytest.raises(FormatError, match="cannot export transforms") as raised:
        amanda.load(module, args=[torch.ones(2)])
    assert "amanda.grad" in str(raised.value)


def test_the_function_of_a_transform_is_differentiated() -> None:
    """As the message of a module that calls `torch.func.grad` says."""
    x = torch.tensor([1.0, -2.0])
    graph = amanda.load(Transformed(lambda function: function), args=[x])
    graph = amanda.convert(graph, "std")
    graph.result(amanda.grad(graph, of=graph.results[0], wrt=graph.parameters[0]))
    found = list(amanda.run(graph, [x.numpy()], backend="numpy").values())
    np.testing.assert_allclose(found[1], 3 * x.numpy() ** 2)
