"""The dictionary of the installed TensorFlow Lite beside the classes of its schema."""

from __future__ import annotations

import importlib.util
import re
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

from amanda.dictionary import EnumMember, OpDef
from amanda_dictionaries_dev.tflite import op_definitions as tables
from amanda_dictionaries_dev.tflite.extractor import TFLiteExtractor
from amanda_dictionaries_dev.tflite.schema import parse_schema


@pytest.fixture(scope="module")
def file() -> Path:
    spec = find_spec("tensorflow")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("needs tensorflow")
    folder = Path(spec.submodule_search_locations[0])
    return folder / "lite" / "python" / "schema_py_generated.py"


@pytest.fixture(scope="module")
def schema(file: Path) -> ModuleType:
    """The module that the dictionary is made from, imported, which it never is."""
    spec = importlib.util.spec_from_file_location("schema_py_generated", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def entries() -> dict[str, OpDef]:
    (found,) = TFLiteExtractor().installed_ops().versions.values()
    return {entry.name: entry for entry in found}


def test_operators_have_their_numbers(
    schema: ModuleType, entries: dict[str, OpDef]
) -> None:
    numbers = {
        name: number
        for name, number in vars(schema.BuiltinOperator).items()
        if name.isupper()
    }
    assert {n: int(e.tag("code") or "") for n, e in entries.items()} == numbers


def test_fields_have_their_defaults(
    schema: ModuleType, entries: dict[str, OpDef]
) -> None:
    """Those that the object of a table has when it is made."""
    checked = 0
    for entry in entries.values():
        options = entry.tag("options")
        if options is None:
            continue
        made = vars(getattr(schema, f"{options}T")())
        fields = {re.sub(r"(?=[A-Z])", "_", name).lower(): made[name] for name in made}
        assert [attr.name for attr in entry.attrs] == list(fields)
        for attr in entry.attrs:
            found = attr.default
            if attr.base != "graph":
                value = found.number if isinstance(found, EnumMember) else found
                assert value == fields[attr.name], (entry.name, attr.name)
                checked += 1
    assert checked > 200


def test_the_tables_say_nothing_in_vain(file: Path) -> None:
    rows = parse_schema(file.read_text(encoding="utf-8"))
    made = list(tables.operator_definitions(rows))
    used = {entry.tag("options") for entry in made}
    there = {name.partition(":")[2] for name in rows if name.startswith("options:")}
    assert there <= used
    fields = {f for name in rows if name.startswith("options:") for f in rows[name]}
    assert set(tables._ENUMS) <= fields
    ops = {entry.name for entry in made}
    assert {op for op, _ in tables._BODIES} <= ops
    assert ops >= tables._STATEFUL | tables._RANDOM | tables._OPEN
    assert set(tables._OPTIONS) <= ops
    assert set(tables.OPERANDS) <= ops


def test_entries_that_are_known(entries: dict[str, OpDef]) -> None:
    add = entries["ADD"].attr("fused_activation_function")
    assert add is not None
    assert add.default == "NONE"
    assert {str(m): m.number for m in add.allowed}["RELU6"] == 3
    assert [body.name for body in entries["WHILE"].bodies] == [
        "cond_subgraph_index",
        "body_subgraph_index",
    ]
    assert [port.name for port in entries["CONV_2D"].inputs] == [
        "input",
        "filter",
        "bias",
    ]
    assert len(entries["LSTM"].inputs) == 24
    assert len(entries["BIDIRECTIONAL_SEQUENCE_LSTM"].inputs) == 48
    assert entries["CUSTOM"].open
    assert entries["VAR_HANDLE"].effects
