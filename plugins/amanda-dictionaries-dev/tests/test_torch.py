"""The dictionary of the installed PyTorch beside what its own objects say."""

from __future__ import annotations

from typing import Any

import pytest

from amanda.dictionary import Attr, OpDef, Port
from amanda_dictionaries_dev.torch import higher_order
from amanda_dictionaries_dev.torch.extractor import TorchExtractor
from amanda_dictionaries_dev.torch.schemas import (
    is_schema,
    number_overloads,
    overload_name,
)

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def entries() -> dict[str, OpDef]:
    (found,) = TorchExtractor().installed_ops().versions.values()
    return {entry.name: entry for entry in found}


@pytest.fixture(scope="module")
def schemas() -> dict[str, Any]:
    """By the name that an exported program has."""
    found = {}
    for schema in torch._C._jit_get_all_schemas():
        overload = f".{schema.overload_name}" if schema.overload_name else ""
        found[overload_name(schema.name + overload)] = schema
    return found


def is_tensor(kind: Any) -> bool:
    """A tensor, maybe one, or a list of them; as the objects of PyTorch say."""
    while kind.kind() in ("OptionalType", "ListType"):
        kind = kind.getElementType()
    return str(kind.kind()) == "TensorType"


def test_arguments_are_those_of_the_schemas(
    entries: dict[str, OpDef], schemas: dict[str, Any]
) -> None:
    checked = 0
    for name, entry in entries.items():
        if not name.startswith("aten.") or "..." in str(schemas[name]):
            continue
        arguments = schemas[name].arguments
        placed = [arg.name for arg in arguments if not arg.kwarg_only]
        assert [part.name for part in entry.arguments()] == placed, name
        by_name: dict[str, Port | Attr] = {
            part.name: part for part in (*entry.inputs, *entry.attrs)
        }
        assert set(by_name) == {arg.name for arg in arguments}, name
        for arg in arguments:
            part = by_name[arg.name]
            flows = is_tensor(arg.real_type) or "CellParams" in str(arg.real_type)
            assert isinstance(part, Port) == flows, (name, arg.name)
            if isinstance(part, Attr):
                assert part.required != arg.has_default_value(), (name, arg.name)
        checked += 1
    assert checked > 3100


def test_what_writes_and_what_returns(
    entries: dict[str, OpDef], schemas: dict[str, Any]
) -> None:
    for name, entry in entries.items():
        if name.startswith("aten."):
            written = any(port.is_written for port in entry.inputs)
            assert written == schemas[name].is_mutable, name
            assert len(entry.outputs) == len(schemas[name].returns), name


def test_what_draws_random_numbers(entries: dict[str, OpDef]) -> None:
    """At least what the registry says, with what it adds to what is declared."""
    for name, entry in entries.items():
        if not name.startswith("aten."):
            continue
        _, packet, overload = name.split(".")
        op = getattr(getattr(torch.ops.aten, packet), overload)
        if torch.Tag.nondeterministic_seeded in op.tags:
            assert "nondeterministic" in entry.traits, name
    assert "nondeterministic" not in entries["aten.add.Tensor"].traits


def test_the_core_set(entries: dict[str, OpDef]) -> None:
    tagged = {n for n, e in entries.items() if "core" in e.tags}
    expected = set()
    for name in torch._C._dispatch_get_all_op_names():
        if name.startswith("aten::"):
            base, _, overload = name.removeprefix("aten::").partition(".")
            op = getattr(getattr(torch.ops.aten, base), overload or "default")
            if torch.Tag.core in op.tags:
                expected.add(overload_name(name))
    assert tagged == expected


def test_operators_that_take_functions() -> None:
    assert {"cond", "while_loop", "scan"} <= set(higher_order.TABLE)
    cond = higher_order.op_def_of_name("cond")
    assert [body.name for body in cond.bodies] == ["true_fn", "false_fn"]
    names = {entry.name for entry in higher_order.op_defs_of_version("2.0.1")}
    assert names == {
        "higher_order.cond",
        "higher_order.custom_function_call",
        "higher_order.map",
    }
    assert higher_order.op_def_of_name("a_new_one").open


TENSOR = {"name": "self", "type": "Tensor"}


def row(*args: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"args": list(args), "returns": [{"type": "Tensor"}], **more}


def test_overloads_without_names_are_counted() -> None:
    number = {"name": "n", "type": "int[2]"}
    first, second = row(TENSOR), row(TENSOR, {**number, "default": [1, 1]})
    bare = row(TENSOR, {**number, "type": "int[]"})
    rows = {
        "aten::f": {"overloads": [first, bare, second]},
        "aten::g": {"overloads": [first]},
        "aten::g.named": first,
        "prim::h": first,
    }
    assert number_overloads(rows) == {
        "aten.f.default": first,
        "aten.f.default_2": second,
        "aten.g.named": first,
    }


@pytest.mark.parametrize(
    "part",
    [
        {"type": "Tensor"},
        {"name": "x", "type": "self:"},
        {"name": "x", "type": "isSubtypeOf(expected) to be true, but got false"},
        {"name": "x", "type": "float", "default": []},
    ],
)
def test_what_only_looks_like_a_schema(part: dict[str, Any]) -> None:
    assert is_schema(row(TENSOR))
    assert not is_schema(row(TENSOR, part))


class Small(torch.nn.Module):  # type: ignore[name-defined,misc]
    """A little of everything that programs hold: layers, control, random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3)
        self.norm = torch.nn.BatchNorm2d(4)
        self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
        self.lstm = torch.nn.LSTM(8, 8)

    def forward(self, x: Any, flag: Any) -> Any:
        y = torch.nn.functional.dropout(self.norm(self.conv(x)).relu(), 0.5, True)
        y = y.flatten(2)[..., :8]
        y, _ = self.attention(y, y, y)
        y, _ = self.lstm(torch.cat([y, torch.rand_like(y)], 1))
        y = torch.cond(flag, lambda v: v.sin(), lambda v: v.cos() * 2, (y,))
        return y.sum(dim=-1, keepdim=True).add_(1.0), y.split([4, 4], dim=2)


@pytest.mark.filterwarnings("ignore")
def test_exported_programs_are_in_these_words(entries: dict[str, OpDef]) -> None:
    """Each call has an entry, and its arguments have a place in it."""
    example = (torch.randn(2, 3, 6, 6), torch.tensor(True))
    program = torch.export.export(Small(), example)
    seen = set()
    for module in program.graph_module.modules():
        for node in module.graph.nodes:
            name = str(node.target)
            if node.op != "call_function" or "getitem" in name:
                continue
            name = name if name.startswith("aten.") else f"higher_order.{name}"
            entry = entries[name]
            named = {part.name for part in (*entry.inputs, *entry.attrs)}
            assert len(node.args) <= len(entry.arguments()), name
            assert set(node.kwargs) <= named, name
            seen.add(name)
    assert {"aten.conv2d.default", "higher_order.cond"} <= seen
    assert len(seen) > 15
