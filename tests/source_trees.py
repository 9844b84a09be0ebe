"""Statements of source files: to walk all nodes of all files takes minutes of CI."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


def statements(tree: ast.AST, *, typing_only: bool = True) -> Iterator[ast.AST]:
    """Every statement in a module or statement, however deep, in order.

    Exception handlers and cases of `match` are among them, expressions are not.
    Without `typing_only`, what stands under `if TYPE_CHECKING` is left out."""
    for block in _BLOCKS:
        for node in getattr(tree, block, ()):
            if not typing_only and _is_type_checking(node):
                continue
            yield node
            yield from statements(node, typing_only=typing_only)


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
