"""Every op of the hub set as primitives of JAX, and as StableHLO, held to its samples.

`python test_lowered.py` prints the counts.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from itertools import islice

import numpy as np
import pytest

import amanda
from amanda.errors import AmandaError, ConversionError, UsageError
from amanda.graph import Graph
from amanda.types import DType, TensorType, parse_type
from amanda_jax.backend import JaxBackend
from amanda_std import ops, trace
from amanda_std.operation import Operation
from amanda_std.ops import OPS
from amanda_std.reading import is_std
from amanda_std.samples import Sample

LOOSE = {2: 3e-2, 4: 2e-5, 8: 1e-6, 16: 1e-6, 1: 0.2}


def samples_of(operation: Operation) -> Iterator[Sample]:
    """Its samples about tensors of numbers, which the backend `jax` takes."""
    rule = operation.samples_rule
    for sample in () if rule is None else rule():
        many = isinstance(sample.expected, list | tuple) and operation.form.many
        wanted = list(sample.expected) if many else [sample.expected]
        params = operation.form.each(len(sample.args))
        rows = zip(params, sample.args, strict=True)
        given = [a for p, a in rows if a is not None and p.role in ("tensor", "value")]
        if all(map(is_of_numbers, (*given, *wanted))):
            yield sample


def is_of_numbers(value: object) -> bool:
    if isinstance(value, bool | int | float | complex):
        return True
    return isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biufcV"


def graph_of(operation: Operation, sample: Sample) -> tuple[Graph, list[np.ndarray]]:
    params = operation.form.each(len(sample.args))
    is_fed = [
        p.role == "tensor" and a is not None
        for p, a in zip(params, sample.args, strict=True)
    ]
    rows = [*zip(sample.args, is_fed, strict=True)]
    fed = [np.asarray(a) for a, yes in rows if yes]

    def function(*values):
        rest = iter(values)
        return operation(*(next(rest) if f else a for a, f in rows), **sample.attrs)

    return trace(function, [TensorType(DType.of(a), a.shape) for a in fed]), fed


def expect(graph: Graph, fed, sample: Sample, backend: str) -> None:
    made = amanda.run(graph, fed, backend=backend).values()
    many = isinstance(sample.expected, list | tuple)
    wanted = list(sample.expected) if many else [sample.expected]
    for got, want in zip(made, map(np.asarray, wanted), strict=True):
        assert got.dtype == want.dtype
        assert got.shape == want.shape
        part = want.dtype.itemsize // (2 if want.dtype.kind == "c" else 1)
        loose = max(
            sample.tolerance or 0, LOOSE[part] if want.dtype.kind in "fcV" else 0
        )
        wide = [x.astype("complex128") for x in (got, want)]
        np.testing.assert_allclose(*wide, rtol=loose, atol=loose)


def outcome(operation: Operation, sample: Sample, to: str) -> str:
    graph, fed = graph_of(operation, sample)
    takes = JaxBackend().takes
    if any(takes(op) is not True for op in graph.walk() if is_std(op)):
        return "not taken"
    try:
        made = amanda.convert(graph, to)
    except UsageError:
        return "no program"
    if to == "stablehlo":
        expect(made, fed, sample, "stablehlo")
        return "right"
    try:
        back = amanda.convert(made, "std")
    except ConversionError:
        return "no way back"
    expect(back, fed, sample, "numpy")
    return "right"


REFUSED = ("nonzero", "unique", "compress", "nms", "soft_nms", "print", "probe",
           "assert", "host_callback", "range", "loop", "ctc_loss",
           "grouped_attention", "optional")  # fmt: skip
"""Ops that are no program, at least in a sample: data decides their sizes, or how many
rounds are stacked, they do more than compute, or their result is no array."""


@pytest.mark.parametrize("to", ["jax", "stablehlo"])
@pytest.mark.parametrize("name", OPS)
def test_a_sample(name, to):
    for sample in islice(samples_of(OPS[name]), 1):
        found = outcome(OPS[name], sample, to)
        assert found != "no program" or name in REFUSED


def test_weights_and_names_are_kept():
    weight = np.sin(np.arange(60, dtype="float32")).reshape(3, 20)
    graph = trace(
        lambda rows: {"y": ops.softmax(ops.matmul(rows, weight))},
        [parse_type("float32[2, 3]")],
        names=["rows"],
    )
    for to in ("jax", "stablehlo"):
        made = amanda.convert(graph, to)
        assert [p.name for p in made.parameters] == ["rows"]
        assert [p.name for p in made.outputs] == ["y"]
        held = [op.attrs["value"] for op in made if op.type == "constant"]
        assert any(t.shape == (3, 20) and (t.numpy() == weight).all() for t in held)
        assert amanda.namespace(made.namespace).validate(made) == []


def test_primitives_of_jax_have_sizes():
    graph = trace(ops.tanh, [parse_type("float32[n]")], names=["x"])
    with pytest.raises(ConversionError, match="for sizes that are known"):
        amanda.convert(graph, "jax")


def main() -> None:
    for to in ("jax", "stablehlo"):
        counts: Counter[str] = Counter()
        for name, operation in OPS.items():
            for sample in samples_of(operation):
                try:
                    found = outcome(operation, sample, to)
                except (AmandaError, AssertionError) as error:
                    found = "wrong"
                    print(to, name, str(error).strip()[:120].replace("\n", " "))
                counts[found] += 1
        print(to, counts)


if __name__ == "__main__":
    sys.exit(main())
