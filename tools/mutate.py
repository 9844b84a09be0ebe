"""Mutation testing of kernels: do the samples detect a wrong kernel?

    python tools/mutate.py [OP ...] [--every N] [--table numpy|jax] [--equivalent]
                           [--module NAME] [--tests FILE ...]

Each kernel of a primitive, and each function of the package that it calls, is changed
in one place: an operator, constant, comparison or axis changed, a branch always or
never taken, a cast or statement removed, results reordered. The samples of the ops that
reach it must fail. Survivors are printed, and the exit code is 1 if less than `LEAST`
are caught. `equivalent.py` lists mutants that are equivalent to the original.

`--table` mutates a kernel table; `--every N` takes one mutant in N. `--module` mutates
all functions of a module, and `--tests` names test files that may detect mutants too,
such as those of kernels that choose an algorithm by size.
"""

from __future__ import annotations

import argparse
import ast
import gc
import inspect
import io
import re
import runpy
import signal
import sys
import textwrap
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import (
    AbstractContextManager,
    contextmanager,
    nullcontext,
    redirect_stdout,
)
from copy import deepcopy
from functools import partial
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType, MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from amanda_std import Operation
from amanda_std.backends import Kernels, Sample, difference, use_kernels
from amanda_std.ops import OPS

LEAST = 0.95

PACKAGE = "amanda_std.ops"


class Table(NamedTuple):
    """A table of kernels, in a module.

    - `seconds`: CPU time limit; a mutant that exceeds it counts as caught
    - `close`: tolerances by element type, if larger than those of samples
    """

    module: str
    name: str
    seconds: float = 1.0
    close: Mapping[str, float] = MappingProxyType({})

    @property
    def kernels(self) -> Kernels:
        found: Kernels = getattr(import_module(self.module), self.name)
        return found

    def context(self) -> AbstractContextManager[Any]:
        """A context for running kernels, with x64 enabled for JAX."""
        if self.name != "JAX":
            return nullcontext()
        import jax

        return jax.enable_x64(True)  # type: ignore[no-any-return]

    def clear_cache(self) -> None:
        """Clear the jit cache, whose keys are functions, mutated or not."""
        if self.name == "JAX":
            import jax

            jax.clear_caches()

    def to_array(self, value: Any) -> Any:
        """Convert an argument of a sample to the library's array."""
        if self.name != "JAX" or not isinstance(value, np.ndarray):
            return value
        if value.dtype.kind not in "biufcV":
            return value
        import jax.numpy as jnp

        return jnp.asarray(value)


TABLES = {
    "numpy": Table("amanda_std.runtime.numpy_kernels", "NUMPY"),
    "jax": Table(
        "amanda_jax.kernels", "JAX", 30.0, {"float16": 4e-3, "bfloat16": 3e-2,
        "float32": 2e-5, "float64": 1e-6, "complex64": 2e-5, "complex128": 1e-6},
    ),
}  # fmt: skip
_DEFINITIONS = Table("", "")

EQUIVALENT: list[tuple[str, str, str]] = runpy.run_path(
    str(Path(__file__).with_name("equivalent.py"))
)["EQUIVALENT"]


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


# -- mutants ---------------------------------------------------------------------------


def functions_to_mutate(
    table: str | None, names: Iterable[str]
) -> dict[Any, list[Operation]]:
    """The functions to mutate, each with the ops that reach it."""
    found: dict[Any, list[Operation]] = {}
    wanted = set(names)
    rows = _rows(table)
    for name, op in OPS.items():
        start = op.function if table is None else rows.get(name)
        if start is None or (wanted and name not in wanted):
            continue
        if table is None and (op.is_composite or op.effect in ("shows", "draws")):
            continue  # effects are not results: test_effects.py, test_random_streams.py
        if table == "jax" and op.body_rule is not None:
            continue  # bodies are traced: test_samples.py of amanda-jax
        for function in _reachable_functions(
            start, PACKAGE if table is None else TABLES[table].module
        ):
            found.setdefault(function, []).append(op)
    return found


def functions_of_module(name: str, table: str | None) -> dict[Any, list[Operation]]:
    """All functions of a module, once for each code object, with their ops."""
    ops_by_code = {f.__code__: ops for f, ops in functions_to_mutate(table, ()).items()}
    for op, row in _rows(table).items():
        while isinstance(row, FunctionType) and hasattr(row, "__wrapped__"):
            ops_by_code.setdefault(row.__code__, []).append(OPS[op])
            row = row.__wrapped__
    file = inspect.getfile(import_module(name))
    found = {
        each.__code__: each
        for each in gc.get_objects()  # `isinstance` may run code
        if type(each) is FunctionType and each.__code__.co_filename == file
        if each.__code__.co_name != "<lambda>"
    }
    order = sorted(found, key=lambda code: code.co_firstlineno)
    return {found[code]: ops_by_code.get(code, []) for code in order}


def _rows(table: str | None) -> Kernels:
    if table is None:
        return Kernels("none", {})
    return TABLES[table].kernels


def _reachable_functions(start: Any, package: str) -> Iterator[FunctionType]:
    """A function, and the functions of the package that it calls, transitively."""
    seen: set[int] = set()
    waiting = [start]
    while waiting:
        at = _unwrap(waiting.pop())
        if at is None or id(at) in seen or not at.__module__.startswith(package):
            continue
        seen.add(id(at))
        yield at
        names = _global_names(at.__code__)
        waiting += [at.__globals__[name] for name in names if name in at.__globals__]


def _unwrap(value: Any) -> FunctionType | None:
    """The innermost wrapped function."""
    while not isinstance(value, FunctionType) or hasattr(value, "__wrapped__"):
        inner = getattr(value, "__wrapped__", getattr(value, "func", None))
        if inner is None or isinstance(value, Operation):
            return None
        value = inner
    return value if value.__closure__ is None else None


def _global_names(code: CodeType) -> Iterator[str]:
    for each in _nested_codes(code):
        yield from each.co_names


def _nested_codes(code: CodeType) -> Iterator[CodeType]:
    """A code object, and those nested in it."""
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _nested_codes(const)


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
        if isinstance(node, ast.Expr) and "_expect" in ast.unparse(node):
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
    for code in _nested_codes(whole):
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


# -- running ---------------------------------------------------------------------------


def is_caught(
    mutant: Mutant, samples: dict[str, list[Sample]], kernels: Any,
    table: Table = _DEFINITIONS, tests: Sequence[str] = (),
) -> bool:  # fmt: skip
    """True if a sample of an op that reaches it fails or times out, or a test fails."""
    with _apply_mutant(mutant):
        if _samples_fail(mutant.ops, samples, kernels, table):
            return True
        return bool(tests) and not run_tests(tests, table)


@contextmanager
def _apply_mutant(mutant: Mutant) -> Iterator[None]:
    """Replace the code of the function, and of others with the same code."""
    function: Any = mutant.function
    before, scope = function.__code__, function.__globals__
    functions = [function]
    if function.__closure__ is not None:
        functions = [f for f in gc.get_referrers(before) if isinstance(f, FunctionType)]
    scope["_same"] = _same
    for each in functions:
        each.__code__ = mutant.code
    try:
        yield
    finally:
        for each in functions:
            each.__code__ = before
        scope.pop("_same", None)


def _samples_fail(
    ops: Sequence[Operation], samples: dict[str, list[Sample]], kernels: Any,
    table: Table,
) -> bool:  # fmt: skip
    try:
        with (
            _time_limit(table.seconds),
            table.context(),
            use_kernels(kernels),
            np.errstate(all="ignore"),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("error")  # as in the tests
            return any(_fails(op, s, table) for op in ops for s in samples[op.name])
    except _TookTooLong:
        return True


def run_tests(tests: Sequence[str], table: Table = _DEFINITIONS) -> bool:
    """Run tests in this process; True if they pass."""
    import pytest

    output = io.StringIO()
    table.clear_cache()
    options = ["-xq", "--assert=plain", "--tb=no", "-pno:cacheprovider", "-pno:xdist"]
    with redirect_stdout(output):
        code = pytest.main([*options, *tests])
    table.clear_cache()
    if "! KeyboardInterrupt !" in output.getvalue():
        raise KeyboardInterrupt
    if code in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise SystemExit(output.getvalue() or f"no tests in {', '.join(tests)}")
    return code == pytest.ExitCode.OK


def _fails(op: Operation, sample: Sample, table: Table = _DEFINITIONS) -> bool:
    try:
        args = [table.to_array(each) for each in sample.args]
        got = op.run(*op.bind(args, sample.attrs))
        many = (
            sample.expected if isinstance(sample.expected, list) else [sample.expected]
        )
        have = list(got) if op.form.many else [got]
        close = [table.close.get(str(getattr(each, "dtype", "")), 0.0) for each in many]
        tolerance = max(sample.tolerance or 0.0, *close) or None
        return difference(have, many, tolerance) is not None
    except _TookTooLong:
        raise
    except Exception:  # noqa: BLE001  any error is detected
        return True


class _TookTooLong(BaseException):
    pass


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise _TookTooLong

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


class Outcome(NamedTuple):
    """The number of caught mutants, and the survivors and equivalent ones."""

    caught: int
    survived: list[Mutant]
    equivalent: list[Mutant]

    @property
    def share(self) -> float:
        total = self.caught + len(self.survived)
        return self.caught / total if total else 1.0


class _Samples(dict[str, list[Sample]]):
    """The samples of ops, created and verified before any mutation."""

    def __init__(self, kernels: Kernels | None, table: Table) -> None:
        self.kernels, self.table = kernels, table

    def __missing__(self, name: str) -> list[Sample]:
        op = OPS[name]
        assert op.samples_rule is not None
        self[name] = list(op.samples_rule())
        with self.table.context(), use_kernels(self.kernels), np.errstate(all="ignore"):
            assert not any(_fails(op, s, self.table) for s in self[name]), op
        return self[name]


def run_mutants(
    table: str | None = None, names: Sequence[str] = (), every: int = 1,
    module: str | None = None, tests: Sequence[str] = (),
) -> Outcome:  # fmt: skip
    """Mutate functions one by one, and run samples and tests."""
    chosen = TABLES[table] if table else _DEFINITIONS
    found = (
        functions_of_module(module, table)
        if module
        else functions_to_mutate(table, names)
    )
    if tests and not run_tests(tests, chosen):
        raise SystemExit("a test fails without any mutation")
    return _run_mutants(chosen, found, every, tests)


def _run_mutants(
    table: Table, found: Mapping[Any, list[Operation]], every: int, tests: Sequence[str]
) -> Outcome:
    kernels = table.kernels if table.module else None
    samples = _Samples(kernels, table)
    outcome = Outcome(0, [], [])
    count = number = 0
    apart = {function.__code__.co_qualname for function in found}
    for function, ops in found.items():
        for mutant in mutants(function, ops, apart):
            number += 1
            if number % every:
                continue
            rows = {op.name: samples[op.name] for op in ops}
            if is_caught(mutant, rows, kernels, table, tests):
                count += 1
            elif _equivalence_reason(mutant) is not None:
                outcome.equivalent.append(mutant)
            else:
                outcome.survived.append(mutant)
    return outcome._replace(caught=count)


def _equivalence_reason(mutant: Mutant) -> str | None:
    """Why the mutant is equivalent to the original, or None."""
    for where, change, why in EQUIVALENT:
        if re.fullmatch(where, mutant.qualified_name) and re.fullmatch(
            change, mutant.change
        ):
            return why
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("op", nargs="*", help="only the kernels of these ops")
    parser.add_argument("--every", type=int, default=1, help="one mutant in N")
    parser.add_argument(
        "--equivalent", action="store_true", help="list equivalent mutants"
    )
    parser.add_argument("--table", choices=TABLES, help="mutate a kernel table")
    parser.add_argument("--module", help="mutate a module")
    parser.add_argument("--tests", nargs="+", default=[], help="tests to run as well")
    args = parser.parse_args()
    outcome = run_mutants(args.table, args.op, args.every, args.module, args.tests)
    for mutant in outcome.survived:
        file = Path(inspect.getfile(mutant.function)).name
        ops = ", ".join(op.name for op in mutant.ops[:4])
        print(f"{file}:{mutant.line}: {mutant.qualified_name}: {mutant.change} [{ops}]")
    for mutant in outcome.equivalent if args.equivalent else ():
        print(f"{mutant}: {_equivalence_reason(mutant)}")
    total = outcome.caught + len(outcome.survived)
    print(
        f"{outcome.caught} of {total} mutants caught ({outcome.share:.1%}); "
        f"{len(outcome.equivalent)} more are equivalent to the original"
    )
    return int(outcome.share < LEAST)


if __name__ == "__main__":
    sys.exit(main())
