"""Do the samples catch a kernel that is wrong?

    python tools/mutate.py [OP ...] [--every N] [--table numpy|jax] [--equivalent]

Each kernel of a primitive, with the functions of its theme that it calls, is altered in
one place: an operator swapped, a constant off by one, a comparison turned, an axis
moved, a branch taken always or never, a cast or a statement left out, results in
another order. The samples of the ops that get there must notice. What survives is
printed, with its line, and exits with 1 where less than `LEAST` of all is caught; what
no sample could tell from the original stands in `EQUIVALENT`, with the reason, and is
counted apart.

`--table` alters the rows of a kernel table instead; `--every N` takes one in N.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import signal
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import deepcopy
from functools import partial
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType, MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from amanda_std.arrays import Kernels, using
from amanda_std.operation import Operation
from amanda_std.ops import OPS
from amanda_std.samples import Sample, difference

LEAST = 0.95

PACKAGE = "amanda_std.ops"


class Table(NamedTuple):
    """A table of kernels, in a module.

    - `seconds`: of the processor. A mutant that takes longer goes round, and is caught
    - `close`: how far off numbers may be, where it is more than samples say
    """

    module: str
    name: str
    seconds: float = 1.0
    close: Mapping[str, float] = MappingProxyType({})

    @property
    def kernels(self) -> Kernels:
        found: Kernels = getattr(import_module(self.module), self.name)
        return found

    def at_work(self) -> AbstractContextManager[Any]:
        """Around all: 64 bits are what they are."""
        if self.name != "JAX":
            return nullcontext()
        import jax

        return jax.enable_x64(True)  # type: ignore[no-any-return]

    def arrays(self, value: Any) -> Any:
        """An argument of a sample as the library has it."""
        if self.name != "JAX" or not isinstance(value, np.ndarray):
            return value
        if value.dtype.kind not in "biufcV":
            return value
        import jax.numpy as jnp

        return jnp.asarray(value)


TABLES = {
    "numpy": Table("amanda_std.numpy_kernels", "NUMPY"),
    "jax": Table(
        "amanda_jax.kernels", "JAX", 30.0, {"float16": 4e-3, "bfloat16": 3e-2,
        "float32": 2e-5, "float64": 1e-6, "complex64": 2e-5, "complex128": 1e-6},
    ),
}  # fmt: skip
_DEFINITIONS = Table("", "")

_LIBRARY = "what scipy and numpy do with half precision by themselves"
_SHORT_WAY = "a short way to what the long way gives too"
_SIGNS = "a sign is its own inverse"
_READS_HALF = "LAPACK reads the lower half only"
_OTHERS = "matters to other libraries: amanda-jax has the test"
_INFERRED = "met by inference only: test_inferred_types_fit"
_PRECISION = "more digits than are asked for"
_NO_MATTER = "any such number will do"
EQUIVALENT: list[tuple[str, str, str]] = [
    (".*", r".*\.astype\('int6.* left out", "numpy's places have 64 bits"),
    (".*", "[12] became [23] in itemsize", "there is no such width"),
    (r"arithmetic\.truncated", "if a.dtype.kind == 'u': never.*", _SHORT_WAY),
    (r"arithmetic\.truncated", "0 became 1", "nothing is divided by 0"),
    (r"arithmetic\.truncated", "up.astype.*", "a bool is added as the number it is"),
    (r"elementary\.in_special", "x.astype.*", _LIBRARY),
    (r"special\._several", "0 became 1|x.astype.*", "all have one type; " + _LIBRARY),
    (r"special\.polygamma", ".*'fd'.*|x.astype.*", _LIBRARY),
    (r"bits\._width", "if isinstance.*never.*", _SHORT_WAY),
    (r"reduction\._wide", "2 became 3", "no element type has three bytes"),
    (r"reduction\._axis", ".*always taken", "numpy takes one axis as well as a tuple"),
    (r"reduction\._extreme", "if 0 not in kept: always.*", "nothing is filled"),
    (r"scans\._scan", "if x.shape.*never.*", _SHORT_WAY),
    (r"contraction\.multiplied", "if np_ is.*|[12] became.*", _OTHERS),
    (r"contraction\.multiplied", ".*y.dtype == kept.*|y.astype.*",
     "numpy keeps the element type: " + _OTHERS),
    (r"linear_algebra\.cholesky|factorisations\.eigh",
     "Add became Sub in low.*|1 became 2", _READS_HALF),
    (r"linear_algebra\.in_single_at_least", "2 became 3", "no type has three bytes"),
    (r"linear_algebra\.triangular_solve", "if b.*always.*", _SHORT_WAY),
    (r"factorisations\.(qr|eigh|svd)", "Mult became Div.*", _SIGNS),
    (r"factorisations\._signs", ".*", "any weights that no vector is across"),
    (r"factorisations\.lu", "if not x.*never.*", _SHORT_WAY),
    (r"complex_numbers\.complex_of", ".*unknown.*", _INFERRED),
    (r"fourier\._transformed", ".*itemsize.*|2 became 3|x.astype.*", _LIBRARY),
    (r"fourier\._transformed", "1 became 2", _NO_MATTER),
    (r"shape\.astype", ".*always taken|And became Or.*|NotEq became Eq.*",
     "the real part of a real number is it itself"),
    (r".*\._matmul", ".*out is not None.*|In became NotIn in a.dtype.char.*",
     "where the result goes"),
    (r".*\._matmul", "(if|And|LtE|In) .*a.dtype.kind in 'fV'.*|LtE .*itemsize.*",
     "numpy and ml_dtypes add up in float32 by themselves"),
    (r".*\._matmul", "[ab].astype.*|.*y.dtype is.*|y.astype.*|2 became 3", _SHORT_WAY),
    (r".*\._(sum|mean)", "2 became 3|y.astype.*|if axes == .*never.*", _SHORT_WAY),
    (r".*\._mean", "if is_small.*never.*", _LIBRARY),
    (r".*\._stack", "if xs.*always.*|0 became 1", _SHORT_WAY),
    (r".*\._softmax", ".*never.*|0 became 1", _SHORT_WAY),
    (r".*\._layer_norm", ".*scale.ndim.*", "where the result goes"),
    (r"movement\.pad", "if not any.*never.*", _SHORT_WAY),
    (r"indexing\.gather", ".*object.*", _INFERRED),
    (r"indexing\.gather_nd", "if not batch_dims.*never.*", _SHORT_WAY),
    (r"indexing\.scatter_elements", "True became False", "indices in full do as well"),
    (r"convolution\.channels_first", "if .*(always|never) taken|Eq became NotEq.*",
     _SHORT_WAY),
    (r"convolution\.channels_first", "1 became 2|y.astype.*", _SHORT_WAY),
    (r"convolution\._depthwise", "[wx].astype.*|4 became 5", "the other is wide"),
    (r"convolution\.windows", ".*", _INFERRED),
    (r"pooling\._prepared", ".*", "what is padded too much is never read"),
    (r"detection\._overlaps", "BitAnd.*|-1 without.*|[12] became.*", _NO_MATTER),
    (r"detection\.(soft_)?nms", ".*astype\\('float64'\\) left out", _PRECISION),
    (r"detection\.nms", "0.0 became 1.0", _NO_MATTER),
    (r"control\._(no_rows|is_static)", ".*", "of bodies that are graphs"),
    (r"control\._stacked", "0 became 1|1 became 2|.*never.*", "refuses, or is told"),
    (r"control\.loop", "(True became False|0 became 1)", "a round that is not counted"),
    (r"sequences\.sequence_insert", "1 became 2", "refuses less: test_wrong_use.py"),
    (r"strings\._mapped", "if dtype is object.*never.*", _SHORT_WAY),
    (r"strings\.string_split", "1 became 2", _NO_MATTER),
    (r"strings\._truth", ".*always.*", "refuses less: test_wrong_use.py"),
    (r"strings\._written", "if .*(never|always) taken|Eq became.*|0 became 1",
     "Python's own text of the number"),
    (r"state\.variable", ".*", "of a running executable: test_effects.py"),
]  # fmt: skip
"""Functions and changes, as regular expressions: why no sample can tell them apart."""


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
        if table is None and (op.is_composite or op.effect == "shows"):
            continue  # what is seen from outside is no result: test_effects.py
        if table == "jax" and op.body_rule is not None:
            continue  # bodies are traced: test_samples.py of amanda-jax
        for function in _reached(
            start, PACKAGE if table is None else TABLES[table].module
        ):
            found.setdefault(function, []).append(op)
    return found


def _rows(table: str | None) -> Kernels:
    if table is None:
        return Kernels("none", {})
    return TABLES[table].kernels


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
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("reshape"):
            for each in ast.walk(node):  # any negative number is -1 to numpy
                if isinstance(each, ast.UnaryOp) and isinstance(each.op, ast.USub):
                    found.update([each.operand])
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
        yield f"{text} left out", _without_cast
    if isinstance(node, ast.Return) and len(getattr(node.value, "elts", ())) > 1:
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
        yield (
            f"{type(first).__name__} became {other.__name__} in {text}",
            partial(_set, key, value),
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


def caught(
    mutant: Mutant, samples: dict[str, list[Sample]], kernels: Any,
    table: Table = _DEFINITIONS,
) -> bool:  # fmt: skip
    """Does a sample of an op that gets there fail, or take too long?"""
    function: Any = mutant.function
    before = function.__code__
    held = function.__globals__
    held["_same"] = _same
    function.__code__ = mutant.code
    try:
        with (
            _limited(table.seconds),
            using(kernels),
            np.errstate(all="ignore"),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("error")  # as the tests have it
            for op in mutant.ops:
                for sample in samples[op.name]:
                    if _fails(op, sample, table):
                        return True
    except _TookTooLong:
        return True
    finally:
        function.__code__ = before
        held.pop("_same", None)
    return False


def _fails(op: Operation, sample: Sample, table: Table = _DEFINITIONS) -> bool:
    try:
        given = [table.arrays(each) for each in sample.args]
        got = op.run(*op.bind(given, sample.attrs))
        many = (
            sample.expected if isinstance(sample.expected, list) else [sample.expected]
        )
        have = list(got) if op.form.many else [got]
        close = [table.close.get(str(getattr(each, "dtype", "")), 0.0) for each in many]
        tolerance = max(sample.tolerance or 0.0, *close) or None
        return difference(have, many, tolerance) is not None
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

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


class Outcome(NamedTuple):
    """How many were caught, which survived, and which cannot be told apart."""

    caught: int
    survived: list[Mutant]
    equivalent: list[Mutant]

    @property
    def share(self) -> float:
        total = self.caught + len(self.survived)
        return self.caught / total if total else 1.0


class _Samples(dict[str, list[Sample]]):
    """The samples of ops, made before anything is altered; they pass till then."""

    def __init__(self, kernels: Kernels | None, table: Table) -> None:
        self.kernels, self.table = kernels, table

    def __missing__(self, name: str) -> list[Sample]:
        op = OPS[name]
        assert op.samples_rule is not None
        self[name] = list(op.samples_rule())
        with using(self.kernels), np.errstate(all="ignore"):
            assert not any(_fails(op, s, self.table) for s in self[name]), op
        return self[name]


def judged(
    table: str | None = None, names: Sequence[str] = (), every: int = 1
) -> Outcome:
    """Alters functions one by one, and tells what the samples notice."""
    chosen = TABLES[table] if table else _DEFINITIONS
    with chosen.at_work():
        return _judged(chosen, functions(table, names), every)


def _judged(table: Table, found: Mapping[Any, list[Operation]], every: int) -> Outcome:
    kernels = table.kernels if table.module else None
    samples = _Samples(kernels, table)
    outcome = Outcome(0, [], [])
    count = number = 0
    for function, ops in found.items():
        for mutant in mutants(function, ops):
            number += 1
            if number % every:
                continue
            rows = {op.name: samples[op.name] for op in ops}
            if caught(mutant, rows, kernels, table):
                count += 1
            elif _reason(mutant) is not None:
                outcome.equivalent.append(mutant)
            else:
                outcome.survived.append(mutant)
    return outcome._replace(caught=count)


def _reason(mutant: Mutant) -> str | None:
    """Why no sample can tell the mutant from the original, if that is so."""
    for where, change, why in EQUIVALENT:
        if re.fullmatch(where, mutant.where) and re.fullmatch(change, mutant.change):
            return why
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("op", nargs="*", help="only the kernels of these")
    parser.add_argument("--every", type=int, default=1, help="one mutant in so many")
    parser.add_argument(
        "--equivalent", action="store_true", help="tell those, with the reason"
    )
    parser.add_argument("--table", choices=TABLES, help="rows of a kernel table")
    told = parser.parse_args()
    outcome = judged(told.table, told.op, told.every)
    for mutant in outcome.survived:
        file = Path(inspect.getfile(mutant.function)).name
        ops = ", ".join(op.name for op in mutant.ops[:4])
        print(f"{file}:{mutant.line}: {mutant.where}: {mutant.change} [{ops}]")
    for mutant in outcome.equivalent if told.equivalent else ():
        print(f"{mutant}: {_reason(mutant)}")
    total = outcome.caught + len(outcome.survived)
    print(
        f"{outcome.caught} of {total} altered kernels caught ({outcome.share:.1%}); "
        f"{len(outcome.equivalent)} more cannot be told from the original"
    )
    return int(outcome.share < LEAST)


if __name__ == "__main__":
    sys.exit(main())
