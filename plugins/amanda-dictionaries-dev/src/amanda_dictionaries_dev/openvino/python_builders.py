"""Parse OpenVINO's Python builders: names of inputs, and required attributes.

Each opset of the wheel is a module of functions that end in a call such as

    _get_node_factory_opset1().create("Elu", [as_node(data)], {"alpha": alpha})

Arguments that are nodes are the inputs, in order; an attribute is required if the
argument that it comes from is. The modules are parsed, not imported, which also shows
what a function does with omitted arguments.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Builder", "Default", "BuilderInput", "read_builders"]

_FACTORY = re.compile(r"_get_node_factory_opset(\d+)\(\)\.create")


class BuilderInput(NamedTuple):
    """An input; `repeats` if it is variadic."""

    name: str
    optional: bool = False
    repeats: bool = False


class Default(NamedTuple):
    """Whether a function requires an attribute, and its default; None if unknown."""

    required: bool
    default: Any = None


class Builder(NamedTuple):
    """A function that creates an op of an opset; `given` are its attributes."""

    opset: int
    op: str
    inputs: tuple[BuilderInput, ...]
    given: Mapping[str, Default]
    doc: str


def read_builders(package: Path) -> Iterator[Builder]:
    """The builders of all opsets, older ones first."""
    numbers = [int(f.name.removeprefix("opset")) for f in package.glob("opset*")]
    for number in sorted(numbers):
        source = (package / f"opset{number}" / "ops.py").read_text(encoding="utf-8")
        for node in ast.parse(source).body:
            if isinstance(node, ast.FunctionDef):
                yield from _parse_builder(node)


def _parse_builder(function: ast.FunctionDef) -> Iterator[Builder]:
    for call in ast.walk(function):
        if not isinstance(call, ast.Call) or not call.args:
            continue
        made_by = _FACTORY.match(ast.unparse(call.func))
        op, *rest = call.args
        if made_by and isinstance(op, ast.Constant) and isinstance(op.value, str):
            given = _attribute_defaults(function, rest[1]) if len(rest) > 1 else {}
            doc = ast.get_docstring(function) or ""
            opset = int(made_by[1])  # a module may build ops of an older opset
            yield Builder(opset, op.value, tuple(_inputs(function)), given, doc)


def _argument_defaults(function: ast.FunctionDef) -> Iterator[tuple[ast.arg, Default]]:
    """Arguments with their defaults."""
    args = function.args
    without = len(args.args) - len(args.defaults)
    for i, arg in enumerate(args.args):
        if i < without:
            yield arg, Default(True)
        else:
            default = args.defaults[i - without]
            is_plain = isinstance(default, ast.Constant)
            yield arg, Default(False, ast.literal_eval(default) if is_plain else None)


def _inputs(function: ast.FunctionDef) -> Iterator[BuilderInput]:
    for arg, given in _argument_defaults(function):
        kind = "" if arg.annotation is None else ast.unparse(arg.annotation)
        if "Node" in kind:
            optional = not given.required or kind.startswith("Optional")
            yield BuilderInput(arg.arg, optional, "list[" in kind)


def _attribute_defaults(
    function: ast.FunctionDef, given: ast.expr
) -> dict[str, Default]:
    """The attributes of a call, with their defaults."""
    defaults = {arg.arg: default for arg, default in _argument_defaults(function)}
    found: dict[str, Default] = {}
    for key, value in _dict_items(function, given):
        names = _variables_in(function, value)
        found_here = {defaults[name] for name in names if name in defaults}
        if len(found_here) == 1:
            found[key] = found_here.pop()
    return {**found, **_parse_requirements(function)}


def _dict_items(
    function: ast.FunctionDef, given: ast.expr
) -> Iterator[tuple[str, ast.expr]]:
    """Keys and values of a dict, also of one that is assigned to a variable."""
    dicts = [given]
    if isinstance(given, ast.Name):
        dicts = []
        for node in ast.walk(function):
            if not isinstance(node, ast.Assign):
                continue
            target = node.targets[0]
            if ast.unparse(target) == given.id:
                dicts.append(node.value)
            elif isinstance(target, ast.Subscript) and (
                ast.unparse(target.value) == given.id
            ):
                yield ast.literal_eval(target.slice), node.value
    for each in dicts:
        if isinstance(each, ast.Dict):
            for key, value in zip(each.keys, each.values, strict=True):
                if isinstance(key, ast.Constant):
                    yield str(key.value), value


def _variables_in(function: ast.FunctionDef, value: ast.expr) -> Iterator[str]:
    """The variables in an expression, and in assignments to them."""
    names = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
    yield from names
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in names:
            for inner in ast.walk(node.value):
                if isinstance(inner, ast.Name):
                    yield inner.id


def _parse_requirements(function: ast.FunctionDef) -> dict[str, Default]:
    """Parse a list of requirements: `("base_size", True, np.unsignedinteger, ...)`."""
    for node in ast.walk(function):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.List):
            continue
        if ast.unparse(node.targets[0]) == "requirements":
            rows = [row for row in node.value.elts if isinstance(row, ast.Tuple)]
            return {
                ast.literal_eval(row.elts[0]): Default(ast.literal_eval(row.elts[1]))
                for row in rows
            }
    return {}
