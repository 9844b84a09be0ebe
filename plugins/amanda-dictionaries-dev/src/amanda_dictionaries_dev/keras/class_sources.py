"""The sources of Keras' layers, read and never imported: Keras would want a backend.

A class that is exported as a layer is a row, as raw data has it:

    {"bases": ["Layer"], "init": [["rate"], ["seed", "None"], ["**kwargs"]]}

An argument has its default as it is written behind it, and `*` in between where it is
given by name only; `init` is null where the class has no constructor of its own. A row
from sources has `kinds` of arguments too; raw data has them in a file beside it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from amanda_dictionaries_dev.keras.argument_kinds import kinds

_EXPORT = "keras_export"
_LAYERS = "keras.layers."


class Layer(NamedTuple):
    """A class: its name, its row, and what its docstring says."""

    name: str
    row: dict[str, Any]
    doc: str


def layers(folder: Path) -> Iterator[Layer]:
    """Every class below a folder that is exported as a layer."""
    for file in sorted(folder.rglob("*.py")):
        if file.stem.endswith("_test"):
            continue
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and _is_layer(node):
                bases = [ast.unparse(base) for base in node.bases]
                doc = ast.get_docstring(node) or ""
                row = {"bases": bases, "init": _constructor(node), "kinds": kinds(doc)}
                yield Layer(node.name, row, doc)


def classes(source: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Every class of a file, layer or not, with the kinds that its docstring says."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef):
            yield node.name, kinds(ast.get_docstring(node) or "")


def _is_layer(node: ast.ClassDef) -> bool:
    return any(
        isinstance(part, ast.Constant) and str(part.value).startswith(_LAYERS)
        for call in node.decorator_list
        if isinstance(call, ast.Call) and ast.unparse(call.func) == _EXPORT
        for part in ast.walk(call)
    )


def _constructor(node: ast.ClassDef) -> list[list[str]] | None:
    for part in node.body:
        if isinstance(part, ast.FunctionDef) and part.name == "__init__":
            return list(_arguments(part.args))
    return None


def _arguments(given: ast.arguments) -> Iterator[list[str]]:
    placed = [*given.posonlyargs, *given.args][1:]  # without self
    defaults: list[ast.expr | None] = [None] * (len(placed) - len(given.defaults))
    for arg, default in zip(placed, [*defaults, *given.defaults], strict=True):
        yield [arg.arg, *([ast.unparse(default)] if default else [])]
    if given.vararg:
        yield [f"*{given.vararg.arg}"]
    for arg, named in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        yield [arg.arg, "*", *([ast.unparse(named)] if named else [])]
    if given.kwarg:
        yield [f"**{given.kwarg.arg}"]
