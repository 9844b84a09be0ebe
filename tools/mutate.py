"""Do the samples catch a kernel that is wrong?

    python tools/mutate.py [OP ...] [--every N] [--table numpy|jax] [--verbose]

Each kernel of a primitive, with the functions of its theme that it calls, is altered in
one place: an operator swapped, a constant off by one, a comparison turned, an axis
moved, a branch taken always or never, a cast or a statement left out, results in another
order. The samples of the ops that get there must notice. What survives is printed, with
its line, and exits with 1 where less than `LEAST` of all is caught; what no sample could
tell from the original stands in `EQUIVALENT`, with the reason, and is counted apart.

`--table` alters the rows of a kernel table instead; `--every N` takes one in N.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import signal
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import partial
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import numpy as np

from amanda_std.arrays import Kernels, using
from amanda_std.operation import Operation
from amanda_std.ops import OPS
from amanda_std.samples import Sample, difference

LEAST = 0.95
SECONDS = 5.0
"""A mutant that takes longer goes round, and is caught."""

PACKAGE = "amanda_std.ops"
TABLES = {
    "numpy": ("amanda_std.numpy_kernels", "NUMPY"),
    "jax": ("amanda_jax.kernels", "JAX"),
}

EQUIVALENT: dict[tuple[str, str], str] = {}
"""By function and change: why no sample can tell the mutant from the original."""


class Mutant(NamedTuple):
    """A function with one place altered, and the ops that get there."""

    function: FunctionType
    line: int
    change: str
    code: CodeType
    ops: tuple[Operation, ...]

    @property
    def where(self) -> str:
        module = self.function.__module__.removeprefix(f"{PACKAGE}.")
        return f"{module}.{self.function.__name__}"

    def __str__(self) -> str:
        return f"{self.where}, line {self.line}: {self.change}"


# -- what is altered -------------------------------------------------------------------


def functions(table: str | None, names: Iterable[str]) -> dict[Any, list[Operation]]:
    """The functions to alter, each with the ops whose samples get there."""
    found: dict[Any, list[Operation]] = {}
    wanted = set(names)
    rows = _rows(table)
    for name, op in OPS.items():
        start = op.function if table is None else rows.get(name)
        if start is None or (wanted and name not in wanted):
            continue
        if table is None and op.is_composite:
            continue
        for function in _reached(start, PACKAGE if table is None else TABLES[table][0]):
            found.setdefault(function, []).append(op)
    return found


def _rows(table: str | None) -> Kernels:
    if table is None:
        return Kernels("none", {})
    module, name = TABLES[table]
    found: Kernels = getattr(import_module(module), name)
    return found


def _reached(start: Any, package: str) -> Iterator[FunctionType]:
    """A function and those of the package that it calls, at any depth."""
    seen: set[int] = set()
    waiting = [start]
    while waiting:
        at = _plain(waiting.pop())
        if at is None or id(at) in seen or not at.__module__.startswith(package):
            continue
        seen.add(id(at))
        yield at
        held = at.__globals__
        waiting += [held[name] for name in _names(at.__code__) if name in held]


def _plain(value: Any) -> FunctionType | None:
    """The function that does the work of what wraps it."""
    while not isinstance(value, FunctionType) or hasattr(value, "__wrapped__"):
        inner = getattr(value, "__wrapped__", getattr(value, "func", None))
        if inner is None or isinstance(value, Operation):
            return None
        value = inner
    return value if value.__closure__ is None else None


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _names(const)


def mutants(function: FunctionType, ops: Sequence[Operation]) -> Iterator[Mutant]:
    """The function, altered in every place in turn."""
    lines, start = inspect.getsourcelines(function)
    tree = ast.parse(textwrap.dedent("".join(lines)))
    head = tree.body[0]
    if not isinstance(head, ast.FunctionDef):
        return  # a lambda: its line holds more than one function, maybe
    head.decorator_list = []
    places = [n for part in head.body for n in ast.walk(part)]
    beside = _beside_the_result(head)
    for number, node in enumerate(places):
        for change, alter in _changes(node) if node not in beside else ():
            altered = deepcopy(tree)
            inner: Any = altered.body[0]
            copies = [n for part in inner.body for n in ast.walk(part)]
            alter(copies[number])
            ast.fix_missing_locations(altered)
            code = _compiled(altered, function)
            if code is not None:
                line = start + getattr(node, "lineno", 1) - 1
                yield Mutant(function, line, change, code, tuple(ops))


def _beside_the_result(head: ast.FunctionDef) -> set[ast.AST]:
    """What no result depends on: refusals, which wrong use tests (test_wrong_use.py),
    and whether `zip` checks lengths or `astype` copies."""
    found: set[ast.AST] = set()
    for node in ast.walk(head):
        if isinstance(node, ast.Raise):
            found.update(ast.walk(node))
        if isinstance(node, ast.If) and isinstance(node.body[-1], ast.Raise):
            found.update(ast.walk(node.test) if not node.orelse else ())
            found.add(node)
        if isinstance(node, ast.keyword) and node.arg in ("strict", "copy"):
            found.update(ast.walk(node))
        if isinstance(node, ast.Expr) and "_expect" in ast.unparse(node):
            found.update(ast.walk(node))
    return found


def _compiled(tree: ast.Module, function: FunctionType) -> CodeType | None:
    whole = compile(tree, inspect.getfile(function), "exec", dont_inherit=True)
    for const in whole.co_consts:
        if isinstance(const, CodeType) and const.co_name == function.__name__:
            return None if const.co_freevars else const
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
    """The ways to alter one node of a function."""
    text = ast.unparse(node)[:60] if not isinstance(node, ast.operator) else ""
    for key in ("op", "ops"):
        yield from _swapped(node, key, text)
    if isinstance(node, ast.Constant) and type(node.value) in (int, float, bool):
        value = node.value
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
        yield f"{text} left out", _without_cast
    if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
        if len(node.value.elts) > 1:
            yield f"{text} in another order", _turned
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield f"{text} left out", partial(_set, "value", ast.Constant(None))
    if isinstance(node, ast.AugAssign):
        yield f"{text} left out", partial(_set, "value", ast.Name("x"))


def _swapped(node: ast.AST, key: str, text: str) -> Iterator[Change]:
    held = getattr(node, key, None)
    if isinstance(node, ast.UnaryOp) or held is None:
        return
    first = held[0] if isinstance(held, list) else held
    other = _OPERATORS.get(type(first))
    if other is not None:
        made: Any = other()
        value = [made, *held[1:]] if isinstance(held, list) else made
        yield f"{type(first).__name__} became {other.__name__} in {text}", partial(
            _set, key, value
        )


def _set(field: str, value: Any, node: Any) -> None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        # `+x` of a bool is an int: twice `not` is what it was without
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


def _without_cast(node: Any) -> None:
    inner = node.func.value
    node.func = ast.Name("_same", ast.Load())
    node.args, node.keywords = [inner], []


def _turned(node: Any) -> None:
    node.value.elts.reverse()


def _same(value: Any) -> Any:
    return value


# -- whether it is caught --------------------------------------------------------------


class Expected(NamedTuple):
    """The samples of an op, made before anything is altered."""

    op: Operation
    samples: list[Sample]


def caught(mutant: Mutant, samples: dict[str, list[Sample]], kernels: Any) -> bool:
    """Does a sample of an op that gets there fail, or take too long?"""
    function = mutant.function
    before = function.__code__
    held = function.__globals__
    held["_same"] = _same
    function.__code__ = mutant.code
    try:
        with _limited(SECONDS), using(kernels), np.errstate(all="ignore"):
            for op in mutant.ops:
                for sample in samples[op.name]:
                    if _fails(op, sample):
                        return True
    except _TookTooLong:
        return True
    finally:
        function.__code__ = before
        held.pop("_same", None)
    return False


def _fails(op: Operation, sample: Sample) -> bool:
    try:
        got = op.run(*op.bind(sample.args, sample.attrs))
        many = sample.expected if isinstance(sample.expected, list) else [sample.expected]
        have = list(got) if op.form.many else [got]
        return difference(have, many, sample.tolerance) is not None
    except _TookTooLong:
        raise
    except Exception:  # noqa: BLE001  whatever it is, it is noticed
        return True


class _TookTooLong(BaseException):
    pass


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise _TookTooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Outcome(NamedTuple):
    """How many were caught, which survived, and which cannot be told apart."""

    caught: int
    survived: list[Mutant]
    equivalent: list[Mutant]

    @property
    def share(self) -> float:
        total = self.caught + len(self.survived)
        return self.caught / total if total else 1.0


def judged(
    table: str | None = None, names: Sequence[str] = (), every: int = 1
) -> Outcome:
    """Alters functions one by one, and tells what the samples notice."""
    found = functions(table, names)
    samples: dict[str, list[Sample]] = {}
    for op in {op for ops in found.values() for op in ops}:
        assert op.samples_rule is not None
        samples[op.name] = list(op.samples_rule())
    kernels = _rows(table) if table else None
    outcome = Outcome(0, [], [])
    count = number = 0
    for function, ops in found.items():
        for mutant in mutants(function, ops):
            number += 1
            if number % every:
                continue
            if (mutant.where, mutant.change) in EQUIVALENT:
                outcome.equivalent.append(mutant)
            elif caught(mutant, samples, kernels):
                count += 1
            else:
                outcome.survived.append(mutant)
    return outcome._replace(caught=count)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("op", nargs="*", help="only the kernels of these")
    parser.add_argument("--every", type=int, default=1, help="one mutant in so many")
    parser.add_argument("--table", choices=TABLES, help="rows of a kernel table")
    told = parser.parse_args()
    outcome = judged(told.table, told.op, told.every)
    for mutant in outcome.survived:
        file = Path(inspect.getfile(mutant.function)).name
        ops = ", ".join(op.name for op in mutant.ops[:4])
        print(f"{file}:{mutant.line}: {mutant.where}: {mutant.change} [{ops}]")
    total = outcome.caught + len(outcome.survived)
    print(
        f"{outcome.caught} of {total} altered kernels caught ({outcome.share:.1%}); "
        f"{len(outcome.equivalent)} more cannot be told from the original"
    )
    return int(outcome.share < LEAST)


if __name__ == "__main__":
    sys.exit(main())
