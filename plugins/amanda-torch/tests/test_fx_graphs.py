"""Graphs of torch.fx as JSON: PyTorch's serializer is the oracle."""

from __future__ import annotations

import json
import operator
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

sys.path.insert(0, str(Path(__file__).parent))
from programs import cases  # noqa: E402  it imports torch
from torch._export.serde import serialize  # noqa: E402

from amanda_torch.fx_graphs import json_fields, serialize_module  # noqa: E402

pytestmark = [  # warnings of PyTorch's own
    pytest.mark.filterwarnings("ignore:No complete tensor found"),
    pytest.mark.filterwarnings("ignore:The tensor attributes"),
]


def fields_of(program: Any) -> tuple[Any, Any]:
    """Those of a program by Amanda and by PyTorch."""
    signature, calls = program.graph_signature, program.module_call_graph
    serializer = serialize.GraphModuleSerializer(signature, calls)
    expected = serialize._dataclass_to_dict(serializer.serialize(program.graph_module))
    text = json.dumps(expected, cls=serialize.EnumEncoder)
    found = serialize_module(program.graph_module, signature, calls)
    return found, json.loads(text)


@pytest.mark.parametrize("name", cases())
def test_programs_are_serialized_as_pytorch_does(name: str) -> None:
    found, expected = fields_of(cases()[name]().export())
    assert found == expected


class Arguments(torch.nn.Module):
    """Empty lists, lists of indices with None, complex numbers, sizes among numbers."""

    def forward(self, x: Any) -> Any:
        n = x.shape[0]
        index = torch.tensor([0, 1])
        total = torch.sum(x, dim=[]) + torch.zeros([])
        rows = x[:, index].reshape(n, 2) * complex(0.5, float("inf"))
        values, _ = torch.max(x.float(), 0)
        at = torch.unsqueeze(torch.ops.aten.full([n, 2], n / 2), 0)
        x.to(torch.device("cpu"), torch.float64, memory_format=torch.contiguous_format)
        return total, rows, values, at, torch.cat([x.mT, x.mT], 1), -n


@pytest.mark.parametrize("is_decomposed", [False, True])
@pytest.mark.filterwarnings("ignore::FutureWarning")  # of run_decompositions
def test_arguments_are_serialized_as_pytorch_does(is_decomposed: bool) -> None:
    shapes = ({0: torch.export.Dim("n", min=2)},)
    example = (torch.ones(3, 4),)
    program = torch.export.export(Arguments(), example, dynamic_shapes=shapes)
    if is_decomposed:
        program = program.run_decompositions({})
    found, expected = fields_of(program)
    assert found == expected


def test_elements_that_are_taken_twice_have_one_name() -> None:
    """PyTorch's serializer writes a name in a list that no node has."""
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.ones(4, 2)
    parts = graph.call_function(torch.ops.aten.split.Tensor, (x, 2))
    parts.meta["val"] = [torch.ones(2, 2)] * 2
    twice = [graph.call_function(operator.getitem, (parts, 0)) for _ in range(2)]
    for item in twice:
        item.meta["val"] = torch.ones(2, 2)
    joined = graph.call_function(torch.ops.aten.cat.default, (twice,))
    joined.meta["val"] = torch.ones(4, 2)
    graph.output((joined,))
    module = torch.fx.GraphModule(torch.nn.Module(), graph)
    signature = torch.export.graph_signature.ExportGraphSignature([], [])
    nodes = serialize_module(module, signature, [])["graph"]["nodes"]
    names = [item["name"] for item in nodes[1]["inputs"][0]["arg"]["as_tensors"]]
    assert names == ["getitem", "getitem"]


def test_records_of_numbers_are_json() -> None:
    value = serialize.Argument.create(as_floats=[1.0, float("-inf"), float("nan")])
    assert json_fields(value) == {"as_floats": [1.0, "-Infinity", "NaN"]}
