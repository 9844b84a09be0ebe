"""Rules have samples that run on both sides with equal results, and in reverse.

The samples are those of the hub set's ops, whose oracles are loops over Python's
numbers. Each is a graph that is brought to ONNX, run by ONNX's own reference or by
ONNX Runtime, and brought back. Cases of the ONNX project, which the tests of the suite
compare, are the samples of the other direction.
"""

from __future__ import annotations

import warnings
from collections import Counter
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
from amanda_onnx.scoreboard import cases
from amanda_std import ops, trace
from amanda_std.arrays import array_type
from amanda_std.ops import OPS
from amanda_std.samples import Sample, difference

STD = "amanda/std/1"
OPSETS = (26, 17, 12, 7)
EACH, FEW = 8, 4
"""Samples of an op that are run where all rules are looked at, and where a few do."""

WORDS = ("same_upper", "same_lower", "valid")

# Ops whose samples nobody compares here, and why.
OTHERWISE = {
    "affine_grid": "the reference answers in float32 whatever it is given",
    "batch_norm": "the reference of old opsets updates what it was given",
    "decode_image": "decoders of lossy images differ by a step",
    "dynamic_quantize": "the reference rounds ties otherwise",
    "gru": "the reference has one direction, and no lengths",
    "lstm": "the reference has one direction, and no lengths",
    "rnn": "the reference has one direction, and no lengths",
    "lp_norm": "the reference takes no absolute values",
    "max_pool_with_indices": "the reference counts places in another order",
    "optional": "what is in it comes out of the reference as a list",
    "quantized_matmul": "the reference rounds ties otherwise",
    "roi_align": "the reference computes in float32",
    "saturating_cast": "what is out of range is for ONNX to choose",
    "sequence_insert": "the reference gives back a list of another kind",
    "std": "its samples say one thing of the shape, and its rule another",
    "string_concat": "texts come out of the reference as another kind of array",
    "string_from_number": "texts come out of the reference as another kind of array",
    "string_normalize": "texts come out of the reference as another kind of array",
    "string_to_number": "texts come out of the reference as another kind of array",
    "astype": "complex numbers have no casts",
}

# Rows that no sample takes outward with an answer to compare, by their right sides.
WITHOUT = {
    "arange": "std's own samples tell dims, which become another op before",
    "blackman_window": "its samples differ from the reference in the last digits",
    "hann_window": "its samples differ from the reference in the last digits",
    "hamming_window": "its samples differ from the reference in the last digits",
    "broadcast_to": "a pattern of what reading makes",
    "slice": "a pattern of what reading makes",
    "pad": "a pattern of what reading makes",
    "topk": "a pattern of what reading makes",
    "add": "a pattern of what reading makes",
    "linear": "an exporter's op: tests of models have it",
    "remainder": "for opset 28, which nothing runs yet",
    "space_to_depth": "for opset 28, which nothing runs yet",
    "swiglu": "for opset 28, which nothing runs yet",
    "causal_conv": "for opset 27, which nothing runs yet",
    "scatter_elements": "for opset 9 and 10",
    "grid_sample": "the reference has no cubic of opset 16",
    "sequence_length": "the samples are sequences, which no graph takes",
    "concat_from_sequence": "the samples are sequences, which no graph takes",
    "sequence_map": "the samples are sequences, which no graph takes",
}


class Ran(NamedTuple):
    """What ran: rules that fired with equal results, and what differed."""

    out: Counter[str]
    back: Counter[str]
    wrong: dict[str, str]
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


RUNTIME = {"softmax", "log_softmax", "lrn", "global_lp_pool", "roi_pool", "max_pool"}
"""Ops that the reference lacks, or has in their newest meaning only."""


def answers(name, graph, arrays):
    """What the reference and the runtime make of it, as far as they can run it."""
    model = onnx.load_from_string(Format().dumps(graph))
    feeds = {p.name: a for p, a in zip(graph.parameters, arrays, strict=True)}
    with suppress(Exception):  # it lacks ops and element types
        yield ReferenceEvaluator(model).run(None, feeds)
    if name not in RUNTIME:
        return
    runtime = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    with suppress(Exception):  # and so does the runtime
        session = runtime.InferenceSession(model.SerializeToString(), options)
        yield session.run(None, feeds)


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


def samples(each):
    for name, op in OPS.items():
        if name not in OTHERWISE and not name.startswith("random_"):
            yield from ((op, sample) for sample, _ in zip(
                op.samples_rule(), range(each), strict=False))  # fmt: skip
    yield from own()


@pytest.fixture(scope="module")
def ran():
    return runs(EACH, OPSETS)


def runs(each, opsets):
    made = Ran(Counter(), Counter(), {}, 0)
    compared = 0
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for op, sample in samples(each):
            try:
                graph, arrays = traced(op, sample)
            except AmandaError:
                continue  # its arguments are no arrays: no graph takes them
            for opset in opsets:
                compared += one(made, op, sample, graph, arrays, opset)
    return made._replace(compared=compared)


def one(made, op, sample, graph, arrays, opset):
    """One sample in one opset; whether something was compared."""
    done = MAPPING.conversion(graph, f"amanda/onnx/{opset}")
    if done.report.gaps:
        return False
    want = sample.expected if isinstance(sample.expected, list) else [sample.expected]
    whys = [
        difference(got, want, sample.tolerance) and difference(got, want, 1e-5)
        for got in answers(op.name, done.graph, arrays)
    ]
    if not whys:
        return False
    if all(whys):
        made.wrong[f"{op.name}@{opset}"] = f"{whys[0]} by {[*done.report.rules]}"
        return True
    made.out.update(done.report.rules)
    again = MAPPING.conversion(done.graph, STD)
    assert not again.report.gaps, (op.name, opset, again.report.gaps)
    feeds = {p.name: a for p, a in zip(again.graph.parameters, arrays, strict=True)}
    got = list(amanda.run(again.graph, feeds, backend="numpy").values())
    why = difference(got, want, sample.tolerance) and difference(got, want, 1e-5)
    if why:
        made.wrong[f"{op.name}@{opset}, back"] = f"{why} by {[*again.report.rules]}"
    else:
        made.back.update(again.report.rules)
    return True


def test_a_few_samples_give_the_same_on_both_sides():
    """Of each op, in the newest opset and an old one; all of them take a minute."""
    ran = runs(FEW, OPSETS[::3])
    assert ran.wrong == {}
    assert ran.compared > 400
    assert len(ran.out) > 200


@pytest.mark.scale
def test_samples_give_the_same_on_both_sides(ran):
    assert ran.wrong == {}
    assert ran.compared > 2000


@pytest.mark.scale
def test_rows_outward_have_samples(ran):
    rows = [row for row in MAPPING.rules.rows if row.runs(False)]
    without = {row.right.type for row in rows if row.id not in ran.out}
    drawn = {name for name in without if name.startswith("random_")}
    assert without - drawn <= set(WITHOUT) | set(OTHERWISE)
    assert sum(row.id in ran.out for row in rows) > 0.8 * len(rows)


@pytest.mark.scale
def test_rules_inward_have_samples(ran):
    """What came back, and what cases of the ONNX project are read by."""
    fired = Counter(ran.back)
    for _, case in cases(["node"]):
        try:
            done = MAPPING.conversion(amanda.load(case.model), STD)
        except AmandaError:
            continue  # told by the tests of the suite
        if not done.report.gaps:
            fired.update(done.report.rules)
    rows = [row for row in MAPPING.rules.rows if row.runs(True)]
    without = {row.right.type for row in rows if row.id not in fired}
    assert without <= set(WITHOUT)
    assert sum(row.id in fired for row in rows) > 0.95 * len(rows)
    calls = {f.id for f in MAPPING.rules.functions if f.forward}
    assert len(calls & set(fired)) > 0.6 * len(calls), sorted(calls - set(fired))
