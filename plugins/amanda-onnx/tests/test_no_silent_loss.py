"""Nothing of an op is silently dropped on its way to the hub.

In each op of ONNX's test cases one attribute is changed, or an optional input omitted.
Then the hub's graph differs, or the op is declined, or a loss is reported. Changes
without effect are listed here, each with its reason. What was read is also written and
read again, with the same result.
"""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import amanda
from amanda.errors import AmandaError
from amanda.graph import CORE, Graph, Op
from amanda.tensors.values import same_value
from amanda.types import DType
from amanda_onnx.format.element_types import DTYPES
from amanda_onnx.mapping import MAPPING
from amanda_onnx.mapping.attribute_checks import FLAGS, allowed_strings
from amanda_onnx_conformance import cases, data_sets
from amanda_std.mappings import difference

STD = "amanda/std/1"
FEW = 4
"""Cases of an op that are varied, where not all are."""

TYPES = frozenset(
    ("dtype", "output_datatype", "output_dtype", "precision", "softmax_precision", "to")
)
"""Integers that stand for element types."""

COUNTS = ("heads", "size", "outputs", "group", "filters", "blocksize")
"""How names of integers end that are positive."""

# Lists of which each item is for one axis of space, and how often.
SPATIAL = {"dilations": 1, "kernel_shape": 1, "output_padding": 1, "pads": 2,
           "strides": 1}  # fmt: skip


class Place(NamedTuple):
    """What of an op is changed: an attribute, or an input that is left out."""

    op: str
    name: str


Holds = Callable[[Op, Any], bool]


def anywhere(_op: Op, _value: Any) -> bool:
    return True


def unless(key: str, *values: Any) -> Holds:
    """Only another attribute gives it a meaning."""
    return lambda op, _value: _said(op, key) not in values


def without(at: int) -> Holds:
    """Only an input that is not there gives it a meaning."""
    return lambda op, _value: len(op.inputs) <= at or op.inputs[at] is None


def one_output(op: Op, _value: Any) -> bool:
    return not _is_wanted(op, 1)


def _is_wanted(op: Op, at: int) -> bool:
    return len(op.outputs) > at and bool(op.outputs[at].users)


def _said(op: Op, key: str) -> Any:
    return op.attrs.get(key, _known(op)[key].default)


def _rank(op: Op, at: int = 0) -> int:
    return int(op.inputs[at].type.shape.rank)


def per_tensor(op: Op, _value: Any) -> bool:
    return _rank(op, 1) == 0 or op.inputs[1].type.shape.dims == (1,)


def target(op: Op) -> DType:
    """The element type that a cast or a quantisation is to."""
    if op.type == "Cast":
        return DTYPES[op.attrs["to"]]
    if op.type == "CastLike":
        return op.inputs[1].type.dtype
    if there(2)(op, None):
        return op.inputs[2].type.dtype
    return DTYPES[_said(op, "output_dtype") or 2]


def saturates_not(op: Op, _value: Any) -> bool:
    return "float8" not in str(target(op))


def same_axis(op: Op, value: Any) -> bool:
    return bool(value % _rank(op) == _said(op, "axis") % _rank(op))


def no_axes(op: Op, _value: Any) -> bool:
    """Axes that are there, and none: what is left out when they are is the same."""
    return len(op.inputs) > 1 and op.inputs[1].type.shape.dims == (0,)


def there(at: int) -> Holds:
    return lambda op, _value: len(op.inputs) > at and op.inputs[at] is not None


def own_type(op: Op, value: Any) -> bool:
    """It is the element type of the first input, which is meant without it too."""
    return DTYPES.get(value) == op.inputs[0].type.dtype


def wide_enough(op: Op, value: Any) -> bool:
    return DTYPES.get(value) in (DType("float32"), op.inputs[0].type.dtype)


def of_weights(op: Op, value: Any) -> bool:
    is_layer = (op.type or "").startswith("Conv")
    return is_layer and value == [*op.inputs[1].type.shape.dims[2:]]


def cut_evenly(op: Op, _value: Any) -> bool:
    """The output that is asked for leaves no row over that one side would get."""
    wanted = op.attrs.get("output_shape")
    if wanted is None:
        return False
    sizes, kernel = (p.type.shape.dims[2:] for p in op.inputs[:2])
    each = [_said(op, k) or [1] * len(sizes) for k in ("strides", "dilations")]
    more = _said(op, "output_padding") or [0] * len(sizes)
    rows = zip(sizes, kernel, *each, more, wanted, strict=True)
    cuts = [s * (n - 1) + (k - 1) * d + 1 + m - out for n, k, s, d, m, out in rows]
    return all(cut <= 0 or cut % 2 == 0 for cut in cuts)


def either(*ways: Holds) -> Holds:
    return lambda op, value: any(way(op, value) for way in ways)


def same_words(*words: Any) -> Holds:
    return lambda op, value: {value, _said(op, "activation")} <= set(words)


MEANINGLESS: dict[tuple[str, str], tuple[Holds, str]] = {
    ("Attention", "kv_num_heads"): (lambda op, _: _rank(op) == 4, "the rank says it"),
    ("Attention", "q_num_heads"): (lambda op, _: _rank(op) == 4, "the rank says it"),
    ("Attention", "qk_matmul_output_mode"): (
        lambda op, _: not _is_wanted(op, 3), "an output that is not there"),
    ("MaxPool", "storage_order"): (one_output, "the order of an output not there"),
    ("BatchNormalization", "momentum"): (
        lambda op, _: not _said(op, "training_mode"), "training moves averages"),
    ("BatchNormalization", "training_mode"): (
        lambda op, _: len(op.outputs) > 1, "the averages that are asked for say it"),
    ("Bernoulli", "dtype"): (own_type, "that of the input is the default"),
    ("Cast", "saturate"): (saturates_not, "only eight bits of floats saturate"),
    ("CastLike", "saturate"): (saturates_not, "only eight bits of floats saturate"),
    ("CausalConvWithState", "activation"): (
        same_words("silu", "swish"), "two words for one function"),
    ("", "kernel_shape"): (of_weights, "the weights say it"),
    ("ConvTranspose", "auto_pad"): (
        cut_evenly, "it tells which side gets the odd row, and there is none"),
    ("ConvTranspose", "pads"): (
        unless("output_shape", None), "the shape of the output decides"),
    ("DequantizeLinear", "axis"): (per_tensor, "one scale is for all"),
    ("QuantizeLinear", "axis"): (per_tensor, "one scale is for all"),
    ("DequantizeLinear", "output_dtype"): (
        lambda op, value: DTYPES.get(value or 0, op.inputs[1].type.dtype)
        == op.inputs[1].type.dtype,
        "that of the scale is the default"),
    ("QuantizeLinear", "output_dtype"): (
        lambda op, value: DTYPES.get(value or 2) == target(op),
        "that of the zero point, or the default, said again"),
    ("QuantizeLinear", "precision"): (wide_enough, "what is computed in anyway"),
    ("Dropout", "ratio"): (lambda op, _: not there(2)(op, 0), "nothing is trained"),
    ("Dropout", "seed"): (lambda op, _: not there(2)(op, 0), "nothing is drawn"),
    ("Gemm", "beta"): (without(2), "the factor of what is not there"),
    ("LinearAttention", "chunk_size"): (anywhere, "a hint: how, not what"),
    ("", "noop_with_empty_axes"): (there(1), "only where there are no axes"),
    ("", "axis"): (same_axis, "counted from the other end"),
    ("", "axes"): (no_axes, "no axes are none, left out or not"),
    ("Resize", "antialias"): (unless("mode", "linear", "cubic"), "one pixel is taken"),
    ("Resize", "exclude_outside"): (
        unless("mode", "linear", "cubic"), "one pixel is taken"),
    ("Resize", "cubic_coeff_a"): (unless("mode", "cubic"), "of cubic only"),
    ("Resize", "extrapolation_value"): (
        unless("coordinate_transformation_mode", "tf_crop_and_resize"),
        "nothing is outside"),
    ("Resize", "keep_aspect_ratio_policy"): (without(3), "only sizes have it"),
    ("Resize", "nearest_mode"): (unless("mode", "nearest"), "of nearest only"),
    ("RotaryEmbedding", "num_heads"): (
        lambda op, _: _rank(op) == 4, "the rank says it"),
    ("Split", "num_outputs"): (
        lambda op, value: value == len(op.outputs), "there are so many"),
    ("StringSplit", "delimiter"): (
        lambda op, value: not value, "empty, or left out, it is any white space"),
    ("TfIdfVectorizer", "min_gram_length"): (
        lambda op, value: value < 1 or _said(op, "ngram_counts")[1:2] == [0],
        "no n-grams of that length are in the pool"),
    ("TopK", "sorted"): (anywhere, "sorted or not is for us to choose where it is 0"),
}  # fmt: skip
"""Where a change means nothing: when, and why. `""` stands for every op."""

UNVARIED = {("TfIdfVectorizer", "ngram_counts"): "another list makes no pool"}

RUN_OTHERWISE: dict[str, str] = {}
"""Ops of which what comes back is not compared by numbers, and why."""


# -- changing --------------------------------------------------------------------------


class Single(NamedTuple):
    """A case of one op that is read, and what it is read as."""

    name: str
    graph: Graph
    read: Graph
    losses: frozenset[str]
    feeds: tuple[Any, ...] = ()


@cache
def singles() -> tuple[Single, ...]:
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _, case in cases(["node"]):
            graph = amanda.load(case.model)
            if len([op for op in graph if op.own_namespace != CORE]) != 1:
                continue
            made = read(graph)
            if isinstance(made, tuple) and own(graph).own_namespace is None:
                feeds, _ = next(iter(data_sets(case)))
                found.append(Single(case.name, graph, *made, tuple(feeds)))
    return tuple(sorted(found, key=lambda single: single.name))


def own(graph: Graph) -> Op:
    return next(op for op in graph if op.own_namespace != CORE)


def read(graph: Graph) -> tuple[Graph, frozenset[str]] | str:
    """The graph of the hub set and what it lost, or why there is none."""
    try:
        done = MAPPING.conversion(graph, STD)
    except AmandaError as why:
        return str(why)
    if done.report.gaps:
        return str(done.report.gaps[0])
    return done.graph, frozenset(done.report.losses)


def dictionary_of(graph: Graph) -> Any:
    return amanda.namespace(graph.namespace, assume=True)


def _known(op: Op) -> dict[str, Any]:
    return {attr.name: attr for attr in dictionary_of(op.graph)[op.type].attrs}


@cache
def seen() -> dict[Place, list[Any]]:
    """The values that an attribute has anywhere."""
    found: dict[Place, list[Any]] = defaultdict(list)
    for single in singles():
        op = own(single.graph)
        for key, value in op.attrs.items():
            values = found[Place(op.type, key)]
            if value not in values:
                values.append(value)
    return found


def others(op: Op, attr: Any) -> list[Any]:
    """Legal values that are not the one that the op has."""
    have = op.attrs.get(attr.name, attr.default)
    values: list[Any] = list(attr.allowed) or list(seen()[Place(op.type, attr.name)])
    if attr.default is not None:
        values.append(attr.default)
    if attr.is_list:
        values = _lists(op, attr, have)
    elif attr.base == "float":
        values = [(have or 0.0) + 0.5]
    elif attr.name in FLAGS:
        values = [0, 1]
    elif attr.name in TYPES:
        values += [1, 10, 7]
    elif attr.name.endswith(COUNTS):
        values += [1, 2]
    elif attr.base == "int":
        values += [0, 1, 2, -1]
    made = []
    for value in values:
        known = [have, *made]
        if not any(same_value(value, other) for other in known):
            made.append(value)
    return made


def _lists(op: Op, attr: Any, have: Any) -> list[Any]:
    """Of the length that they have, or have to have."""
    if not have and attr.name in SPATIAL and op.inputs:
        return [[2] * (SPATIAL[attr.name] * (_rank(op) - 2))]
    found = [list(have)[::-1]] if have else []
    if have and attr.base in ("int", "float"):
        found.append([item + 1 for item in have])
    return found


def changes(single: Single) -> Iterator[tuple[Place, Any, Graph]]:
    """The graph with one thing changed; what its dictionary refuses is left out."""
    op = own(single.graph)
    entry = dictionary_of(single.graph)[op.type]
    for attr in entry.attrs:
        if attr.body is None and (op.type, attr.name) not in UNVARIED:
            for value in others(op, attr):
                yield (
                    Place(op.type, attr.name),
                    value,
                    changed(single, attr.name, value),
                )
    for at, port in enumerate(entry.inputs):
        if port.form == "optional" and at < len(op.inputs) and op.inputs[at]:
            graph = single.graph.clone()
            own(graph).input_ports[at].connect(None)
            yield Place(op.type, port.name), None, graph


def changed(single: Single, key: str, value: Any) -> Graph:
    graph = single.graph.clone()
    own(graph).attrs[key] = value
    return graph


def silent(single: Single, graph: Graph) -> bool:
    """Is it read just as before?"""
    if dictionary_of(graph).validate(graph):
        return False
    made = read(graph)
    if isinstance(made, str) or made[1] != single.losses:
        return False
    return bool(made[0].same_as(single.read, names=False))


def listed(place: Place, op: Op, value: Any) -> tuple[str, str] | None:
    """Where it is told here that the change means nothing, if it is."""
    for key in ((place.op, place.name), ("", place.name)):
        if key in MEANINGLESS and MEANINGLESS[key][0](op, value):
            return key
    return None


def run(graph: Graph, feeds: tuple[Any, ...]) -> list[Any]:
    named = {p.name: v for p, v in zip(graph.parameters, feeds, strict=True)}
    with np.errstate(all="ignore"):
        return list(amanda.run(graph, named, backend="numpy").values())


# -- what is no op at all --------------------------------------------------------------


def malformed(op: Op, attr: Any) -> Iterator[Any]:
    """Values that ONNX has no meaning for, or perhaps none."""
    have = op.attrs.get(attr.name, attr.default)
    if attr.is_list:
        if not have:
            if attr.name not in SPATIAL or not op.inputs:
                return
            have = [1] * (SPATIAL[attr.name] * (_rank(op) - 2))
        yield from ([*have][:-1], [*have, have[-1]])
        if attr.base in ("int", "float"):
            yield [-abs(item) - 7 for item in have]
    elif attr.base == "string":
        yield "bogus"
    elif attr.base == "int":
        yield from (99, -99)


def told_of(op: Op, name: str, value: Any) -> bool:
    """Whether ONNX says in so many words that this cannot be."""
    if isinstance(value, str):
        return bool(allowed_strings(op.type or "", name))
    if not isinstance(value, list):
        return name in FLAGS
    spatial = name in SPATIAL and op.type in WITH_SPACE
    return spatial and len(value) != SPATIAL[name] * (_rank(op) - 2)


WITH_SPACE = frozenset((
    "AveragePool", "Conv", "ConvInteger", "ConvTranspose", "DeformConv", "LpPool",
    "MaxPool", "MaxUnpool", "QLinearConv",
))  # fmt: skip


# -- the tests -------------------------------------------------------------------------


def sample(few: int = FEW) -> list[Single]:
    """So many cases of each op, the first by name."""
    counts: Counter[str] = Counter()
    found = []
    for single in singles():
        counts[own(single.graph).type] += 1
        if counts[own(single.graph).type] <= few:
            found.append(single)
    return found


def unlisted(chosen: list[Single]) -> tuple[dict[Place, str], set[tuple[str, str]]]:
    """Changes that are dropped without a word, and the entries of the list met."""
    wrong: dict[Place, str] = {}
    met: set[tuple[str, str]] = set()
    for single in chosen:
        op = own(single.graph)
        for place, value, graph in changes(single):
            if not silent(single, graph):
                continue
            key = listed(place, op, value)
            if key is None:
                wrong[place] = f"{single.name}: {value} is read as what stood there"
            else:
                met.add(key)
    return wrong, met


def test_one_change_is_read_as_another_graph_or_told():
    chosen = sample()
    assert len(chosen) > 400
    wrong, met = unlisted(chosen)
    assert wrong == {}
    assert len(met) > 0.7 * len(MEANINGLESS)


@pytest.mark.scale
def test_one_change_of_any_case_is_read_as_another_graph_or_told():
    wrong, met = unlisted(list(singles()))
    assert wrong == {}
    assert met == set(MEANINGLESS)


def test_what_cannot_be_is_told_by_op_attribute_and_value():
    """No error of Python's own, whatever stands there, and no guess."""
    counts: Counter[str] = Counter()
    for single in sample(2):
        op = own(single.graph)
        for attr in _known(op).values():
            for value in () if attr.body is not None else malformed(op, attr):
                graph = changed(single, attr.name, value)
                made = read(graph)  # anything but an AmandaError comes through
                counts["all"] += 1
                if told_of(op, attr.name, value):
                    assert isinstance(made, str), (single.name, attr.name, value)
                    for part in (op.type, f"{attr.name}={value!r}: ", " expected"):
                        assert part in made, (single.name, made)
                    counts[type(value).__name__] += 1
    assert counts["all"] > 900
    assert min(counts["str"], counts["list"]) > 40
    assert counts["int"] > 200


def test_a_default_that_is_said_is_one_that_is_left_out():
    said = 0
    for single in sample():
        op = own(single.graph)
        for attr in _known(op).values():
            if attr.default is None or attr.name in op.attrs:
                continue
            graph = changed(single, attr.name, attr.default)
            if not dictionary_of(graph).validate(graph):
                assert silent(single, graph), (single.name, attr.name)
                said += 1
    assert said > 300


@settings(max_examples=150, deadline=None,
          suppress_health_check=list(HealthCheck))  # fmt: skip
@given(st.data())
def test_several_changes_are_each_read_or_told(drawing):
    """Any attributes at once; then one of them as it was, which has to be seen."""
    single = drawing.draw(st.sampled_from(singles()), label="case")
    op = own(single.graph)
    free = [a for a in _known(op).values() if a.body is None and others(op, a)]
    free = [a for a in free if (op.type, a.name) not in UNVARIED]
    if not free:
        return
    graph = single.graph.clone()
    chosen = drawing.draw(st.lists(st.sampled_from(free), min_size=1, unique=True))
    for attr in chosen:
        own(graph).attrs[attr.name] = drawing.draw(st.sampled_from(others(op, attr)))
    made = None if dictionary_of(graph).validate(graph) else read(graph)
    if not isinstance(made, tuple):
        return  # it is told
    varied = Single(single.name, graph, *made)
    attr = drawing.draw(st.sampled_from(chosen))
    was = op.attrs.get(attr.name, attr.default)
    if was is None:
        return
    if silent(varied, changed(varied, attr.name, was)):
        have, value = own(graph), own(graph).attrs[attr.name]
        place = Place(op.type, attr.name)
        assert listed(place, have, was) or listed(place, op, value)


def test_there_and_back_is_the_same_or_computes_the_same():
    """What is written of it and read again: the same graph, or the same numbers."""
    same, computed = 0, 0
    for single in sample():
        back = MAPPING.conversion(single.read, single.graph.namespace)
        if back.report.gaps or back.report.losses:
            continue  # it is told
        again = read(back.graph)
        assert isinstance(again, tuple), (single.name, again)
        if again[0].same_as(single.read, names=False):
            same += 1
        elif own(single.graph).type not in RUN_OTHERWISE:
            found = [run(graph, single.feeds) for graph in (single.read, again[0])]
            if any(op.type == "next_random_key" for op in single.read.walk()):
                found = [[np.zeros_like(v) for v in values] for values in found]
            assert difference(found[1], found[0], 1e-3) is None, single.name
            computed += 1
    assert same > 400
    assert computed > 20
