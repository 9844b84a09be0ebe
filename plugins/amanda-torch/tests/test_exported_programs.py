"""Programs that PyTorch exports: read without it, and compared with it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

sys.path.insert(0, str(Path(__file__).parent))
from programs import cases  # noqa: E402  it imports torch

import amanda  # noqa: E402
from amanda.graph import Graph, Op  # noqa: E402
from amanda.types import Sym, TensorType  # noqa: E402

CASES = cases()
pytestmark = [  # warnings of PyTorch's own
    pytest.mark.filterwarnings("ignore:No complete tensor found"),
    pytest.mark.filterwarnings("ignore:The tensor attributes"),
]


class Saved:
    """A program of PyTorch, the file it saved, and the graph of the file."""

    def __init__(self, name: str, folder: Path) -> None:
        self.program = CASES[name]().export()
        self.path = folder / f"{name.replace(' ', '_')}.pt2"
        torch.export.save(self.program, self.path)
        self.graph: Graph = amanda.load(self.path)


@pytest.fixture(scope="module", params=CASES)
def saved(request: Any, tmp_path_factory: Any) -> Saved:
    return Saved(request.param, tmp_path_factory.mktemp("programs"))


def nodes_of(module: Any) -> Iterator[Any]:
    """The nodes that files have: `getitem` belongs to the node that it is of."""
    import operator

    for node in module.graph.nodes:
        if node.op == "call_function" and node.target is not operator.getitem:
            yield node


def test_a_node_is_an_op_of_its_name(saved: Saved) -> None:
    ops = [op for op in saved.graph if op.type != "get_attr"]
    nodes = list(nodes_of(saved.program.graph_module))
    assert [op.name for op in ops] == [node.name for node in nodes]
    for op, node in zip(ops, nodes, strict=True):
        assert (op.type or "").split(".")[-2:] == _type_of(node).split(".")[-2:]


def _type_of(node: Any) -> str:
    target = node.target
    if isinstance(target, torch._ops.HigherOrderOperator):
        return f"higher_order.{target.name()}"
    return str(target) if hasattr(target, "_schema") else (
        f"{target.__module__}.{target.__name__}"
    )  # fmt: skip


def test_values_have_the_types_of_the_program(saved: Saved) -> None:
    graph = saved.graph
    values = {op.name: op.outputs[0] for op in graph if len(op.outputs) == 1}
    outputs = [port for op in graph for port in op.outputs]
    values |= {port.name: port for port in outputs if port.name}
    values |= {port.name or "": port for port in graph.parameters}
    count = 0
    for node in saved.program.graph.nodes:
        found = node.meta.get("val")
        if isinstance(found, torch.Tensor) and node.name in values:
            type = values[node.name].type
            assert isinstance(type, TensorType)
            assert str(type.dtype) == str(found.dtype).removeprefix("torch.")
            assert type.shape.rank == found.dim()
            for dim, size in zip(type.shape.dims, found.shape, strict=True):
                assert isinstance(dim, Sym) != isinstance(size, int)
                assert isinstance(dim, Sym) or dim == size
            count += 1
    assert count > 2


def test_weights_are_those_of_the_program(saved: Saved) -> None:
    stored = {**saved.program.state_dict, **saved.program.constants}
    count = 0
    for op in saved.graph:
        if op.type == "get_attr":
            value = op.attrs["x-value"].numpy()
            np.testing.assert_array_equal(value, stored[op.attrs["target"]].detach())
            count += 1
    assert count == len(saved.program.graph_signature.input_specs) - len(
        [s for s in saved.program.graph_signature.input_specs if s.target is None]
    )


def _op(graph: Graph, type: str) -> Op:
    [found] = [op for op in graph if op.type == type]
    return found


def test_mixed(tmp_path: Path) -> None:
    """The form of a program that mutates, branches and has symbolic sizes."""
    graph = Saved("mixed", tmp_path).graph
    view, fill = _op(graph, "aten.view.default"), _op(graph, "aten.fill_.Tensor")
    assert fill in view.control_inputs
    assert [port.name for port in view.input_ports] == [None, "size.0"]
    assert view.attrs["size"] == [None]
    mul = _op(graph, "_operator.mul")
    assert (mul.attrs["b"], str(mul.output.type)) == (3, "int64[] = 3*s77")
    cond = _op(graph, "higher_order.cond")
    assert list(cond.bodies) == ["true_fn", "false_fn"]
    assert _op(cond.bodies["true_fn"], "aten.add.Tensor").attrs["other"] == 1
    assert [p.name for p in graph.parameters] == ["x", "y"]
    kinds = {op.attrs["kind"] for op in graph if op.type == "get_attr"}
    assert kinds == {"parameter", "buffer", "non_persistent_buffer", "constant"}


def test_files_written_are_equal_programs(saved: Saved, tmp_path: Path) -> None:
    """PyTorch loads what Amanda wrote: the same nodes, signature, values, outputs."""
    path = tmp_path / "written.pt2"
    amanda.save(saved.graph, path)
    written, read = torch.export.load(path), torch.export.load(saved.path)
    assert str(written.graph) == str(read.graph)
    assert written.graph_signature == read.graph_signature
    assert written.range_constraints == read.range_constraints
    assert str(written) == str(read)  # types of values, guards
    assert written.module_call_graph == read.module_call_graph
    for a, b in zip(written.graph.nodes, read.graph.nodes, strict=True):
        assert a.meta.get("nn_module_stack") == b.meta.get("nn_module_stack")
        assert a.meta.get("stack_trace") == b.meta.get("stack_trace")
    for name, tensor in read.state_dict.items():
        torch.testing.assert_close(written.state_dict[name], tensor, rtol=0, atol=0)
        assert written.state_dict[name].stride() == tensor.stride()
        assert written.state_dict[name].requires_grad == tensor.requires_grad
    args, kwargs = saved.program.example_inputs
    torch.manual_seed(1)
    expected = read.module()(*args, **kwargs)
    torch.manual_seed(1)
    found = written.module()(*args, **kwargs)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_text_files_keep_programs(saved: Saved, tmp_path: Path) -> None:
    """A program saved as `.amanda` is written as the program it was."""
    path, written = tmp_path / "graph.amanda", tmp_path / "written.pt2"
    amanda.save(saved.graph, path)
    amanda.save(amanda.load(path), written)
    read = torch.export.load(saved.path)
    assert str(torch.export.load(written)) == str(read)


def test_a_graph_without_records_is_a_program(tmp_path: Path) -> None:
    """Graphs that no file had, as conversions build them."""
    graph = Graph("amanda/torch/2.13.0")
    ops: Any = amanda.namespace("torch@2.13.0").build(graph)  # type: ignore[attr-defined]
    x = graph.parameter("float32[n, 4]", "x")
    weight = np.arange(12, dtype=np.float32).reshape(3, 4)
    attrs = {"target": "head.weight", "kind": "parameter"}
    w = graph.add("get_attr", [], {**attrs, "x-value": amanda.Tensor.of(weight)})
    w.output.type = "float32[3, 4]"  # type: ignore[assignment]
    n = ops["aten.sym_size.int"](x, 0)
    n.type = "int64[] = n"
    y = ops["aten.linear.default"](x, w.output)
    y.type = "float32[n, 3]"
    twice = ops["_operator.mul"](n, 3)
    twice.type = "int64[] = 3*n"
    flat = ops["aten.view.default"](ops["aten.add.Tensor"](y, 1), [twice])
    flat.op.inputs[0].type, flat.type = "float32[n, 3]", "float32[3*n]"
    graph.result(flat, "y")
    path = tmp_path / "built.pt2"
    amanda.save(graph, path)
    program = torch.export.load(path)
    assert dict(program.named_parameters())["head.weight"].requires_grad
    feed = torch.randn(5, 4)
    found = program.module()(feed)
    expected = (feed @ torch.from_numpy(weight).T + 1).flatten()
    torch.testing.assert_close(found, expected)


def test_ranges_of_numbers_that_depend_on_data(tmp_path: Path) -> None:
    """A symbol whose range is the usual one, which PyTorch needs all the same."""

    class Count(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            size = x.sum().item()
            torch._check(size >= 0)
            return torch.zeros(size)

    program = torch.export.export(Count(), (torch.tensor([1, 2]),))
    path, written = tmp_path / "a.pt2", tmp_path / "b.pt2"
    torch.export.save(program, path)
    amanda.save(amanda.load(path), written)
    found, read = torch.export.load(written), torch.export.load(path)
    assert str(found) == str(read)
    assert found.range_constraints == read.range_constraints
    assert found.module()(torch.tensor([2, 3])).shape == (5,)
