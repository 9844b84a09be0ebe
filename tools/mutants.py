"""Mutants of a Python function: the function, changed in one place.

An operator, constant, comparison or axis is changed, a branch always or never taken, a
cast or statement removed, or the results are reordered.
"""

from __future__ import annotations

import ast
import gc
import inspect
import re
import textwrap
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from copy import copy, deepcopy
from functools import partial
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from amanda_std import Operation

__all__ = ["PACKAGE", "Mutant", "apply_mutant", "mutants", "nested_codes"]

PACKAGE = "amanda_std.ops"


class Mutant(NamedTuple):
    """A function changed in one place, and the ops that reach it."""

    function: FunctionType
    line: int
    change: str
    code: CodeType
    ops: tuple[Operation, ...]

    @property
    def qualified_name(self) -> str:
        function: Any = self.function
        module = function.__globals__["__name__"].removeprefix(f"{PACKAGE}.")
        return f"{module}.{function.__code__.co_name}"

    def __str__(self) -> str:
        return f"{self.qualified_name}, line {self.line}: {self.change}"


def mutants(
    function: FunctionType, ops: Sequence[Operation], apart: Collection[str] = ()
) -> Iterator[Mutant]:
    """The function, changed in every possible place in turn.

    `apart` are qualified names of nested functions that are mutated separately.
    """
    lines, start = inspect.getsourcelines(function.__code__)
    tree = ast.parse(textwrap.dedent("".join(lines)))
    head = tree.body[0]
    if not isinstance(head, ast.FunctionDef):
        return  # a lambda, whose line may have several functions
    head.decorator_list = []
    nodes = [n for part in head.body for n in ast.walk(part)]
    skipped = _irrelevant_nodes(head) | _nested_nodes(head, function, apart)
    for number, node in enumerate(nodes):
        for change, alter in _changes(node) if node not in skipped else ():
            altered = deepcopy(tree)
            inner: Any = altered.body[0]
            copies = [n for part in inner.body for n in ast.walk(part)]
            alter(copies[number])
            ast.fix_missing_locations(altered)
            code = _compile(altered, function)
            if code is not None:
                line = start + getattr(node, "lineno", 1) - 1
                yield Mutant(function, line, change, code, tuple(ops))


_CHECK = re.compile(r"_?(expect|check)_\w+\(")
"""A statement that raises an error for wrong arguments."""


def _irrelevant_nodes(head: ast.FunctionDef) -> set[ast.AST]:
    """Nodes of errors (test_diagnostics.py), and flags of `zip` and `astype`."""
    found: set[ast.AST] = set()
    for node in ast.walk(head):
        if isinstance(node, ast.Raise):
            found.update(ast.walk(node))
        if isinstance(node, ast.If) and isinstance(node.body[-1], ast.Raise):
            found.update(ast.walk(node.test) if not node.orelse else ())
            found.add(node)
        if isinstance(node, ast.keyword) and node.arg in ("strict", "copy"):
            found.update(ast.walk(node))
        if isinstance(node, ast.Expr) and _CHECK.match(ast.unparse(node)):
            found.update(ast.walk(node))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("reshape"):
            for each in ast.walk(node):  # any negative number is -1 to numpy
                if isinstance(each, ast.UnaryOp) and isinstance(each.op, ast.USub):
                    found.update([each.operand])
    return found


def _nested_nodes(
    head: ast.FunctionDef, function: FunctionType, names: Collection[str]
) -> set[ast.AST]:
    within = f"{function.__code__.co_qualname}.<locals>."
    found: set[ast.AST] = set()
    for node in ast.walk(head):
        if isinstance(node, ast.FunctionDef) and within + node.name in names:
            found.update(ast.walk(node))
    return found


def _compile(tree: ast.Module, function: FunctionType) -> CodeType | None:
    """Compile a mutant, with the free variables of the original."""
    before = function.__code__
    if before.co_freevars:
        around = ast.parse(f"def around({', '.join(before.co_freevars)}): pass")
        around.body[0].body = tree.body  # type: ignore[attr-defined]
        tree = around
    whole = compile(tree, before.co_filename, "exec", dont_inherit=True)
    for code in nested_codes(whole):
        if code.co_name == before.co_name:
            return code if code.co_freevars == before.co_freevars else None
    return None


Change = tuple[str, Callable[[Any], None]]

_OPERATORS: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitAnd,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.And: ast.Or, ast.Or: ast.And,
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip


def _changes(node: ast.AST) -> Iterator[Change]:
    """The possible changes of one node."""
    text = ast.unparse(node)[:60] if not isinstance(node, ast.operator) else ""
    for key in ("op", "ops"):
        yield from _swap_operator(node, key, text)
    if isinstance(node, ast.Constant) and type(node.value) in (int, float, bool):
        value: Any = node.value
        other = (not value) if isinstance(value, bool) else value + 1
        yield f"{value} became {other}", partial(_set, "value", other)
    if isinstance(node, ast.If | ast.IfExp):
        test = ast.unparse(node.test)[:60]
        for taken in (True, False):
            what = "always" if taken else "never"
            constant = ast.Constant(taken)
            yield f"if {test}: {what} taken", partial(_set, "test", constant)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not):
        yield f"{text} without its sign", partial(_set, "op", ast.UAdd())
    if isinstance(node, ast.keyword) and node.arg in ("axis", "axes"):
        moved = ast.Constant(-1 if ast.unparse(node.value) == "0" else 0)
        if ast.unparse(node.value) not in ("None", "-1"):
            yield f"{text} became {ast.unparse(moved)}", partial(_set, "value", moved)
    if _is_cast(node):
        yield f"{text} left out", _remove_cast
    if isinstance(node, ast.Return) and len(getattr(node.value, "elts", ())) > 1:
        yield f"{text} in another order", _reverse_results
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield f"{text} left out", partial(_set, "value", ast.Constant(None))
    if isinstance(node, ast.AugAssign):
        yield f"{text} left out", partial(_set, "value", ast.Name("x"))


def _swap_operator(node: ast.AST, key: str, text: str) -> Iterator[Change]:
    held = getattr(node, key, None)
    if isinstance(node, ast.UnaryOp) or held is None:
        return
    first = held[0] if isinstance(held, list) else held
    other = _OPERATORS.get(type(first))
    if other is not None:
        operator: Any = other()
        value = [operator, *held[1:]] if isinstance(held, list) else operator
        yield (
            f"{type(first).__name__} became {other.__name__} in {text}",
            partial(_set, key, value),
        )


def _set(field: str, value: Any, node: Any) -> None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        # `+x` of a bool is an int; a double `not` preserves the type
        node.operand = ast.UnaryOp(ast.Not(), node.operand)
        return
    if isinstance(node, ast.AugAssign) and field == "value":
        node.__class__ = ast.Pass  # type: ignore[assignment]
        return
    setattr(node, field, value)


def _is_cast(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    return node.func.attr == "astype" and not _is_module(node.func.value)


def _is_module(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id in ("xp", "np_", "np", "jnp")


def _remove_cast(node: Any) -> None:
    inner = node.func.value
    node.func = ast.Name("_same", ast.Load())
    node.args, node.keywords = [inner], []


def _reverse_results(node: Any) -> None:
    node.value.elts.reverse()


def _same(value: Any) -> Any:
    return value


@contextmanager
def apply_mutant(mutant: Mutant) -> Iterator[None]:
    """Replace the code of the function, and of others with the same code."""
    function: Any = mutant.function
    before, scope = function.__code__, function.__globals__
    functions = [function]
    if function.__closure__ is not None:
        functions = [f for f in gc.get_referrers(before) if isinstance(f, FunctionType)]
    scope["_same"] = _same
    containers = {k: copy(v) for k, v in scope.items() if type(v) in (list, dict, set)}
    for each in functions:
        each.__code__ = mutant.code
    try:
        yield
    finally:
        for each in functions:
            each.__code__ = before
        scope.pop("_same", None)
        for name, content in containers.items():
            _restore(scope[name], content)


def _restore(container: Any, content: Any) -> None:
    """Undo what a mutant did to a list, dict or set of its module."""
    if container != content:
        container.clear()
        extend = container.extend if isinstance(container, list) else container.update
        extend(content)


def nested_codes(code: CodeType) -> Iterator[CodeType]:
    """A code object, and those nested in it."""
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from nested_codes(const)
