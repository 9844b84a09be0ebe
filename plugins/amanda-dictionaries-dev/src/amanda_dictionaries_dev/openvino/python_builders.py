"""What OpenVINO's Python builders say of ops: names of inputs, what has to be given.

Each opset of the wheel is a module of functions that end in a call such as

    _get_node_factory_opset1().create("Elu", [as_node(data)], {"alpha": alpha})

Arguments that are nodes are the inputs, in their order; an attribute has to be given
where the argument that it comes from has to be. The modules are read, not run: reading
also finds what a function does with arguments that are left out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Builder", "Given", "Input", "builders"]

_FACTORY = re.compile(r"_get_node_factory_opset(\d+)\(\)\.create")


class Input(NamedTuple):
    """An input: may it be left out, does it stand for any number of values?"""

    name: str
    optional: bool = False
    repeats: bool = False


class Given(NamedTuple):
    """What a function asks of an attribute; None where it says no default."""

    required: bool
    default: Any = None


class Builder(NamedTuple):
    """A function that makes an op of an opset; `given` is what attributes it takes."""

    opset: int
    op: str
    inputs: tuple[Input, ...]
    given: Mapping[str, Given]
    doc: str


def builders(package: Path) -> Iterator[Builder]:
    """The builders of all opsets, older ones first."""
    numbers = [int(f.name.removeprefix("opset")) for f in package.glob("opset*")]
    for number in sorted(numbers):
        source = (package / f"opset{number}" / "ops.py").read_text(encoding="utf-8")
        for node in ast.parse(source).body:
            if isinstance(node, ast.FunctionDef):
                yield from _built(node)


def _built(function: ast.FunctionDef) -> Iterator[Builder]:
    for call in ast.walk(function):
        if not isinstance(call, ast.Call) or not call.args:
            continue
        made_by = _FACTORY.match(ast.unparse(call.func))
        op, *rest = call.args
        if made_by and isinstance(op, ast.Constant) and isinstance(op.value, str):
            given = _attributes(function, rest[1]) if len(rest) > 1 else {}
            doc = ast.get_docstring(function) or ""
            opset = int(made_by[1])  # a module may build ops of an older opset
            yield Builder(opset, op.value, tuple(_inputs(function)), given, doc)


def _arguments(function: ast.FunctionDef) -> Iterator[tuple[ast.arg, Given]]:
    """The arguments, and what each asks for."""
    args = function.args
    without = len(args.args) - len(args.defaults)
    for i, arg in enumerate(args.args):
        if i < without:
            yield arg, Given(True)
        else:
            default = args.defaults[i - without]
            is_plain = isinstance(default, ast.Constant)
            yield arg, Given(False, ast.literal_eval(default) if is_plain else None)


def _inputs(function: ast.FunctionDef) -> Iterator[Input]:
    for arg, given in _arguments(function):
        kind = "" if arg.annotation is None else ast.unparse(arg.annotation)
        if "Node" in kind:
            optional = not given.required or kind.startswith("Optional")
            yield Input(arg.arg, optional, "list[" in kind)


def _attributes(function: ast.FunctionDef, given: ast.expr) -> dict[str, Given]:
    """The attributes of a call; where they come in as one dict, what is asked of it."""
    asks = {arg.arg: asked for arg, asked in _arguments(function)}
    found: dict[str, Given] = {}
    for key, value in _items(function, given):
        told = {asks[name] for name in _names(function, value) if name in asks}
        if len(told) == 1:
            found[key] = told.pop()
    return {**found, **_asked(function)}


def _items(
    function: ast.FunctionDef, given: ast.expr
) -> Iterator[tuple[str, ast.expr]]:
    """Keys and values of a dict, also of one that the function puts in a variable."""
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


def _names(function: ast.FunctionDef, value: ast.expr) -> Iterator[str]:
    """The variables in an expression, and in what local ones are assigned."""
    names = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
    yield from names
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in names:
            for inner in ast.walk(node.value):
                if isinstance(inner, ast.Name):
                    yield inner.id


def _asked(function: ast.FunctionDef) -> dict[str, Given]:
    """A list of requirements: `("base_size", True, np.unsignedinteger, ...)`."""
    for node in ast.walk(function):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.List):
            continue
        if ast.unparse(node.targets[0]) == "requirements":
            rows = [row for row in node.value.elts if isinstance(row, ast.Tuple)]
            return {
                ast.literal_eval(row.elts[0]): Given(ast.literal_eval(row.elts[1]))
                for row in rows
            }
    return {}
