"""Mutation testing of ops and kernels: do the samples detect a wrong one?

    python tools/mutate.py [OP ...] [--table primitives|composites|numpy|jax]
                           [--every N] [--equivalent] [--module NAME] [--tests FILE]
    python tools/mutate.py --table T --document     also writes its row in docs/std.md
    python tools/mutate.py --table T --refute       compares equivalent mutants with the
                                                    original, see `mutants.py`

Each function that an op of the table runs is changed in one place (`mutants.py`), and
the samples of the ops that reach it must fail: computed by the kernels; else, for
definitions of ops, inferred and in graphs, as the tests of amanda-std check them.
Survivors are printed, and the exit code is 1 if less than `LEAST` of them are caught.
`equivalent.py` lists mutants that are equivalent to the original, with reasons: of
mutants that survive, those are waived.

`--every N` takes one mutant in N. `--module` mutates all functions of a module, and
`--tests` names test files that may detect mutants too, such as those of kernels that
choose an algorithm by size.
"""

from __future__ import annotations

import argparse
import copy
import gc
import inspect
import io
import itertools
import re
import runpy
import signal
import sys
import warnings
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import (
    AbstractContextManager,
    contextmanager,
    nullcontext,
    redirect_stdout,
)
from functools import partial
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType, MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from amanda.graph import Graph
from amanda_std import Operation
from amanda_std.backends import Kernels, Sample, difference, use_kernels
from amanda_std.ops import OPS
from amanda_std.runtime.numpy_kernels import NUMPY
from amanda_std.runtime.step_runner import StepRunner

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.mutants import (  # noqa: E402  the package of this file
    PACKAGE,
    Call,
    Mutant,
    apply_mutant,
    counterexample,
    mutants,
    nested_codes,
    varied_calls,
)

LEAST = {"primitives": 0.95, "composites": 0.92, "numpy": 0.95, "jax": 0.55}
"""The share of mutants to catch, by table."""


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
DEFINITIONS = ("primitives", "composites")
_NO_TABLE = Table("", "")

FunctionsWithOps = dict[Any, list[Operation]]

EQUIVALENT: list[tuple[str, str, str]] = runpy.run_path(
    str(Path(__file__).with_name("equivalent.py"))
)["EQUIVALENT"]


# -- mutants ---------------------------------------------------------------------------


def functions_to_mutate(table: str, names: Iterable[str] = ()) -> FunctionsWithOps:
    """The functions to mutate, each with the ops that reach it."""
    if table in DEFINITIONS:
        return _definitions(table, names)
    found: FunctionsWithOps = {}
    rows = TABLES[table].kernels
    for name, op in _chosen_ops(names):
        if table == "jax" and op.body_rule is not None:
            continue  # bodies are traced: test_samples.py of amanda-jax
        for function in _reachable_functions(rows.get(name), TABLES[table].module):
            found.setdefault(function, []).append(op)
    return found


def _definitions(table: str, names: Iterable[str]) -> FunctionsWithOps:
    """Functions that primitives reach, or those that only composites reach."""
    found: FunctionsWithOps = {}
    for _, op in _chosen_ops(names):
        if op.effect in ("shows", "draws"):
            continue  # effects are not results: test_effects.py, test_random_streams.py
        for function in _reachable_functions(op.function, PACKAGE):
            found.setdefault(function, []).append(op)
    of_composites = table == "composites"
    return {
        function: ops
        for function, ops in found.items()
        if all(op.is_composite for op in ops) is of_composites
    }


def _chosen_ops(names: Iterable[str]) -> Iterator[tuple[str, Operation]]:
    wanted = set(names)
    return ((n, op) for n, op in OPS.items() if not wanted or n in wanted)


def functions_of_module(name: str, table: str) -> FunctionsWithOps:
    """All functions of a module, once for each code object, with their ops."""
    ops_by_code = {f.__code__: ops for f, ops in functions_to_mutate(table).items()}
    kernels = TABLES[table].kernels if table in TABLES else Kernels("none", {})
    for op, row in kernels.items():
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
        inner = getattr(value, "__wrapped__", None)
        if isinstance(value, partial):
            inner = value.func
        if inner is None or isinstance(value, Operation):
            return None
        value = inner
    return value if value.__closure__ is None else None


def _global_names(code: CodeType) -> Iterator[str]:
    for each in nested_codes(code):
        yield from each.co_names


# -- running ---------------------------------------------------------------------------


def is_caught(
    mutant: Mutant, samples: dict[str, list[Sample]], kernels: Any,
    table: Table = _NO_TABLE, tests: Sequence[str] = (), checks: Checks = (),
) -> bool:  # fmt: skip
    """True if a sample of an op that reaches it fails or times out, or a test fails."""
    with apply_mutant(mutant):
        if _samples_fail(mutant.ops, samples, kernels, table):
            return True
        if any(_checks_fail(op, checks) for op in mutant.ops):
            return True
        return bool(tests) and not run_tests(tests, table)


def _samples_fail(
    ops: Sequence[Operation], samples: dict[str, list[Sample]], kernels: Any,
    table: Table,
) -> bool:  # fmt: skip
    try:
        with _strict(table.seconds), table.context(), use_kernels(kernels):
            return any(_fails(op, s, table) for op in ops for s in samples[op.name])
    except _TookTooLong:
        return True


@contextmanager
def _strict(seconds: float) -> Iterator[None]:
    """Warnings are errors, as in the tests, and the CPU time is limited."""
    with _time_limit(seconds), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


Checks = Sequence[tuple[Container[str], Callable[[str], None]]]


def graph_checks() -> Checks:
    """The checks of amanda-std's tests that infer samples and run them in graphs.

    Each with the names of its ops. They are the tests of `test_ops.py`, called with
    their parameters."""
    file = ROOT / "plugins/amanda-std/tests/ops/test_ops.py"
    test = runpy.run_path(str(file))
    ops = test["OPS"]
    symbolic = set(ops) - test["DATA_DECIDES"] - test["UNDECIDED"]
    composites = {name for name, op in ops.items() if op.is_composite}
    fit, graph = test["test_inferred_types_fit"], test["test_graph"]
    static, without_rank = test["static"], test["without_rank"]
    return [
        (symbolic, test["test_symbolic_shapes_stay_exact"]),
        *((ops, partial(fit, typing=typing)) for typing in test["TYPINGS"]),
        *(
            (composites, partial(test["test_composites_decompose"], typing=typing))
            for typing in (static, test["symbolic"])
        ),
        *(
            (ops, partial(graph, typing=typing, change=change, run=_run_graph))
            for typing in (static, test["symbolic"], without_rank)
            for change in (test["whole"], test["lowered"])
        ),
    ]


def _run_graph(graph: Graph, *args: Any) -> list[Any]:
    with use_kernels(NUMPY):
        return [np.asarray(value) for value in StepRunner(graph, NUMPY).run(args)]


def _checks_fail(op: Operation, checks: Checks) -> bool:
    """True if a check of an op fails, with nothing inferred before."""
    _forget_types()
    try:
        with _strict(60.0):
            for names, check in checks:
                if op.name in names:
                    check(op.name)
    except _TookTooLong:
        return True
    except Exception:  # noqa: BLE001  any error is detected
        return True
    finally:
        _forget_types()
    return False


def _forget_types() -> None:
    """Clear the caches of inferred types and of calls."""
    for op in OPS.values():
        op._known.clear()
        op.repeats._calls.clear()


def run_tests(tests: Sequence[str], table: Table = _NO_TABLE) -> bool:
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


def _fails(op: Operation, sample: Sample, table: Table = _NO_TABLE) -> bool:
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


def run_mutants(
    table: str = "primitives", names: Sequence[str] = (), every: int = 1,
    module: str | None = None, tests: Sequence[str] = (), only_listed: bool = False,
) -> Outcome:  # fmt: skip
    """Mutate functions one by one, and run samples and tests.

    `only_listed`: only mutants that `equivalent.py` lists."""
    found = (
        functions_of_module(module, table)
        if module
        else functions_to_mutate(table, names)
    )
    if tests and not run_tests(tests, TABLES.get(table, _NO_TABLE)):
        raise SystemExit("a test fails without any mutation")
    chosen: Iterator[Mutant]
    chosen = itertools.islice(_mutants_of(found), every - 1, None, every)
    if only_listed:
        chosen = (each for each in chosen if _equivalence_reason(each) is not None)
    return _run_mutants(table, found, chosen, tests)


def _run_mutants(
    name: str, found: FunctionsWithOps, chosen: Iterable[Mutant], tests: Sequence[str]
) -> Outcome:
    table = TABLES.get(name, _NO_TABLE)
    kernels = table.kernels if name in TABLES else None
    checks = () if name in TABLES else graph_checks()
    samples = verified_samples(found, kernels, table)
    count, survived, equivalent = 0, [], []
    for mutant in chosen:
        rows = {op.name: samples[op.name] for op in mutant.ops}
        if is_caught(mutant, rows, kernels, table, tests, checks):
            count += 1
        elif _equivalence_reason(mutant) is not None:
            equivalent.append(mutant)
        else:
            survived.append(mutant)
    return Outcome(count, survived, equivalent)


def _mutants_of(found: FunctionsWithOps) -> Iterator[Mutant]:
    apart = {function.__code__.co_qualname for function in found}
    for function, ops in found.items():
        yield from mutants(function, ops, apart)


def verified_samples(
    found: FunctionsWithOps, kernels: Kernels | None, table: Table
) -> dict[str, list[Sample]]:
    """The samples of ops, which pass before any mutation."""
    samples = {}
    for op in {op.name: op for ops in found.values() for op in ops}.values():
        assert op.samples_rule is not None
        samples[op.name] = list(op.samples_rule())
        with table.context(), use_kernels(kernels), np.errstate(all="ignore"):
            if any(_fails(op, s, table) for s in samples[op.name]):
                raise SystemExit(f"a sample of {op.name} fails without any mutation")
    return samples


def _equivalence_reason(mutant: Mutant) -> str | None:
    """Why the mutant is equivalent to the original, or None."""
    for where, change, why in EQUIVALENT:
        if re.fullmatch(where, mutant.qualified_name) and re.fullmatch(
            change, mutant.change
        ):
            return why
    return None


# -- mutants that are listed as equivalent ---------------------------------------------


def refute(name: str, equivalent: Sequence[Mutant]) -> int:
    """Print each equivalent mutant with a call that shows that it is not, or the number
    of calls with equal results; return how many are refuted."""
    table = TABLES.get(name, _NO_TABLE)
    kernels = table.kernels if name in TABLES else None
    known: dict[str, list[tuple[Call, Any]]] = {}
    refuted = 0
    for mutant in equivalent:
        calls = []
        for op in mutant.ops:
            if op.name not in known:
                assert op.samples_rule is not None
                varied = varied_calls(op, list(op.samples_rule()))
                known[op.name] = [(c, _results(c, kernels, table)) for c in varied]
            calls += known[op.name]
        wanted = {id(call): results for call, results in calls}
        with apply_mutant(mutant):
            found, compared = counterexample(
                (call for call, _ in calls),
                lambda call, wanted=wanted: wanted[id(call)],  # type: ignore[misc]
                lambda call: _results(call, kernels, table),
            )
        refuted += found is not None
        text = f"{compared} calls are equal" if found is None else f"REFUTED by {found}"
        print(f"{mutant}: {text}; {_equivalence_reason(mutant)}")
    return refuted


def _results(call: Call, kernels: Any, table: Table) -> Any:
    """The results of a call; None for an error."""
    args = [table.to_array(copy.deepcopy(each)) for each in call.args]
    try:
        with (
            _strict(max(table.seconds, 5.0)), table.context(), use_kernels(kernels)
        ):  # fmt: skip
            warnings.simplefilter("ignore")
            results = call.op.run(*call.op.bind(args, call.attrs))
    except _TookTooLong:
        return None
    except Exception:  # noqa: BLE001  it refuses the call
        return None
    return list(results) if call.op.form.many else [results]


def document(table: str, outcome: Outcome) -> None:
    """Write the row of a table in docs/std.md."""
    page = ROOT / "docs/std.md"
    caught, survived, waived = outcome.caught, *map(len, outcome[1:])
    total = caught + survived + waived
    row = (
        f"| {table} | {total:,} | {outcome.share:.1%} | {survived} | {waived} "
        f"| {waived / total:.1%} |"
    )
    text, count = re.subn(
        rf"^\| {table} \| [\d,]+ \|.*$",
        row,
        page.read_text(encoding="utf-8"),
        flags=re.MULTILINE,
    )
    if count != 1:
        raise SystemExit(f"{page} has {count} rows of {table}, expected 1")
    page.write_text(text, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("op", nargs="*", help="only the kernels of these ops")
    parser.add_argument("--every", type=int, default=1, help="one mutant in N")
    parser.add_argument(
        "--equivalent", action="store_true", help="list equivalent mutants"
    )
    parser.add_argument(
        "--table",
        choices=(*DEFINITIONS, *TABLES),
        default="primitives",
        help="what to mutate: definitions of ops, or a kernel table",
    )
    parser.add_argument("--module", help="mutate a module")
    parser.add_argument("--tests", nargs="+", default=[], help="tests to run as well")
    parser.add_argument(
        "--refute", action="store_true", help="compare them with the original"
    )
    parser.add_argument(
        "--document", action="store_true", help="write the table's row in docs/std.md"
    )
    args = parser.parse_args()
    outcome = run_mutants(
        args.table, args.op, args.every, args.module, args.tests, args.refute
    )
    for mutant in outcome.survived:
        file = Path(inspect.getfile(mutant.function)).name
        ops = ", ".join(op.name for op in mutant.ops[:4])
        print(f"{file}:{mutant.line}: {mutant.qualified_name}: {mutant.change} [{ops}]")
    for mutant in outcome.equivalent if args.equivalent else ():
        print(f"{mutant}: {_equivalence_reason(mutant)}")
    refuted = refute(args.table, outcome.equivalent) if args.refute else 0
    total = outcome.caught + len(outcome.survived)
    print(
        f"{outcome.caught} of {total} mutants caught ({outcome.share:.1%}); "
        f"{len(outcome.equivalent)} more are equivalent to the original"
    )
    if args.document:
        document(args.table, outcome)
    too_few = outcome.share < LEAST[args.table] and not args.refute
    return int(too_few or refuted > 0)


if __name__ == "__main__":
    sys.exit(main())
