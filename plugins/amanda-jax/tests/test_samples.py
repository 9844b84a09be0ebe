"""Every sample of every op of the hub set, through this backend.

Each passes against the value that the sample expects, or its op is declined with a
reason. Samples of an op share a program, and of many of them some are taken; `-m scale`
takes each, in a program of its own. Of ops with the same rule for shapes some are tried
with unknown sizes; `-m scale` tries the others.
`python test_samples.py [told|open|fed]` prints the counts.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import pytest

import amanda
from amanda.errors import BackendError
from amanda.graph import Graph
from amanda.types import DType, SequenceType, Sym, TensorType, TupleType, Type
from amanda_jax.backend import JaxBackend
from amanda_jax.kernels import UNSUPPORTED
from amanda_std import Operation, trace
from amanda_std.backends import Sample, join_types
from amanda_std.ops import OPS

LOOSE = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-5, "float64": 1e-6,
         "complex64": 2e-5, "complex128": 1e-6}  # fmt: skip


PER_PROGRAM = 8
"""Samples of an op that are compiled together, in half the time of one by one."""
OF_A_RULE = 6
"""Ops with the same rule for shapes that are tried with unknown sizes by default."""


def graph_of(
    operation: Operation, samples: Sequence[Sample], way: str = "told"
) -> tuple[Graph, list[np.ndarray]]:
    """The op as a graph that is fed every tensor of the samples, in order.

    It has an op for each sample. `way` says what the graph knows: the shapes that are
    "told", "open" ones, or that host arguments are "fed" too."""
    rows = [_is_fed(operation, sample, way) for sample in samples]
    fed = [
        _fed(a, role)
        for sample, roles in zip(samples, rows, strict=True)
        for a, role in zip(sample.args, roles, strict=True)
        if role
    ]

    def function(*values):
        rest, results = iter(values), []
        for sample, roles in zip(samples, rows, strict=True):
            pairs = zip(sample.args, roles, strict=True)
            args = [next(rest) if role else a for a, role in pairs]
            result = operation(*args, **sample.attrs)
            results += result if isinstance(result, list | tuple) else [result]
        return results

    return trace(function, [_type(a, way) for a in fed]), fed


def _is_fed(operation: Operation, sample: Sample, way: str) -> list[str]:
    """The role of each argument that is fed, and "" for the others."""
    params = operation.form.params_of(len(sample.args))
    roles = ("tensor", "value", "host") if way == "fed" else ("tensor", "value")
    return [
        p.kind.role if p.kind.role in roles and a is not None else ""
        for p, a in zip(params, sample.args, strict=True)
    ]


def _fed(value: Any, role: str) -> Any:
    """An argument of a sample as it is fed; what is in a sequence or a tuple, too."""
    if role == "value" and isinstance(value, list | tuple):
        return type(value)(_fed(each, role) for each in value)
    return np.asarray(value, None if np.size(value) else getattr(value, "dtype", int))


def _type(value: Any, way: str) -> Type:
    if isinstance(value, list):
        return SequenceType(join_types(_type(v, way) for v in value))
    if isinstance(value, tuple):
        return TupleType(_type(v, way) for v in value)
    dims = [Sym.unknown() if way == "open" else n for n in value.shape]
    return TensorType(DType.of(value), dims)


def expected_of(sample: Sample) -> list[Any]:
    """The results: a list is one of them, what is in it are sequences and tuples."""
    return sample.expected if isinstance(sample.expected, list) else [sample.expected]


OTHERS = "it is about texts, keys or variables"


def is_of_numbers(operation: Operation, sample: Sample) -> bool:
    """Whether all that goes in and comes out is what XLA has."""
    params = operation.form.params_of(len(sample.args))
    rows = zip(params, sample.args, strict=True)
    given = [a for p, a in rows if a is not None and p.kind.role in ("tensor", "value")]
    return all(map(is_number, (*given, *expected_of(sample))))


def is_number(value: object) -> bool:
    """Whether it is numbers, or nothing, or holds them."""
    if value is None or isinstance(value, bool | int | float | complex):
        return True
    if isinstance(value, list | tuple):
        return all(map(is_number, value))
    return isinstance(value, np.ndarray | np.generic) and value.dtype.kind not in "OTSU"


def check(operation: Operation, samples: Sequence[Sample], way: str = "told") -> str:
    """'passed', or the reason why the op is not taken. The samples are one program."""
    graph, fed = graph_of(operation, samples, way)
    backend = JaxBackend()
    for op in graph.walk():
        if op.type in OPS and (reason := backend.takes(op)) is not True:
            return reason
    results = list(amanda.compile(graph, "jax")(fed).values())
    wanted = [(each, s) for s in samples for each in expected_of(s)]
    for got, (each, sample) in zip(results, wanted, strict=True):
        try:
            expect_alike(got, each, sample.tolerance or 0)
        except AssertionError as error:
            error.add_note(f"{operation.name} of {sample.args}, {sample.attrs}")
            raise
    return "passed"


def outcomes(
    operation: Operation, samples: Iterable[Sample], most: int, way: str = "told"
) -> set[str]:
    """What `check` returns for samples of numbers, so many in a program at most."""
    if operation.name in UNSUPPORTED:
        most = 1  # each is declined
    rest = iter([s for s in samples if is_of_numbers(operation, s)])
    programs = iter(lambda: list(islice(rest, most)), [])
    return {check(operation, program, way) for program in programs}


def expect_alike(got: Any, wanted: Any, loose: float) -> None:
    if wanted is None or isinstance(wanted, list | tuple):
        assert type(got) is type(wanted)
        for one, other in zip(got or (), wanted or (), strict=True):
            expect_alike(one, other, loose)
        return
    wanted = np.asarray(wanted)
    assert isinstance(got, np.ndarray)
    assert got.dtype == wanted.dtype
    assert got.shape == wanted.shape
    if wanted.dtype.kind in "fcV":
        loose = max(loose, LOOSE.get(DType.of(wanted.dtype).name, 0))
        wide = "complex128" if wanted.dtype.kind == "c" else "float64"
        got, wanted = got.astype(wide), wanted.astype(wide)
    np.testing.assert_allclose(got, wanted, rtol=loose, atol=loose)


def samples_of(name: str) -> Iterator[Sample]:
    rule = OPS[name].samples_rule
    return iter(()) if rule is None else iter(rule())


def spread(samples: Sequence[Sample], most: int) -> list[Sample]:
    """So many samples at most, at equal distances."""
    count = min(most, len(samples))
    return [samples[i * len(samples) // count] for i in range(count)]


@pytest.mark.parametrize("name", OPS)
def test_samples(name):
    numbers = [s for s in samples_of(name) if is_of_numbers(OPS[name], s)]
    chosen = spread(numbers, PER_PROGRAM)
    found = outcomes(OPS[name], chosen, PER_PROGRAM)
    assert found <= {UNSUPPORTED.get(name, "passed")}


@pytest.mark.scale
@pytest.mark.parametrize("name", OPS)
def test_samples_as_programs_of_their_own(name):
    found = outcomes(OPS[name], samples_of(name), 1)
    assert found <= {UNSUPPORTED.get(name, "passed")}


def ways(name: str) -> list[str]:
    """What a graph may not know of an op."""
    params = OPS[name].form.params
    return ["open", "fed"] if any(p.kind.role == "host" for p in params) else ["open"]


def names_and_ways() -> Iterator[Any]:
    """Parameters: an op, and a way. Ops that repeat a rule for shapes are for scale."""
    met: Counter[object] = Counter()
    for name, operation in OPS.items():
        rule = operation.shape_rule
        met[rule and rule.function] += 1
        is_repeated = rule is not None and met[rule.function] > OF_A_RULE
        marks = [pytest.mark.scale] if is_repeated else []
        for way in ways(name):
            yield pytest.param(name, way, marks=marks)


@pytest.mark.parametrize(("name", "way"), [*names_and_ways()])
def test_samples_of_which_the_graph_knows_less(name, way):
    found = outcomes(OPS[name], islice(samples_of(name), 3), PER_PROGRAM, way)
    assert found <= {UNSUPPORTED.get(name, "passed")}


def test_declined_ops_are_told_with_their_reason():
    graph, _ = graph_of(OPS["dawsn"], [next(samples_of("dawsn"))])
    with pytest.raises(BackendError, match="have the special function dawsn"):
        amanda.compile(graph, "jax")


def test_most_samples_are_of_numbers():
    every = [(o, s) for name, o in OPS.items() for s in islice(samples_of(name), 3)]
    assert sum(is_of_numbers(*each) for each in every) > 0.85 * len(every)


def main() -> None:
    way = sys.argv[1] if len(sys.argv) > 1 else "told"
    counts: Counter[str] = Counter()
    for name in OPS:
        for sample in samples_of(name):
            try:
                outcome = OTHERS
                if is_of_numbers(OPS[name], sample):
                    outcome = check(OPS[name], [sample], way)
            except Exception as error:  # noqa: BLE001  it is what is counted
                outcome = "failed"
                text = str(error).strip().replace("\n", " ")[:200]
                print(name, [getattr(a, "dtype", a) for a in sample.args],
                      [np.shape(a) if not callable(a) else 0 for a in sample.args],
                      sample.attrs, type(error).__name__, text)  # fmt: skip
            counts[outcome] += 1
    print(f"{len(OPS)} ops, {counts.total()} samples")
    for outcome, number in counts.most_common():
        print(f"{number:6}  {outcome}")


if __name__ == "__main__":
    main()
