"""Parse the schema of TensorFlow Lite from the Python that flatbuffers generates.

The file is parsed, never imported. The result has the form of raw data:

    {"op:ADD": 0, "options:AddOptions": {"PotScaleInt16": {"slot": 1, "type": "bool",
     "default": true}}, "enum:Padding": {"SAME": 0, "VALID": 1}}
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

_OPERATORS = "BuiltinOperator"
_FLAGS = "Flags"


def parse_schema(source: str) -> dict[str, Any]:
    """Parse operators, tables of options and enums."""
    found: dict[str, Any] = {}
    for node in ast.parse(source).body:
        if not isinstance(node, ast.ClassDef):
            continue
        methods = {f.name: f for f in node.body if isinstance(f, ast.FunctionDef)}
        if not methods:
            numbers = dict(_numbers(node))
            if node.name == _OPERATORS:
                found |= {f"op:{name}": number for name, number in numbers.items()}
            else:
                found[f"enum:{node.name}"] = numbers
        elif node.name.endswith("Options") and "Init" in methods:
            found[f"options:{node.name}"] = dict(_fields(methods))
    return found


def _numbers(node: ast.ClassDef) -> Iterator[tuple[str, int]]:
    for line in node.body:
        match line:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, ast.literal_eval(value)


def _fields(methods: dict[str, ast.FunctionDef]) -> Iterator[tuple[str, Any]]:
    """The fields of a table, without accessors of list lengths and the like."""
    for name, method in methods.items():
        offset = _offset(method)
        is_part = any(
            name.endswith(end) and name.removesuffix(end) in methods
            for end in ("AsNumpy", "IsNone", "Length")
        )
        if offset is not None and not is_part:
            yield name, {"slot": (offset - 4) // 2, **_kind(method)}


def _offset(method: ast.FunctionDef) -> int | None:
    """The offset of the field: the argument of `self._tab.Offset`."""
    for node in ast.walk(method):
        match node:
            case ast.Call(
                func=ast.Attribute(attr="Offset"), args=[ast.Constant(value=int(at))]
            ):
                return at
    return None


def _kind(method: ast.FunctionDef) -> dict[str, Any]:
    words = [node.attr for node in ast.walk(method) if isinstance(node, ast.Attribute)]
    calls = {node.id for node in ast.walk(method) if isinstance(node, ast.Name)}
    flags = {word.removesuffix(_FLAGS) for word in words if word.endswith(_FLAGS)}
    row: dict[str, Any] = {"type": "string" if "String" in words else "table"}
    for flag in flags - {"UOffsetT"}:
        row["type"] = flag.lower()
    if "Vector" in words:
        return {**row, "vector": True}
    match method.body[-1]:
        case ast.Return(value=ast.Constant(value=default)) if default is not None:
            row["default"] = default
    if "bool" in calls:
        row |= {"type": "bool", "default": bool(row["default"])}
    return row
