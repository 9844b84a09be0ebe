"""Rules have samples that run on both sides with equal results, and in reverse.

The samples are those of the hub set's ops, whose oracles are loops over Python's
numbers. Each is a graph that is brought to ONNX, run by ONNX's own reference or by
ONNX Runtime, and brought back. `test_rule_proofs` has the samples of the other
direction, and counts which rules all of them prove.
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from typing import NamedTuple

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import amanda
from amanda.errors import AmandaError
from amanda.types import TensorType
from amanda_onnx.format import Format
from amanda_onnx.mapping import MAPPING
from amanda_std import ops, trace
from amanda_std.mappings import Sample, array_type, difference
from amanda_std.ops import OPS

STD = "amanda/std/1"
OPSETS = (26, 17, 12, 7)
EACH, FEW = 6, 2
"""Samples of an op that are run where all rules are looked at, and where a few do."""

WORDS = ("same_upper", "same_lower", "valid")

OTHERWISE = {
    "affine_grid": "the reference answers in float32 whatever it is given",
    "decode_image": "one channel comes without its axis; lossy images differ by a step",
    "gru": "the reference has one direction, and no lengths",
    "lp_norm": "the reference takes no absolute values",
    "lstm": "the reference has one direction, and no lengths",
    "quantized_matmul": "the reference rounds ties otherwise",
    "rnn": "the reference has one direction, and no lengths",
    "string_from_number": "it writes nan and inf, and onnxruntime writes -3 for -3.0",
    "string_to_number": "every text is true to the reference",
}
"""Ops of which some sample has another answer there, from whoever answers at all."""

ENDS_THE_PROCESS = {"scan": "onnxruntime divides by an empty axis"}
"""Ops that onnxruntime is not asked for."""


class Ran(NamedTuple):
    """What ran: rules that fired with equal results, by the type of op that they took;
    what differed, and the ops of which it is told why."""

    out: set[tuple[str, str]]
    back: set[tuple[str, str]]
    wrong: dict[str, str]
    otherwise: set[str]
    compared: int


def is_tensor(value):
    return hasattr(value, "shape")


def traced(op, sample):
    """A graph of one op, and the arrays that go into it."""
    at = [i for i, a in enumerate(sample.args) if is_tensor(a)]

    def call(*values):
        args = list(sample.args)
        for i, value in zip(at, values, strict=True):
            args[i] = value
        return op(*args, **sample.attrs)

    arrays = [np.asarray(sample.args[i]) for i in at]
    types = [TensorType(array_type(a).dtype, a.shape) for a in arrays]
    graph = trace(call, types, names=[f"in{i}" for i in range(len(at))])
    for i, port in enumerate(graph.outputs):
        port.name = f"out{i}"
    return graph, arrays


def answers(name, graph, arrays):
    """What the reference and onnxruntime make of it, as far as they can run it."""
    model = onnx.load_from_string(Format().dumps(graph))
    feeds = {p.name: a for p, a in zip(graph.parameters, arrays, strict=True)}
    with suppress(Exception):  # it lacks ops and element types
        yield ReferenceEvaluator(model).run(None, feeds)
    if name in ENDS_THE_PROCESS:
        return
    runtime = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    with suppress(Exception):  # and so does the runtime
        session = runtime.InferenceSession(model.SerializeToString(), options)
        yield session.run(None, feeds)


def plain(values):
    """Texts are of one kind here, as long as they are."""
    return [
        v.astype(object) if hasattr(v, "dtype") and v.dtype.kind == "U" else v
        for v in values
    ]


def own():
    """Samples that the hub set has not: paddings in words, poolings of all."""
    x = np.sin(np.arange(70, dtype="float32")).reshape(1, 2, 5, 7)
    w = np.cos(np.arange(36, dtype="float32")).reshape(2, 2, 3, 3)
    calls = [(ops.lrn, (x,), {"size": 3}), (ops.global_lp_pool, (x,), {"p": 2.0})]
    for word in WORDS:
        calls.append((ops.conv, (x, w), {"padding": word}))
        for pool in (ops.max_pool, ops.avg_pool, ops.lp_pool):
            how = {"window": (3, 2), "strides": (2, 2), "padding": word}
            calls.append((pool, (x,), how))
    for op, args, attrs in calls:
        graph, arrays = traced(op, Sample(args, None, attrs))
        feeds = {p.name: a for p, a in zip(graph.parameters, arrays, strict=True)}
        made = list(amanda.run(graph, feeds, backend="numpy").values())
        yield op, Sample(args, made, attrs, tolerance=1e-5)


def samples(each, names=tuple(OPS)):
    for name, op in OPS.items():
        if name not in names:
            continue
        if not name.startswith("random_"):
            yield from ((op, sample) for sample, _ in zip(
                op.samples_rule(), range(each), strict=False))  # fmt: skip
    yield from own()


def runs(each=EACH, opsets=OPSETS, names=tuple(OPS)):
    made = Ran(set(), set(), {}, set(), 0)
    compared = 0
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for op, sample in samples(each, names):
            try:
                graph, arrays = traced(op, sample)
            except AmandaError:
                continue  # its arguments are no arrays: no graph takes them
            for opset in opsets:
                compared += one(made, op, sample, graph, arrays, opset)
    return made._replace(compared=compared)


def differs(got, want, tolerance):
    got = plain(got)
    return difference(got, want, tolerance) and difference(got, want, 1e-5)


def as_pairs(array):
    """A complex array as it is written: real, with a last axis of two elements."""
    if isinstance(array, np.ndarray) and array.dtype.kind == "c":
        return np.stack([array.real, array.imag], -1)
    return array


def proofs(done):
    return {(each.rule, each.op.rpartition(".")[2]) for each in done.report.trace}


def one(made, op, sample, graph, arrays, opset):
    """One sample in one opset; whether something was compared."""
    done = MAPPING.conversion(graph, f"amanda/onnx/{opset}", trace=True)
    if done.report.gaps:
        return False
    want = sample.expected if isinstance(sample.expected, list) else [sample.expected]
    arrays, want = ([as_pairs(a) for a in each] for each in (arrays, want))
    whys = []
    for got in answers(op.name, done.graph, arrays):
        whys.append(differs(got, want, sample.tolerance))
        if not whys[-1]:
            break
    if not whys:
        return False
    if all(whys):
        if op.name in OTHERWISE:
            made.otherwise.add(op.name)
        else:
            made.wrong[f"{op.name}@{opset}"] = f"{whys[0]} by {[*done.report.rules]}"
        return True
    made.out.update(proofs(done))
    again = MAPPING.conversion(done.graph, STD, trace=True)
    assert not again.report.gaps, (op.name, opset, again.report.gaps)
    feeds = {p.name: a for p, a in zip(again.graph.parameters, arrays, strict=True)}
    got = list(amanda.run(again.graph, feeds, backend="numpy").values())
    why = differs(got, want, sample.tolerance)
    if why:
        made.wrong[f"{op.name}@{opset}, back"] = f"{why} by {[*again.report.rules]}"
    else:
        made.back.update(proofs(again))
    return True


@pytest.mark.most_cases(1)
@pytest.mark.parametrize("part", range(4))
def test_a_few_samples_give_the_same_on_both_sides(part):
    """Of each op, in the newest opset and an old one; test_rule_proofs takes more."""
    ran = runs(FEW, OPSETS[::3], [*OPS][part::4])
    assert ran.wrong == {}
    assert ran.compared > 100
    assert len(ran.out) > 60
