"""Every rule that writes ops of other domains, with all samples of its hub op.

In graphs that import all domains; samples in several dtypes, with arguments as inputs
and as constants. onnxruntime runs what is written and results are compared with the
sample's; where it has no kernel, onnx.checker validates the model. A model that
onnxruntime rejects as invalid is an error of the rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice, product
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from amanda.errors import AmandaError
from amanda.graph import CORE, Graph
from amanda.mapping import Decline
from amanda.types import TensorType, VoidType
from amanda_onnx.format import Format
from amanda_onnx.mapping import MAPPING
from amanda_onnx.mapping.classical_ml import write_trees
from amanda_onnx.mapping.contrib import write_contrib
from amanda_onnx.mapping.side import DOMAINS, onnx_side
from amanda_std import ops, trace
from amanda_std.mappings import Sample, array_type, difference
from amanda_std.ops import OPS

runtime = pytest.importorskip("onnxruntime")

OPSETS = (22, 17)
"""The newest one without what com.microsoft has as well, and an old one."""

HALF, ROUGH = 2e-2, 2e-4
"""How far numbers may be off that float16 holds, and others by kernels of float32."""

NOT_BY_KERNELS = {
    "gelu": ("1 or more dimensions",),
    "tree_ensemble": ("'nodes_splits' must have same type as input",),  # of float16
    "multi_head_attention": ("key' and 'value' shall have same shape", "'past_value'"),
}
"""Words of refusals of what the op takes by its description, and no kernel does."""

TRAINING = "preview.training"
"""The domain that onnxruntime has not: the reference of onnx runs it."""

KINDS = (
    ("float16", "float32", "float64"),
    ("int8", "uint8", "int32", "int64"),
)

NO_KERNEL = "NOT_IMPLEMENTED"
"""What onnxruntime says of ops and types that it knows and cannot run."""


def taken_elsewhere() -> list[str]:
    """Ops of the hub set of which a rule makes an op of another domain."""
    found = {*write_contrib.WRITE, *write_trees.WRITE}
    for row in MAPPING.rules.rows:
        if "." in row.left.type and row.runs(False):
            found.add(row.right.type)
    return sorted(found)


class Case(NamedTuple):
    """A graph of one op, what goes into it, and what has to come out."""

    graph: Graph
    feeds: dict[str, Any]
    expected: list[Any]
    tolerance: float | None


def own() -> Iterator[tuple[str, Sample]]:
    """Samples that the hub set has not: of the ranks and sizes that domains ask for."""
    at = np.arange(48, dtype="float32")
    x, skip = np.sin(at).reshape(2, 3, 8), np.cos(at).reshape(2, 3, 8)
    scale, shift = np.float32(1 + at[:8] / 8), np.float32(at[8:16] / 9)
    for centred in (True, False):
        summed = x + skip
        moved = summed - summed.mean(-1, keepdims=True) * centred
        normal = moved / np.sqrt((moved**2).mean(-1, keepdims=True) + 1e-3)
        want = [normal * scale + (shift if centred else 0), summed]
        args = (x, skip, scale, shift) if centred else (x, skip, scale)
        attrs = {"epsilon": 1e-3, "centred": centred}
        yield "skip_layer_norm", Sample(args, want, attrs)
    weight = (np.arange(64) * 7 % 256).astype("uint8").reshape(2, 32)
    scales = np.float32([[0.01, 0.02], [0.03, 0.04]])
    zeros = np.uint8([[100, 120], [128, 140]])
    flat = np.sin(np.arange(96, dtype="float32")).reshape(3, 32)
    numbers = weight.astype("f8") - zeros.repeat(16, 1)
    want = flat @ (numbers * scales.repeat(16, 1)).T
    args = (flat, weight, scales, zeros)
    yield "quantized_linear", Sample(args, np.float32(want), {"block": 16})
    keys, values = np.int64([3, 0, 1]), np.int64([30, 10, 20])
    asked = np.int64([[0, 1], [3, 2]])
    yield "lookup", Sample((asked, keys, values, np.int64(5)),
                           np.int64([[10, 20], [30, 5]]))  # fmt: skip
    q = np.sin(np.arange(32, dtype="float32")).reshape(1, 2, 16)
    seen = np.int32([[1, 1, 0]])
    k, v = (
        np.cos(np.arange(48, dtype="float32") + d).reshape(1, 3, 16) for d in (0, 1)
    )
    heads = [a.reshape(1, -1, 2, 8).transpose(0, 2, 1, 3) for a in (q, k, v)]
    scores = heads[0] @ heads[1].swapaxes(-1, -2) / np.sqrt(8)
    powers = np.exp(scores) * seen[:, None, None]
    mixed = powers / powers.sum(-1, keepdims=True) @ heads[2]
    want = [mixed.transpose(0, 2, 1, 3).reshape(1, 2, 16), *heads[1:]]
    attrs = {"heads": 2, "fill": -1e4}
    yield "multi_head_attention", Sample((q, k, v, None, seen), want, attrs)
    for sample in islice(OPS["tree_ensemble"].samples_rule(), 10):
        *args, says = sample.args  # of which each leaf says one number
        args, want = (*args, says[:, :1]), sample.expected[:, :1]
        yield "tree_ensemble", replace(sample, args=args, expected=want)


def kinds(sample: Sample) -> Iterator[Sample]:
    """The sample, and the same numbers as other floats and other integers."""
    yield sample
    arrays = {i: a for i, a in enumerate(sample.args) if hasattr(a, "astype")}
    for group in KINDS:
        for dtype in group:
            args = list(sample.args)
            for i, a in arrays.items():
                if str(a.dtype) in group and is_held(a, dtype):
                    args[i] = a.astype(dtype)
            if any(args[i].dtype != a.dtype for i, a in arrays.items()):
                yield replace(sample, args=tuple(args))


def is_held(array: Any, dtype: str) -> bool:
    """Does a type have these numbers: integers as they are, floats if not too large?"""
    if "float" not in dtype:
        return np.array_equal(array.astype(dtype), array)
    largest = np.abs(array, where=np.isfinite(array), out=np.zeros_like(array))
    return bool(largest.max(initial=0) <= np.finfo(dtype).max)


def cases(name: str, sample: Sample) -> Iterator[Case]:
    """With all tensors as inputs, with the first one, and with all but that."""
    tensors = [i for i, a in enumerate(sample.args) if hasattr(a, "shape")]
    for at in {tuple(tensors), tuple(tensors[:1]), tuple(tensors[1:])} - {()}:
        try:
            yield traced(name, sample, at)
        except AmandaError:
            continue  # the hub set has no such op


def traced(name: str, sample: Sample, at: tuple[int, ...]) -> Case:
    def call(*values: Any) -> Any:
        args = list(sample.args)
        for i, value in zip(at, values, strict=True):
            args[i] = value
        return OPS[name](*args, **sample.attrs)

    arrays = [np.asarray(sample.args[i]) for i in at]
    types = [TensorType(array_type(a).dtype, a.shape) for a in arrays]
    graph = trace(call, types, names=[f"in{i}" for i in at])
    graph.imports.update(DOMAINS)
    for i, port in enumerate(graph.outputs):
        port.name = f"out{i}"
    feeds = {p.name: a for p, a in zip(graph.parameters, arrays, strict=True)}
    want = sample.expected if isinstance(sample.expected, list) else [sample.expected]
    return Case(graph, feeds, want, sample.tolerance)


def ran(case: Case, made: Graph) -> list[Any] | str:
    """What is answered, or what is said against the graph."""
    model = onnx.load_from_string(Format().dumps(made))
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    try:
        if any(TRAINING in (op.own_namespace or "") for op in made.walk()):
            onnx.checker.check_model(model, full_check=True)
            return list(ReferenceEvaluator(model).run(None, case.feeds))
        session = runtime.InferenceSession(model.SerializeToString(), options)
        return list(session.run(None, case.feeds))
    except Exception as why:  # noqa: BLE001  its errors have no common base
        said = f"{type(why).__name__}: {why}"
    if NO_KERNEL not in said:
        return f"refused: {said}"
    onnx.checker.check_model(model)
    return NO_KERNEL


def wrong(case: Case, got: list[Any]) -> str | None:
    """How an answer differs from the numbers that are expected of any element type."""
    arrays = [a for a in (*got, *case.feeds.values()) if hasattr(a, "dtype")]
    half = any(str(a.dtype) == "float16" for a in arrays)
    loose = HALF if half else max(case.tolerance or 0, ROUGH)
    for i, (one, want) in enumerate(zip(got, case.expected, strict=True)):
        if hasattr(one, "dtype") and one.dtype.kind in "fiu":
            want = np.asarray(want).astype(one.dtype)
        why = difference([in_order(one)], [in_order(want)], loose)
        if why:
            return f"result {i}: {why}"
    return None


def in_order(value: Any) -> Any:
    """Maps by their keys, which are in no order to ONNX, and with Python's numbers, for
    onnxruntime has no others; texts of one kind."""
    if isinstance(value, list):
        return [in_order(each) for each in value]
    if isinstance(value, dict):
        return {
            k: getattr(v, "item", lambda v=v: v)() for k, v in sorted(value.items())
        }
    is_text = hasattr(value, "dtype") and value.dtype.kind == "U"
    return value.astype(object) if is_text else value


class Walked(NamedTuple):
    faults: dict[str, str]
    counts: Counter[str]


def walk(each: int, opsets: tuple[int, ...]) -> Walked:
    found = Walked({}, Counter())
    for name in taken_elsewhere():
        ready = [sample for op, sample in own() if op == name]
        ready += islice(OPS[name].samples_rule(), each)
        for sample in chain.from_iterable(map(kinds, ready)):
            for case, opset in product(cases(name, sample), opsets):
                one(found, name, case, opset)
    return found


def one(found: Walked, name: str, case: Case, opset: int) -> None:
    try:
        done = MAPPING.conversion(case.graph, f"amanda/onnx/{opset}")
    except AmandaError:
        found.counts["told"] += 1
        return
    if done.report.gaps:
        found.counts["told"] += 1
        return
    elsewhere = {
        f"{op.own_namespace}.{op.type}"
        for op in done.graph.walk()
        if op.own_namespace not in (None, CORE)
    }
    if not elsewhere:
        found.counts["of ONNX itself"] += 1
        return
    types = [str(a.type) for a in case.graph.parameters]
    place = f"{name}({', '.join(types)})@{opset} as {', '.join(sorted(elsewhere))}"
    got = ran(case, done.graph)
    why = got if isinstance(got, str) else wrong(case, got)
    if why == NO_KERNEL:
        found.counts["checked"] += 1
        return
    found.counts["run"] += 1
    if why and not any(word in why for word in NOT_BY_KERNELS.get(name, ())):
        found.faults.setdefault(place, why)


def test_a_few_samples_are_taken_by_other_domains_and_mean_the_same():
    found = walk(2, OPSETS[:1])
    assert found.faults == {}
    assert found.counts["run"] > 100


@pytest.mark.scale
def test_all_samples_are_taken_by_other_domains_and_mean_the_same():
    found = walk(40, OPSETS)
    assert found.faults == {}
    assert found.counts["run"] > 1000


# -- what an op of another domain takes ------------------------------------------------

F32, F64 = "float32", "float64"


def step(dtype: str, *shape: int) -> TensorType:
    return TensorType(dtype, shape)


def attention(dtype: str, seen: str) -> Graph:
    types = [step(dtype, 1, 2, 16), step(dtype, 1, 3, 16), step(seen, 1, 3)]

    def call(q: Any, k: Any, m: Any) -> Any:
        return ops.multi_head_attention(q, k, k, None, m, heads=2)[0]

    return trace(call, types)


def grouped(dtype: str, at: str) -> Graph:
    types = [
        step(dtype, 1, 2, 32), step(dtype, 1, 2, 16), step("int32", 1),
        step("int32"), step(dtype, 8, 4), step(at, 1, 2),
    ]  # fmt: skip

    def call(q: Any, k: Any, last: Any, total: Any, table: Any, at: Any) -> Any:
        return ops.grouped_attention(
            q, last, k, k, None, None, total, table, table, at, heads=4, shared=2
        )[0]

    return trace(call, types)


def normed(dtype: str) -> Graph:
    types = [step(dtype, 2, 3, 8), step(dtype, 8)]
    return trace(lambda x, s: ops.skip_layer_norm(x, x, s)[0], types)


def linear(dtype: str) -> Graph:
    weight, scales = np.zeros((2, 32), "uint8"), np.ones((2, 2), dtype)
    return trace(
        lambda x: ops.quantized_linear(x, weight, scales, block=16),
        [step(dtype, 3, 32)],
    )


def looked_up(keys: str, values: str) -> Graph:
    known = np.array([1, 0]).astype(keys), np.array([0, 1]).astype(values)
    other = np.array(0).astype(values)
    return trace(lambda x: ops.lookup(x, *known, other), [step(keys, 3)])


def stepped(name: str, dtype: str) -> Graph:
    count = 4 if name == "adam_step" else 3
    types = [step(dtype, 4)] * count + [step(dtype)]
    if name == "adam_step":
        types.append(step("int64"))
    more = {"corrected": False} if name == "adam_step" else {}
    return trace(lambda *args: OPS[name](*args, **more), types)


TAKEN = {
    "MultiHeadAttention": [
        (attention(F32, "int32"), True), (attention(F64, "int32"), False),
        (attention(F32, "int64"), False),
    ],
    "GroupQueryAttention": [
        (grouped(F32, "int64"), True), (grouped(F64, "int64"), False),
        (grouped(F32, "int32"), False),
    ],
    "SkipLayerNormalization": [
        (normed(F32), True), (normed("float16"), True), (normed(F64), False),
    ],
    "MatMulNBits": [(linear(F32), True), (linear(F64), False)],
    "LabelEncoder": [
        *((looked_up(kind, "int64"), kind in ("int64", "int32", F32, F64))
          for kind in ("int64", "int32", F32, F64, "uint8", "int8", "float16", "bool")),
        (looked_up("int64", "uint8"), False), (looked_up("int64", "int16"), True),
    ],
    "Adam": [(stepped("adam_step", t), t != "float16") for t in (F64, "float16")],
    "Adagrad": [(stepped("adagrad_step", t), t != "float16") for t in (F64, "float16")],
    "Momentum": [
        (stepped("momentum_step", t), t != "float16") for t in (F64, "float16")
    ],
}  # fmt: skip
"""Ops of other domains, graphs that mean them, and whether they take such types."""


@pytest.mark.parametrize("type", TAKEN)
def test_an_op_of_another_domain_is_made_of_what_it_takes(type):
    for graph, takes in TAKEN[type]:
        graph.imports.update(DOMAINS)
        made = MAPPING.conversion(graph, "amanda/onnx/22")
        told = [str(p.type) for p in graph.parameters]
        found = type in {op.type for op in made.graph.walk()}
        assert found == takes, (told, made.report.gaps)


def test_why_an_op_of_another_domain_is_not_made():
    side = onnx_side("amanda/onnx/22", {"com.microsoft": 1})
    graph = Graph()
    values = [graph.parameter(step(F64, 2, 3, 8)) for _ in range(3)]
    why = r"SkipLayerNormalization 1: input input is f64, but T allows bf16, f16, f32"
    with pytest.raises(Decline, match=why):
        side.build(graph, "com.microsoft.SkipLayerNormalization", values, {})


# -- outputs that an entry names -------------------------------------------------------


def test_an_output_that_an_entry_names_is_there():
    graph = Graph(namespace="amanda/std/1")
    q, s = graph.parameter(step(F32, 2, 3, 8)), graph.parameter(step(F32, 8))
    op = graph.add("skip_layer_norm", [q, q, s], outputs=2)
    graph.result(op.outputs[0])
    graph.set_entry("e", {"q": q, "s": s}, {"b": op.outputs[1]})
    graph.imports["com.microsoft"] = 1
    made = MAPPING.conversion(graph, "amanda/onnx/22").graph
    (found,) = [op for op in made if op.type == "SkipLayerNormalization"]
    assert made.entries["e"].outputs["b"] is found.outputs[3]
    assert found.outputs[3].type == step(F32, 2, 3, 8)
    assert [port.type for port in found.outputs[1:3]] == [VoidType()] * 2
