"""Nothing of a hub op is silently dropped on its way to ONNX.

In each sample one attribute is changed, or an optional input omitted. If the kernel's
result changes, the written graph must differ, or a loss or gap be reported. The same
holds for graphs that import other domains.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pytest

import amanda
from amanda.errors import AmandaError
from amanda.graph import CORE, Graph
from amanda.tensors.values import same_value
from amanda.types import TensorType
from amanda_onnx.mapping import MAPPING
from amanda_onnx.mapping.classical_ml import write_trees
from amanda_onnx.mapping.contrib import write_contrib
from amanda_onnx.mapping.side import DOMAINS
from amanda_std import trace
from amanda_std.mappings import REQUIRED, Sample, array_type, difference
from amanda_std.ops import OPS

NEWEST, OLD = 26, (17, 12, 7)
BEFORE = 22
"""The newest opset that lacks ops which com.microsoft has."""
EXACTLY = 1e-300

WRITTEN = {"com.microsoft": write_contrib.WRITE, "ai.onnx.ml": write_trees.WRITE}
"""Domains, and what functions make for them of the hub set; the rest rows do."""

ALL = slice(None)
PARTS = {
    "com.microsoft": (ALL, slice(1)),
    "ai.onnx.ml": (slice(1), slice(1, None)),
    "ai.onnx.preview.training": (ALL,),
}
"""Which tensors are inputs; others are constants, as weights and tables have to be."""


class Traced(NamedTuple):
    """A graph of one op, what goes into it, and which of the tensors do so."""

    graph: Graph
    feeds: dict[str, Any]
    inputs: slice


class Varied(NamedTuple):
    """What was changed of a sample, and how."""

    op: str
    name: str
    value: Any


def taken_to(domain: str) -> list[str]:
    """The ops of the hub set of which some rule makes an op of a domain."""
    rows = (row for row in MAPPING.rules.rows if row.runs(False))
    heads = {r.right.type for r in rows if r.left.type.rpartition(".")[0] == domain}
    return sorted(heads | WRITTEN.get(domain, {}).keys())


def traced(
    op: Any, sample: Sample, imports: Mapping[str, int], inputs: slice = ALL
) -> Traced:
    at = [i for i, a in enumerate(sample.args) if hasattr(a, "shape")][inputs]

    def call(*values: Any) -> Any:
        args = list(sample.args)
        for i, value in zip(at, values, strict=True):
            args[i] = value
        return op(*args, **sample.attrs)

    arrays = [np.asarray(sample.args[i]) for i in at]
    types = [TensorType(array_type(a).dtype, a.shape) for a in arrays]
    graph = trace(call, types, names=[f"in{i}" for i in range(len(at))])
    graph.imports.update(imports)
    feeds = {p.name: a for p, a in zip(graph.parameters, arrays, strict=True)}
    return Traced(graph, feeds, inputs)


@cache
def samples_of(name: str) -> tuple[Sample, ...]:
    own = trees() if name == "tree_ensemble" else ()
    return (*own, *islice(OPS[name].samples_rule(), 12))


def trees() -> Iterator[Sample]:
    """Those of which each leaf says one number, as ONNX has them."""
    for sample in islice(OPS["tree_ensemble"].samples_rule(), 10):
        *args, says = sample.args
        yield replace(
            sample, args=(*args, says[:, :1]), expected=sample.expected[:, :1]
        )


def written(graph: Graph, opset: int) -> tuple[Graph, frozenset[str]] | str:
    """The graph of ONNX and what it lost, or why there is none."""
    try:
        done = MAPPING.conversion(graph, f"amanda/onnx/{opset}")
    except AmandaError as why:
        return str(why)
    if done.report.gaps:
        return str(done.report.gaps[0])
    return done.graph, frozenset(done.report.losses)


def others(name: str, key: str, default: Any, have: Any) -> Iterator[Any]:
    """Values that are not the one that the op has, those of other samples first."""
    found = [s.attrs[key] for s in samples_of(name) if key in s.attrs]
    found += [] if default is REQUIRED else [default]
    if isinstance(have, bool):
        found = [not have]
    elif isinstance(have, int):
        found += [have + 1, have - 1]
    elif isinstance(have, float):
        found += [have + 0.5]
    elif isinstance(have, tuple | list) and all(isinstance(h, int) for h in have):
        found += [tuple(h + 1 for h in have), tuple(reversed(have))]
    known = [have]
    for value in found:
        if not any(same_value(value, other) for other in known):
            known.append(value)
            yield value


def changes(name: str, sample: Sample) -> Iterator[tuple[Varied, Sample]]:
    op = OPS[name]
    for key, default in op.form.attributes.items():
        have = sample.attrs.get(key, default)
        for value in others(name, key, default, have):
            attrs = {**sample.attrs, key: value}
            yield Varied(name, key, value), replace(sample, attrs=attrs)
    for i, value in enumerate(sample.args):
        if value is not None:
            args = (*sample.args[:i], None, *sample.args[i + 1 :])
            yield Varied(name, f"input {i}", None), replace(sample, args=args)


def run(made: Traced) -> list[Any]:
    return list(amanda.run(made.graph, made.feeds, backend="numpy").values())


def dropped(made: Traced, other: Traced) -> str | None:
    """What of the change is computed, though nothing of it is written."""
    named = {p.name: made.feeds.get(p.name) for p in other.graph.parameters}
    with np.errstate(all="ignore"):
        before, after = run(made), run(other._replace(feeds=named | other.feeds))
    return difference(after, before, EXACTLY)


class Seen(NamedTuple):
    silent: dict[Varied, str]
    counts: Counter[str]
    told: dict[tuple[str, str], bool]
    """By op and attribute: did some change of it come to another graph, or words?"""


def vary(each: int, opset: int, names: Iterable[str] = OPS) -> Seen:
    seen = Seen({}, Counter(), defaultdict(bool))
    for name in names:
        vary_op(seen, name, each, opset, {}, ALL)
    return seen


def vary_to(domain: str, each: int, opset: int) -> Seen:
    """Of what some rule takes to a domain, where that is imported."""
    seen = Seen({}, Counter(), defaultdict(bool))
    for name in taken_to(domain):
        for inputs in PARTS[domain]:
            vary_op(seen, name, each, opset, {domain: DOMAINS[domain]}, inputs)
    return seen


def vary_op(
    seen: Seen, name: str, each: int, opset: int, imports: Any, inputs: slice
) -> None:
    done = 0
    for sample in samples_of(name):
        try:
            made = traced(OPS[name], sample, imports, inputs)
        except AmandaError:
            continue  # its arguments are no arrays: no graph takes them
        base = written(made.graph, opset)
        if isinstance(base, str):
            continue  # it is told
        if imports and not is_elsewhere(base[0]):
            continue  # it is written as without the domain
        done += 1
        for varied, changed in changes(name, sample):
            one(seen, made, base, varied, changed, opset)
        if done == each:
            break


def is_elsewhere(graph: Graph) -> bool:
    """Has it an op of a domain that is not ONNX's own?"""
    return any(op.own_namespace not in (None, CORE) for op in graph.walk())


def one(
    seen: Seen, made: Traced, base: Any, varied: Varied, changed: Sample, opset: int
) -> None:
    try:
        other = traced(OPS[varied.op], changed, made.graph.imports, made.inputs)
    except AmandaError:
        return  # the hub set refuses it
    seen.counts["tried"] += 1
    found = written(other.graph, opset)
    same = not isinstance(found, str) and found[1] == base[1]
    if not same or not found[0].same_as(base[0], names=False):
        seen.counts["another, or told"] += 1
        seen.told[varied.op, varied.name] = True
        return
    seen.told[varied.op, varied.name] |= False
    if base[1]:
        seen.counts["a loss is told"] += 1
        return
    try:
        why = dropped(made, other)
    except AmandaError:  # a number that the kernel wants is not there
        seen.counts["not run"] += 1
        return
    seen.counts["the same for the kernel"] += not why
    if why:
        seen.silent[varied] = why


@pytest.mark.most_cases(1)
@pytest.mark.parametrize("part", range(3))
def test_one_change_is_written_as_another_graph_or_told(part):
    seen = vary(1, NEWEST, [*OPS][part::3])
    assert seen.silent == {}
    assert seen.counts["tried"] > 200
    assert seen.counts["another, or told"] > 0.9 * seen.counts["tried"]
    assert seen.counts["not run"] < 10


@pytest.mark.scale
@pytest.mark.parametrize("opset", [NEWEST, *OLD])
def test_no_change_of_many_samples_is_dropped(opset):
    seen = vary(6, opset)
    assert seen.silent == {}
    assert seen.counts["tried"] > 1000
    never = {place for place, told in seen.told.items() if not told}
    assert len(never) < 0.05 * len(seen.told), never


@pytest.mark.parametrize("domain", PARTS)
def test_one_change_is_written_as_another_graph_of_a_domain_or_told(domain):
    seen = vary_to(domain, 2, BEFORE)
    assert seen.silent == {}
    assert seen.counts["tried"] > 10
    assert seen.counts["another, or told"] > 0.7 * seen.counts["tried"]
    assert seen.counts["not run"] < 10


@pytest.mark.scale
@pytest.mark.parametrize("opset", [NEWEST, BEFORE, *OLD])
@pytest.mark.parametrize("domain", PARTS)
def test_no_change_of_many_samples_is_dropped_to_a_domain(domain, opset):
    seen = vary_to(domain, 12, opset)
    assert seen.silent == {}
    assert seen.counts["tried"] > 20
