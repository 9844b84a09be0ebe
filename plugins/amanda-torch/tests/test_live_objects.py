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
