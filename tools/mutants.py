"""Mutants of a Python function: the function, changed in one place.

An operator, constant, comparison or axis is changed, a branch always or never taken, a
cast or statement removed, or the results are reordered.

`varied_calls` are calls that may show that a mutant is not equivalent to the original:
the arguments of samples are changed, to other values, NaN, infinities and zeros, other
element types, and axes of two elements, one or none. A mutant is refuted by a call with
a result of another type, shape or value. What the original refuses counts for nothing,
since a mutant may refuse less.
"""

from __future__ import annotations

import ast
import gc
import inspect
import itertools
import re
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy, deepcopy
from functools import partial
from types import CodeType, FunctionType
from typing import Any, Final, NamedTuple

import numpy as np
from ml_dtypes import finfo

from amanda_std import Operation
from amanda_std.backends import Sample

__all__ = [
    "PACKAGE",
    "Call",
    "Mutant",
    "apply_mutant",
    "counterexample",
    "mutants",
    "nested_codes",
    "varied_calls",
]

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


# -- calls that may refute a mutant ------------------------------------------------

SEED: Final = 7
PER_OP: Final = 300
"""The maximum number of calls of one op."""
ULPS: Final = 8
"""Units in the last place that a result may differ by, where the order of additions
differs."""
_FLOATS: Final = ("float16", "float32", "float64")
_SPECIAL: Final = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0)


class Call(NamedTuple):
    op: Operation
    args: tuple[Any, ...]
    attrs: dict[str, Any]

    def __str__(self) -> str:
        args = ", ".join(
            f"{x.dtype}{list(x.shape)}" if isinstance(x, np.ndarray) else repr(x)[:40]
            for x in self.args
        )
        return f"{self.op.name}({args}) {self.attrs or ''}"


def varied_calls(op: Operation, samples: Sequence[Sample]) -> Iterator[Call]:
    """At most `PER_OP` calls of an op, evenly spaced among all variations."""
    every = list(_variations(op, samples))
    step = max(1, -(-len(every) // PER_OP))
    yield from every[::step]


def _variations(op: Operation, samples: Sequence[Sample]) -> Iterator[Call]:
    random = np.random.default_rng(SEED)
    for sample in samples:
        for change in _CHANGES:
            args = tuple(change(random, value) for value in sample.args)
            yield Call(op, args, sample.attrs)
        yield from (Call(op, args, sample.attrs) for args in _resized(sample.args))


# -- changes -----------------------------------------------------------------------


def _of_floats(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def change(random: Any, value: Any) -> Any:
        is_float = isinstance(value, np.ndarray) and value.dtype.name in _FLOATS
        return function(random, value) if is_float else value

    return change


def _permuted(random: Any, value: Any) -> Any:
    """The elements in another order; integers keep their range."""
    if not isinstance(value, np.ndarray) or value.ndim == 0:
        return value
    return random.permutation(value.reshape(-1)).reshape(value.shape)


def _scaled(random: Any, value: Any) -> Any:
    factors = random.uniform(-3, 3, value.shape)
    with np.errstate(all="ignore"):
        return np.asarray(value * factors.astype(value.dtype))


def _drawn(random: Any, value: Any) -> Any:
    return np.asarray(random.normal(size=value.shape)).astype(value.dtype)


def _special(random: Any, value: Any) -> Any:
    chosen = random.choice(_SPECIAL, value.shape).astype(value.dtype)
    return np.where(random.random(value.shape) < 0.4, chosen, value)


def _cast_to(name: str) -> Callable[[Any, Any], Any]:
    def cast(_: Any, value: Any) -> Any:
        with np.errstate(over="ignore"):
            return value.astype(name)

    return _of_floats(cast)


_CHANGES: Final[Sequence[Callable[[Any, Any], Any]]] = (
    _permuted,
    _of_floats(_scaled),
    _of_floats(_special),
    _of_floats(
        lambda random, value: random.normal(size=value.shape).astype(value.dtype)
    ),
    *map(_cast_to, _FLOATS),
)


def _resized(args: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Equal axes of all arrays cut to no element, one or two."""
    arrays = [x for x in args if isinstance(x, np.ndarray) and x.ndim]
    sizes = {size for x in arrays for size in x.shape if size > 1}
    for size, count in itertools.product(sizes, (0, 1, 2)):
        yield tuple(_with_size(x, size, count) for x in args)


def _with_size(value: Any, size: int, count: int) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    return value[tuple(slice(count) if n == size else slice(None) for n in value.shape)]


# -- comparison --------------------------------------------------------------------


def counterexample(
    calls: Iterable[Call], before: Callable[[Call], Any], after: Callable[[Call], Any]
) -> tuple[Call | None, int]:
    """The first call with another result afterwards, and the number of compared calls.

    Both functions return the list of results, or None for an error."""
    compared = 0
    for call in calls:
        wanted = before(call)
        if wanted is None:
            continue
        compared += 1
        have = after(call)
        if have is None or not _is_same(have, wanted):
            return call, compared
    return None, compared


def _is_same(have: Any, wanted: Any) -> bool:
    if isinstance(wanted, list | tuple):
        return (
            isinstance(have, list | tuple)
            and len(have) == len(wanted)
            and all(map(_is_same, have, wanted))
        )
    if not isinstance(wanted, np.ndarray | np.generic):
        return type(have) is type(wanted)
    a, b = np.asarray(have), np.asarray(wanted)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    is_float = a.dtype.kind in "fc" or "float" in a.dtype.name
    if not is_float:
        return bool(np.array_equal(a, b))
    limits: Any = finfo
    unit = float(limits(a.dtype).eps)
    wide = "complex128" if a.dtype.kind == "c" else "float64"
    a, b = a.astype(wide), b.astype(wide)
    scale = np.abs(b[np.isfinite(b)]).max(initial=0.0)
    return bool(np.allclose(a, b, ULPS * unit, ULPS * unit * scale, equal_nan=True))
