"""Every sample of every op of the hub set, through the backend `torch`.

Each passes against the value that the sample expects, which is from an independent
oracle. `python test_samples.py [known|open|fed]` prints the counts.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest

import amanda
from amanda.errors import AmandaError
from amanda.graph import Graph
from amanda.types import DType, SequenceType, Sym, TensorType, TupleType, Type
from amanda_std import Operation, trace
from amanda_std.backends import Sample, join_types
from amanda_std.ops import OPS

pytest.importorskip("torch")

TOLERANCE = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-5, "float64": 1e-6,
             "complex64": 2e-5, "complex128": 1e-6}  # fmt: skip
"""Relative and absolute tolerance by dtype."""
OTHERS = "its values are no numbers"


def graph_of(
    operation: Operation, sample: Sample, way: str
) -> tuple[Graph, list[np.ndarray]]:
    """The op as a graph that is fed every tensor of the sample, in order.

    `way`: the graph has `known` shapes or `open` ones, or shape arguments are `fed`."""
    params = operation.form.params_of(len(sample.args))
    roles = ("tensor", "value", "host") if way == "fed" else ("tensor", "value")
    is_fed = [
        p.kind.role in roles and a is not None
        for p, a in zip(params, sample.args, strict=True)
    ]
    rows = zip(params, sample.args, is_fed, strict=True)
    feeds = [as_feed(a, p.kind.role) for p, a, yes in rows if yes]

    def function(*values):
        rest = iter(values)
        args = [
            next(rest) if yes else a for a, yes in zip(sample.args, is_fed, strict=True)
        ]
        return operation(*args, **sample.attrs)

    return trace(function, [type_of(feed, way) for feed in feeds]), feeds


def as_feed(value: Any, role: str) -> Any:
    if role == "value" and isinstance(value, list | tuple):
        return type(value)(as_feed(each, role) for each in value)
    return np.asarray(value, None if np.size(value) else getattr(value, "dtype", int))


def type_of(value: Any, way: str) -> Type:
    if isinstance(value, list):
        return SequenceType(join_types(type_of(v, way) for v in value))
    if isinstance(value, tuple):
        return TupleType(type_of(v, way) for v in value)
    dims = [Sym.unknown() if way == "open" else n for n in value.shape]
    return TensorType(DType.of(value), dims)


def expected_of(sample: Sample) -> list[Any]:
    return sample.expected if isinstance(sample.expected, list) else [sample.expected]


def is_of_numbers(operation: Operation, sample: Sample) -> bool:
    """Whether all that goes in and comes out is numbers, or holds them."""
    params = operation.form.params_of(len(sample.args))
    rows = zip(params, sample.args, strict=True)
    given = [a for p, a in rows if a is not None and p.kind.role in ("tensor", "value")]
    return all(map(is_number, (*given, *expected_of(sample))))


def is_number(value: object) -> bool:
    if value is None or isinstance(value, bool | int | float | complex):
        return True
    if isinstance(value, list | tuple):
        return all(map(is_number, value))
    return isinstance(value, np.ndarray | np.generic) and value.dtype.kind not in "OTSU"


def check(operation: Operation, sample: Sample, way: str = "known") -> str:
    if not is_of_numbers(operation, sample):
        return OTHERS
    graph, feeds = graph_of(operation, sample, way)
    results = list(amanda.compile(graph, "torch", "cpu")(feeds).values())
    for got, wanted in zip(results, expected_of(sample), strict=True):
        expect_close(got, wanted, sample.tolerance or 0)
    return "passed"


def expect_close(got: Any, wanted: Any, tolerance: float) -> None:
    if wanted is None or isinstance(wanted, list | tuple):
        assert type(got) is type(wanted)
        for one, other in zip(got or (), wanted or (), strict=True):
            expect_close(one, other, tolerance)
        return
    wanted = np.asarray(wanted)
    assert isinstance(got, np.ndarray)
    assert got.dtype == wanted.dtype
    assert got.shape == wanted.shape
    if wanted.dtype.kind in "fcV":
        tolerance = max(tolerance, TOLERANCE.get(DType.of(wanted.dtype).name, 0))
        wide = "complex128" if wanted.dtype.kind == "c" else "float64"
        got, wanted = got.astype(wide), wanted.astype(wide)
    np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)


def samples_of(name: str) -> Iterator[Sample]:
    rule = OPS[name].samples_rule
    return iter(()) if rule is None else iter(rule())


@pytest.mark.parametrize("name", OPS)
def test_samples(name):
    assert {check(OPS[name], each) for each in samples_of(name)} <= {"passed", OTHERS}


@pytest.mark.parametrize("way", ["open", "fed"])
def test_samples_of_which_the_graph_has_less(way):
    counts, failures = outcomes(way, 1)
    assert failures == []
    assert counts["passed"] > 350


def outcomes(way: str, most: int | None = None) -> tuple[Counter[str], list[str]]:
    """The counts of outcomes, and a line for each failure."""
    counts: Counter[str] = Counter()
    lines = []
    for name, operation in OPS.items():
        for sample in islice(samples_of(name), most):
            try:
                counts[check(operation, sample, way)] += 1
            except (AmandaError, AssertionError) as error:
                counts["failed"] += 1
                text = " ".join(str(error).split())[:300]
                dtypes = [str(getattr(a, "dtype", a))[:40] for a in sample.args]
                lines.append(f"{name} {dtypes} {sample.attrs}: {text}")
    return counts, lines


if __name__ == "__main__":
    found, failures = outcomes(sys.argv[1] if len(sys.argv) > 1 else "known")
    print(*failures, found, sep="\n")
