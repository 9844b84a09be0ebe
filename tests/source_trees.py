"""Statements of source files: to walk all nodes of all files takes minutes of CI."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Every statement in a module or statement, however deep, in order.

    Exception handlers and cases of `match` are among them, expressions are not."""
    for block in _BLOCKS:
        for node in getattr(tree, block, ()):
            yield node
            yield from statements(node)


class ImportStatement(NamedTuple):
    """An import statement, and whether it runs: one for type checkers only does not."""

    node: ast.Import | ast.ImportFrom
    runs: bool


@cache
def import_statements(text: str) -> tuple[ImportStatement, ...]:
    """Every import statement of a source text, which is parsed once for all tests."""
    return tuple(_import_statements(ast.parse(text), runs=True))


def _import_statements(tree: ast.AST, *, runs: bool) -> Iterator[ImportStatement]:
    """Those of a module or statement, however deep, in order."""
    for block in _BLOCKS:
        for node in getattr(tree, block, ()):
            if isinstance(node, ast.Import | ast.ImportFrom):
                yield ImportStatement(node, runs)
            else:
                inside = runs and not _is_type_checking(node)
                yield from _import_statements(node, runs=inside)


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
