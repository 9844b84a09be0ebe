"""What is read of the headers in packages of old releases."""

from __future__ import annotations

import re

import pytest

from amanda_dictionaries_dev.torch import registry, releases
from amanda_dictionaries_dev.torch.releases import CppFunction
from amanda_dictionaries_dev.torch.schemas import op_def_of_row

HEADER = """\
// what can be registered
Tensor t(const Tensor & self); // aten::t(Tensor(a) self) -> Tensor(a)
void f(const Tensor & self); // aten::f.x(Tensor self) -> void
Tensor g(); // {"schema": "aten::g(str s=\\"}\\") -> Tensor", "compound": "true"}
"""


def test_lists_of_operators() -> None:
    assert dict(releases.read_declarations(HEADER)) == {
        "aten::t": "aten::t(Tensor(a) self) -> Tensor(a)",
        "aten::f.x": "aten::f.x(Tensor self) -> ()",
        "aten::g": 'aten::g(str s="}") -> Tensor',
    }


def test_schemas_are_read_as_pytorch_reads_them() -> None:
    """Every schema of the registry, written by PyTorch, and its own reading of it."""
    torch = pytest.importorskip("torch", reason="needs torch")
    rows = registry.read_schemas()
    compared = 0
    for schema in torch._C._jit_get_all_schemas():
        name = schema.name + (
            f".{schema.overload_name}" if schema.overload_name else ""
        )
        text = str(schema)
        if name not in rows or re.search(r"\.\.\.|[\"']|Dict\(", text):
            continue  # no release before 1.7 has such ones
        row = {key: rows[name][key] for key in ("args", "returns") if rows[name][key]}
        mine = releases.parse_schema(text)
        assert op_def_of_row("aten.x", mine) == op_def_of_row("aten.x", row), text
        compared += 1
    assert compared > 2900


CPP = """\
static inline Tensor add(const Tensor & self, const Tensor & other, Scalar alpha=1);
static inline Tensor & add_out(Tensor & result, const Tensor & self, Scalar alpha=1);
CAFFE2_API Tensor zeros(IntArrayRef size, const TensorOptions & options={});
std::tuple<Tensor,Tensor> max(const Tensor & self, std::array<bool,3> mask) const;
"""


def test_functions_of_headers() -> None:
    found = list(releases.read_functions(CPP))
    assert found == [
        CppFunction("add", frozenset({"self", "other", "alpha"})),
        CppFunction("add_out", frozenset({"self", "alpha"})),
        CppFunction("zeros", frozenset({"size", "options"})),
        CppFunction("max", frozenset({"self", "mask"})),
    ]
    (method,) = releases.read_functions("Tensor & Tensor::t_() const {", methods=True)
    assert method == CppFunction("t_", frozenset({"self"}))


@pytest.mark.parametrize(
    ("schema", "is_one"),
    [
        ("aten::add(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", True),
        ("aten::add(Tensor self, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)",
         True),
        ("aten::zeros(int[] size, *, ScalarType? dtype=None, Layout? layout=None, "
         "Device? device=None, bool? pin_memory=None) -> Tensor", True),
        ("aten::add(int a, int b) -> int", False),
        ("aten::add(t[] self, t[] other, Scalar alpha) -> t[]", False),
        ("aten::add(str self, str other, Scalar alpha) -> str", False),
    ],
)  # fmt: skip
def test_operators_are_told_from_those_of_torchscript(
    schema: str, is_one: bool
) -> None:
    known = set(releases.read_functions(CPP))
    row = releases.parse_schema(schema)
    name = schema.partition("(")[0].replace("::", ".") + ".default"
    assert releases.is_operator(name, row, known) is is_one


def test_overloads_are_called_as_nearby() -> None:
    tensor, scalar, odd = (
        releases.parse_schema(f"aten::add({args}) -> Tensor")
        for args in ("Tensor self, Tensor other", "Tensor self, Scalar other", "int a")
    )
    named = {"aten.add.Tensor": tensor, "aten.add.Scalar": scalar}
    rows = {"aten.add.default": odd, "aten.add.default_2": scalar}
    rows |= {"aten.add.default_3": tensor}
    assert releases.match_overload_names(rows, [named]) == {
        **named,
        "aten.add.default": odd,
    }
