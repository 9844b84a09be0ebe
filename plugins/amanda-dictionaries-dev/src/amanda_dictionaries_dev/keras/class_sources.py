"""Parse the sources of Keras layers, without importing them: Keras requires a backend.

A class that is exported as a layer is a row, as in raw data; so is a subclass of
`Operation`, which a call of a function of `keras.ops` is, under the name `ops.CLASS`:

    {"bases": ["Layer"], "init": [["rate"], ["seed", "None"], ["**kwargs"]]}

The source text of its default follows an argument, after `*` if it is keyword-only;
`init` is null if the class has no constructor of its own. A row from sources also has
`kinds` of arguments; raw data has them in a separate file.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from amanda_dictionaries_dev.keras.argument_kinds import parse_kinds

_EXPORT = "keras_export"
_LAYERS = "keras.layers."
_OPERATION = "Operation"


class LayerSource(NamedTuple):
    """A layer class: name, row and docstring."""

    name: str
    row: dict[str, Any]
    doc: str


def read_layers(folder: Path) -> Iterator[LayerSource]:
    """Every class in a folder that is exported as a layer."""
    for file in sorted(folder.rglob("*.py")):
        if file.stem.endswith("_test"):
            continue
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and _is_layer(node):
                bases = [ast.unparse(base) for base in node.bases]
                doc = ast.get_docstring(node) or ""
                row = {
                    "bases": bases,
                    "init": _constructor_arguments(node),
                    "kinds": parse_kinds(doc),
                }
                yield LayerSource(node.name, row, doc)


def read_operations(sources: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The classes of operations in the sources of `keras.ops`, as rows by `ops.CLASS`.

    Bases are names of rows, without those that are no operations.
    """
    classes: dict[str, ast.ClassDef] = {}
    for source in sources:
        found = (n for n in ast.parse(source).body if isinstance(n, ast.ClassDef))
        classes |= {node.name: node for node in found}
    bases = {
        name: [ast.unparse(base).rpartition(".")[2] for base in node.bases]
        for name, node in classes.items()
    }
    operations: set[str] = {_OPERATION}
    while more := {n for n, b in bases.items() if operations & {*b}} - operations:
        operations |= more
    return {
        f"ops.{name}": {
            "bases": [f"ops.{base}" for base in bases[name] if base in operations],
            "init": _constructor_arguments(node),
        }
        for name, node in sorted(classes.items())
        if name in operations and name != _OPERATION
    }


def read_classes(source: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Every class of a file, with the kinds of arguments from its docstring."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef):
            yield node.name, parse_kinds(ast.get_docstring(node) or "")


def _is_layer(node: ast.ClassDef) -> bool:
    return any(
        isinstance(part, ast.Constant) and str(part.value).startswith(_LAYERS)
        for call in node.decorator_list
        if isinstance(call, ast.Call) and ast.unparse(call.func) == _EXPORT
        for part in ast.walk(call)
    )


def _constructor_arguments(node: ast.ClassDef) -> list[list[str]] | None:
    for part in node.body:
        if isinstance(part, ast.FunctionDef) and part.name == "__init__":
            return list(_list_arguments(part.args))
    return None


def _list_arguments(args: ast.arguments) -> Iterator[list[str]]:
    placed = [*args.posonlyargs, *args.args][1:]  # without self
    defaults: list[ast.expr | None] = [None] * (len(placed) - len(args.defaults))
    for arg, default in zip(placed, [*defaults, *args.defaults], strict=True):
        yield [arg.arg, *([ast.unparse(default)] if default else [])]
    if args.vararg:
        yield [f"*{args.vararg.arg}"]
    for arg, named in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        yield [arg.arg, "*", *([ast.unparse(named)] if named else [])]
    if args.kwarg:
        yield [f"**{args.kwarg.arg}"]
