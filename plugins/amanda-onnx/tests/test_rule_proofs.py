"""Every rule between ONNX and the hub fires in a sample, with equal results.

A proof is a graph that a rule took part in, run on both sides. Expected results are
those of ONNX's test cases, samples of hub ops, onnx's reference evaluator, onnxruntime,
and formulas for what none of them has. Graphs that are read are also written back, and
run by onnx's reference evaluator or onnxruntime.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
from onnx import TensorProto, TypeProto, ValueInfoProto, helper
from onnx.reference import ReferenceEvaluator

import amanda
from amanda.graph import Graph
from amanda.mapping import Conversion
from amanda.scoreboard import difference
from amanda.tensors import Tensor
from amanda_onnx.format import Format
from amanda_onnx.mapping import MAPPING
from amanda_onnx_conformance import cases, data_sets, load_model, to_array
from amanda_std import ops, trace

STD, HOUSE = "amanda/std/1", "com.microsoft"
ANY = 1e300
"""A difference that drawn numbers may have."""
Proof = tuple[str, str]
"""A rule, and the type of an op that it took: a function may be for several."""


def beside(name: str) -> Any:
    """A module of tests in this folder, for its samples."""
    path = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"beside_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FORMULAS = beside("rule_formulas")
X, COLUMN, IMAGE = FORMULAS.X, FORMULAS.COLUMN, FORMULAS.IMAGE


class Case(NamedTuple):
    """A graph of ONNX, what goes in, and what has to come out.

    `want` is None where numbers are drawn: then kinds and shapes have to be those that
    somebody else has.
    """

    name: str
    graph: Graph
    feeds: dict[str, Any]
    want: list[Any] | None
    rtol: float = 1e-5
    atol: float = 1e-6


class Proofs:
    """What is proved so far, in each direction; and what went wrong."""

    def __init__(self) -> None:
        self.read: set[Proof] = set()
        self.written: set[Proof] = set()
        self.wrong: dict[str, str] = {}

    def prove(self, case: Case, opset: str | None = None) -> None:
        done = MAPPING.conversion(case.graph, STD, trace=True)
        if done.report.gaps:
            self.wrong[case.name] = str(done.report.gaps[0])
            return
        found = list(amanda.run(done.graph, case.feeds, backend="numpy").values())
        why = differs(found, case)
        if why:
            self.wrong[case.name] = why
            return
        self.read |= proofs(done)
        back = MAPPING.conversion(
            done.graph, opset or case.graph.namespace or "", trace=True
        )
        if back.report.gaps:
            return  # what cannot be written is told
        whys = [differs(plain(got), case) for got in answers(back.graph, case.feeds)]
        if not all(whys):
            self.written |= proofs(back)
        elif whys and answers_rightly(case):
            self.wrong[f"{case.name}, written back"] = str(whys)


def proofs(done: Conversion) -> set[Proof]:
    return {(each.rule, short(each.op)) for each in done.report.trace or ()}


def short(type: str) -> str:
    return type.rpartition(".")[2]


def differs(found: list[Any], case: Case) -> str | None:
    if case.want is not None:
        return difference(found, case.want, case.rtol, case.atol)
    like = next(answers(case.graph, case.feeds), None)
    if like is None:
        return "nobody else draws this"
    kinds = [[(a.dtype, a.shape) for a in made] for made in (found, like)]
    return None if kinds[0] == kinds[1] else f"{kinds}"


def answers_rightly(case: Case) -> bool:
    """Whether all evaluators that run the original graph return what is expected.

    Reference and onnxruntime have faults of their own: one that is wrong about the
    original proves nothing of the graph that is written back."""
    whys = [differs(plain(got), case) for got in answers(case.graph, case.feeds)]
    return not any(whys)


def answers(graph: Graph, feeds: dict[str, Any]) -> Iterator[list[Any]]:
    """Of the reference, and of onnxruntime where it is."""
    model = onnx.load_from_string(Format().dumps(graph))
    with suppress(Exception), np.errstate(all="ignore"):  # it lacks ops
        yield ReferenceEvaluator(model).run(None, feeds)
    with suppress(Exception):  # and so does onnxruntime
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        yield session.run(None, feeds)


# -- one op, by formulas ---------------------------------------------------------------


def model(
    type: str, inputs: list[Any], attrs: dict[str, Any], *, opset: int,
    outputs: int = 1, domain: str = "", version: int = 1,
) -> tuple[Graph, dict[str, Any]]:  # fmt: skip
    """A graph of one op; an input that is None is left out, a tuple is a weight."""
    feeds = {
        f"i{n}": v
        for n, v in enumerate(inputs)
        if v is not None and not isinstance(v, tuple)
    }
    weights = [
        onnx.numpy_helper.from_array(v[0], f"i{n}")
        for n, v in enumerate(inputs)
        if isinstance(v, tuple)
    ]
    names = [f"i{n}" if v is not None else "" for n, v in enumerate(inputs)]
    outs = [f"o{n}" for n in range(outputs)]
    node = helper.make_node(type, names, outs, domain=domain, **attrs)
    ends = [_end(name, value) for name, value in feeds.items()]
    results = [ValueInfoProto(name=n) for n in outs]
    graph = helper.make_graph([node], "g", ends, results, weights)
    imports = [helper.make_opsetid("", opset)]
    imports += [helper.make_opsetid(domain, version)] if domain else []
    made = helper.make_model(graph, opset_imports=imports, ir_version=9)
    return amanda.load(made), feeds


def _end(name: str, value: Any) -> ValueInfoProto:
    if isinstance(value, dict):
        key, held = next(iter(value.items()))
        kind = TensorProto.STRING if isinstance(key, str) else TensorProto.INT64
        told = TypeProto()
        told.map_type.key_type = kind
        code = helper.np_dtype_to_tensor_dtype(np.asarray(held).dtype)
        told.map_type.value_type.tensor_type.elem_type = code
        return helper.make_value_info(name, told)
    kind = value.dtype
    code = 8 if kind.kind == "O" else helper.np_dtype_to_tensor_dtype(kind)
    return helper.make_tensor_value_info(name, code, value.shape)


def formulas() -> Iterator[Case]:
    for by in (each for table in FORMULAS.TABLES for each in table()):
        graph, feeds = model(
            by.type, by.inputs, by.attrs, opset=by.opset, outputs=len(by.want),
            domain=by.domain, version=by.version,
        )  # fmt: skip
        yield Case(f"{by.type}@{by.opset}", graph, feeds, by.want, 1e-4)


# -- by onnxruntime and the reference --------------------------------------------------


def places() -> Any:
    rows = np.stack(np.meshgrid(np.linspace(-1, 1, 3), np.linspace(-0.9, 0.8, 5)), -1)
    return rows[None].astype("f")


def judged() -> Iterator[Case]:
    """Samples of which somebody else says what comes out."""
    for mode in ("bilinear", "bicubic", "nearest"):
        attrs = {"mode": mode, "padding_mode": "border"}
        graph, feeds = model("GridSample", [IMAGE, places()], attrs, opset=16)
        *_, want = answers(graph, feeds)
        yield Case(f"GridSample {mode}", graph, feeds, want, 1e-4)
    sizes = [(np.array(n),) for n in (8, 64, 8192)]
    ends = [(np.array(n, "f"),) for n in (0, 4096)]
    graph, feeds = model("MelWeightMatrix", [*sizes, *ends], {}, opset=17)
    want, *_ = answers(graph, feeds)
    yield Case("MelWeightMatrix", graph, feeds, want, 1e-4)
    sizes = [np.array(8), np.array(16), np.array(8192), np.float32(0), np.float32(4096)]
    graph, feeds = model("MelWeightMatrix", [(v,) for v in sizes], {}, opset=17)
    yield Case("mel", graph, feeds, next(answers(graph, feeds)))
    tests = beside("test_mapping_ml")
    for name, (type, inputs, attrs, outputs) in tests.SAME.items():
        made = tests.static(tests.model(type, inputs, attrs, outputs), inputs)
        with np.errstate(all="ignore"):
            want = ReferenceEvaluator(made).run(None, inputs)
        yield Case(f"ml: {name}", amanda.load(made), inputs, plain(want), 1e-4, 1e-5)
    x = {"x": tests.X}
    for kind, labels, outputs in (
        ("target", {"n_targets": 2}, "y"),
        ("class", {"classlabels_int64s": [3, 8]}, "yz"),
    ):
        attrs = {**tests.NODES, **tests.leaves(kind, [0, 1, 0, 1, 0]), **labels}
        type = f"TreeEnsemble{'Regressor' if kind == 'target' else 'Classifier'}"
        made = tests.model(type, x, attrs, outputs, version=3)
        want = ReferenceEvaluator(made).run(None, x)
        yield Case(f"ml: {type}", amanda.load(made), x, want, 1e-4, 1e-5)


def plain(values: list[Any]) -> list[Any]:
    """Texts are of one kind here, as long as they are."""
    made = [np.asarray(v) if hasattr(v, "dtype") else v for v in values]
    return [
        v.astype(object) if hasattr(v, "dtype") and v.dtype.kind == "U" else v
        for v in made
    ]


def of_onnxruntime() -> Iterator[Case]:
    """Its own ops, by itself; whole numbers that were halves are rounded either way."""
    tests = beside("test_contrib")
    for name in tests.CASES:
        proto, feeds = tests.model(name)
        want = tests.session(proto).run(None, feeds)
        whole = any(w.dtype.kind in "iu" for w in want)
        is_loose = tests.is_loose(name)
        loose = 5e-2 if is_loose else 2e-5
        yield Case(f"house: {name}", Format().read(proto), feeds, want,
                   2e-2 if is_loose else 2e-4, 1 if whole else loose)  # fmt: skip
    packed = np.sin(np.arange(2 * 3 * 2 * 3 * 4, dtype="f")).reshape(2, 3, 2, 3, 4)
    apart = [packed[..., i, :].reshape(2, 3, 8) for i in range(3)]
    told = {"num_heads": 2}
    graph, feeds = model("MultiHeadAttention", apart, told, opset=17, domain=HOUSE)
    want = next(answers(graph, feeds))
    for inputs in ([packed], [apart[0], packed[..., 1:, :].copy()]):
        graph, feeds = model("MultiHeadAttention", inputs, told, opset=17, domain=HOUSE)
        yield Case(f"house: {len(inputs)} packed", graph, feeds, want, 1e-4, 1e-5)


def drawn() -> Iterator[Case]:
    like = np.zeros((2, 3), "f")
    for type, inputs, attrs in (
        ("RandomNormal", [], {"shape": [2, 3], "seed": 1.0}),
        ("RandomNormal", [], {"shape": [2, 3]}),
        ("RandomUniform", [], {"shape": [2, 3]}),
        ("RandomUniform", [], {"shape": [2, 3], "seed": 1.0, "dtype": 11}),
        ("RandomNormalLike", [like], {"seed": 1.0}),
        ("RandomUniformLike", [like], {"seed": 1.0}),
        ("Bernoulli", [like + np.float32(0.5)], {"seed": 1.0}),
        ("Multinomial", [like], {"sample_size": 4, "seed": 1.0}),
    ):
        graph, feeds = model(type, inputs, attrs, opset=15)
        yield Case(type, graph, feeds, None)


def by_hand() -> Iterator[Case]:
    """A constant that no reader has looked at."""
    graph = Graph("amanda/onnx/18")
    one = graph.add("Constant", [], {"value_floats": [1.5, -2.0]}).output
    two = graph.add("Constant", [], {"value": Tensor.of([0.5, 4.0], "float32")}).output
    graph.result(graph.add("Add", [one, two]).output, "y")
    yield Case("Constant", graph, {}, [np.float32([2, 2])])


# -- from the hub set ------------------------------------------------------------------


def outward() -> Iterator[tuple[str, Graph, dict[str, Any], list[Any], int]]:
    """Graphs of the hub set, and what formulas make of them, for an opset."""

    def made(
        function: Callable[..., Any], *arrays: Any
    ) -> tuple[Graph, dict[str, Any]]:
        types = [amanda.parse_type(f"{a.dtype}{list(a.shape)}") for a in arrays]
        names = [f"i{n}" for n in range(len(arrays))]
        return trace(function, types, names=names), dict(
            zip(names, arrays, strict=True)
        )

    n, three = np.array(7), np.array(3)
    yield ("arange", *made(lambda a, b: ops.arange(a, b, three), n - 6, n),
           [np.arange(1, 7, 3)], 17)  # fmt: skip
    yield "old arange", *made(lambda b: ops.arange(0, b), n), [np.arange(7)], 9
    yield "range", *made(lambda b: ops.arange(1, b), n), [np.arange(1, 7)], 17
    key, like = np.uint32([1, 2]), [np.zeros((2, 3), "f")]
    yield "drawn", *made(lambda k: ops.random_normal(k, (2, 3)), key), like, 17
    yield "drawn too", *made(lambda k: ops.random_uniform(k, (2, 3)), key), like, 17
    yield "places", *made(lambda b: ops.arange(0, b), n), [np.arange(7)], 10
    bits, by = np.int32([-8, 7]), np.int32([1, 2])
    yield ("left", *made(lambda a, b: ops.bitwise_left_shift(a, b), bits, by),
           [np.int32([-16, 28])], 28)  # fmt: skip
    yield ("right", *made(lambda a, b: ops.bitwise_right_shift(a, b), bits, by),
           [np.int32([-4, 1])], 28)  # fmt: skip
    w, b = X[0].T, COLUMN
    yield ("linear", *made(lambda x: ops.linear(x, w, b), X[1]),
           [X[1] @ w + b], 17)  # fmt: skip
    yield ("eye", *made(lambda r: ops.eye(r, three, k=1, dtype="float32"), n),
           [np.eye(7, 3, 1, dtype="f")], 17)  # fmt: skip

    def spread(x: Any, s: Any) -> Any:
        own = ops.shape_of(x)
        return ops.broadcast_to(x, ops.where(ops.equal(own, 1), s, own))

    shape = np.array([2, 3, 4])
    yield ("expand", *made(spread, X[:1], shape),
           [np.broadcast_to(X[:1], (2, 3, 4))], 17)  # fmt: skip


def products() -> Iterator[tuple[str, Graph, dict[str, Any], list[Any], int]]:
    """What onnxruntime has one op of its own for, where a graph imports its domain."""
    rng = np.random.default_rng(3)
    for rank in (2, 3, 4):
        turn = [*range(rank - 2), rank - 1, rank - 2]
        a, b = (rng.normal(size=(2, 3, 3, 3)[4 - rank :]).astype("f") for _ in "ab")

        def product(x: Any, y: Any, factor: Any, sides: str, turn: Any) -> Any:
            x = ops.transpose(x, perm=turn) if "A" in sides else x
            y = ops.transpose(y, perm=turn) if "B" in sides else y
            z = ops.matmul(x, y)
            return z if factor is None else ops.multiply(z, factor)

        for sides in ("", "A", "B"):
            for factor in (None, np.float32(0.5)):
                graph = trace(
                    lambda x, y, f=factor, s=sides, t=turn: product(x, y, f, s, t),
                    [amanda.parse_type(f"float32{list(v.shape)}") for v in (a, b)],
                    names=["x", "y"],
                )
                graph.imports[HOUSE] = 1
                one = a.transpose(turn) if sides == "A" else a
                other = b.transpose(turn) if sides == "B" else b
                want = (one @ other) * np.float32(1 if factor is None else factor)
                name = f"product of {rank} {sides} {factor}"
                yield name, graph, {"x": a, "y": b}, [want], 17


def steps() -> Iterator[tuple[str, Graph, dict[str, Any], list[Any], int]]:
    """A step of an optimiser, where a graph imports the domain that has it."""

    def step(x: Any, g: Any, v: Any, r: Any) -> Any:
        return tuple(ops.momentum_step(x, g, v, r, momentum=0.75, decay=0.5))

    x, g, v = X[0], X[1], X[0] * X[1]
    names, rate = ["x", "g", "v", "r"], np.float32(0.25)
    types = [amanda.parse_type("float32[3, 4]")] * 3 + [amanda.parse_type("float32[]")]
    graph = trace(step, types, names=names)
    graph.imports["ai.onnx.preview.training"] = 1
    moved = 0.75 * v + (g + 0.5 * x)
    feeds = dict(zip(names, (x, g, v, rate), strict=True))
    want = [(x - 0.25 * moved).astype("f"), moved.astype("f")]
    yield "a step", graph, feeds, want, 17


def prove_outward(proved: Proofs) -> None:
    for name, graph, feeds, want, opset in (*outward(), *products(), *steps()):
        done = MAPPING.conversion(graph, f"amanda/onnx/{opset}", trace=True)
        assert not done.report.gaps, (name, done.report.gaps)
        far = ANY if "drawn" in name else 1e-6
        whys = [difference(got, want, 1e-5, far) for got in answers(done.graph, feeds)]
        if not whys or all(whys):
            proved.wrong[f"{name} outward"] = str(whys)
        else:
            proved.written |= proofs(done)


# -- the tests -------------------------------------------------------------------------


SOURCES = (formulas, judged, of_onnxruntime, drawn, by_hand)


@pytest.fixture(scope="module")
def own() -> Proofs:
    """What is proved by the samples of this file and of those beside it."""
    pytest.importorskip("onnxruntime")
    proved = Proofs()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for source in SOURCES:
            for case in source():
                proved.prove(case)
        for case in of_onnxruntime():  # an opset that lacks what its own domain has
            proved.prove(case, "amanda/onnx/17")
        prove_outward(proved)
    return proved


def test_samples_give_the_same_on_both_sides(own: Proofs) -> None:
    assert own.wrong == {}
    assert len(own.read) > 110
    assert len(own.written) > 60


# -- all rules -------------------------------------------------------------------------


def prove_cases(proved: Proofs) -> None:
    """ONNX's own cases: what it expects of them, and the same after the way back."""
    for kind, case in cases(["node", "simple", "pytorch-converted"]):
        graph = amanda.load(load_model(case))
        feeds, want = next(iter(data_sets(case)))
        named = {
            p.name: to_array(v) for p, v in zip(graph.parameters, feeds, strict=False)
        }
        given = [to_array(v) for v in want]
        proved.prove(
            Case(f"{kind}/{case.name}", graph, named, given, case.rtol, case.atol)
        )


@pytest.fixture(scope="module")
def of_cases() -> Proofs:
    proved = Proofs()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        prove_cases(proved)
    return proved


@pytest.fixture(scope="module")
def of_samples() -> Any:
    """Those of the hub set: sets of proofs, and what went wrong."""
    pytest.importorskip("onnxruntime")
    return beside("test_rule_samples").runs()


@pytest.mark.scale
def test_cases_give_the_same_on_both_sides(of_cases: Proofs) -> None:
    wrong = {name for name in of_cases.wrong if not name.startswith(DRAWN)}
    assert wrong == set()
    assert len(of_cases.read) > 220
    assert len(of_cases.written) > 200


DRAWN = ("node/test_bernoulli", "node/test_training_dropout")


@pytest.mark.scale
def test_samples_of_the_hub_set_give_the_same_on_both_sides(of_samples: Any) -> None:
    assert of_samples.wrong == {}
    assert of_samples.compared > 2000
    assert of_samples.otherwise == set(beside("test_rule_samples").OTHERWISE)


def rules(*, forward: bool) -> dict[Proof, str]:
    """Every rule of a direction, once for each type of op that it is for."""
    found = {
        (row.id, short(row.sides(forward)[0].type)): row.text
        for row in MAPPING.rules.rows
        if row.runs(forward)
    }
    for function in MAPPING.rules.functions:
        if function.forward == forward:
            type = function.term.type
            found[function.id, short(type)] = f"{type} by {function.call.__name__}"
    return found


def without_proof(found: set[Proof], *, forward: bool) -> set[str]:
    return {text for key, text in rules(forward=forward).items() if key not in found}


@pytest.mark.scale
def test_every_rule_inward_is_proved(
    own: Proofs, of_cases: Proofs, of_samples: Any
) -> None:
    found = own.read | of_cases.read | of_samples.back
    assert without_proof(found, forward=True) == set()


@pytest.mark.scale
def test_every_rule_outward_is_proved(
    own: Proofs, of_cases: Proofs, of_samples: Any
) -> None:
    found = own.written | of_cases.written | of_samples.out
    assert without_proof(found, forward=False) == set()
