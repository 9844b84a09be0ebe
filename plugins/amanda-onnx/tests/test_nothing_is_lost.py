"""Nothing of an op is dropped without a word on its way to the hub set.

The ops are those of ONNX's own cases, which have inputs that fit. One attribute of an op
is changed, or an input left out that may be absent: then the graph of the hub set is
another one, or an op is declined, or a loss is told. Where it stays the same, what was
changed has no meaning there; each such place is in a list here, with its reason. What is
read is also written again, and what that gives is read as the same.
"""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import amanda
from amanda.errors import AmandaError
from amanda.graph import CORE, Graph, Op
from amanda_onnx.mapping import MAPPING
from amanda_onnx.scoreboard import cases

STD = "amanda/std/1"
FEW = 4
"""Cases of an op that are varied, where not all are."""

FLAGS = frozenset(
    "allow_zero allowzero antialias ceil_mode center_point_box count_include_pad "
    "detect_negative detect_positive exclude_outside exclusive input_forget "
    "interleaved inverse is_case_sensitive is_causal keepdims largest layout "
    "linear_before_reset noop_with_empty_axes onesided periodic reverse saturate "
    "select_last_index sorted storage_order training_mode transA transB upper".split()
)
"""Integers of which ONNX says that they are 0 or 1."""

TYPES = frozenset(
    ("dtype", "output_datatype", "output_dtype", "precision", "softmax_precision", "to")
)
"""Integers that stand for element types."""

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


def other_target(op: Op, _value: Any) -> bool:
    """A cast to no element type of eight bits or fewer that has no infinity."""
    wanted = op.outputs[0].type
    return wanted is None or not str(wanted.dtype).startswith("float8")


MEANINGLESS: dict[tuple[str, str], tuple[Holds, str]] = {}


# -- changing ---------------------------------------------------------------------------


class Single(NamedTuple):
    """A case of one op that is read, and what it is read as."""

    name: str
    graph: Graph
    read: Graph
    losses: frozenset[str]


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
                found.append(Single(case.name, graph, *made))
    return tuple(sorted(found))


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


def _known(op: Op) -> dict[str, Any]:
    dictionary: Any = amanda.namespace(op.graph.namespace, assume=True)
    return {attr.name: attr for attr in dictionary[op.type].attrs}


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
    elif attr.base == "int":
        values += [0, 1, 2, -1]
    made = []
    for value in values:
        if value != have and value not in made:
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
    dictionary: Any = amanda.namespace(single.graph.namespace, assume=True)
    for attr in dictionary[op.type].attrs:
        if attr.body is None:
            for value in others(op, attr):
                yield Place(op.type, attr.name), value, changed(single, attr.name, value)
    for at, port in enumerate(dictionary[op.type].inputs):
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
    dictionary: Any = amanda.namespace(graph.namespace, assume=True)
    if dictionary.validate(graph):
        return False
    made = read(graph)
    if isinstance(made, str) or made[1] != single.losses:
        return False
    return bool(made[0].same_as(single.read, names=False))


def is_listed(place: Place, op: Op, value: Any) -> bool:
    """Is it told here why the change means nothing?"""
    for key in ((place.op, place.name), ("", place.name)):
        holds, _ = MEANINGLESS.get(key, (None, ""))
        if holds is not None and holds(op, value):
            return True
    return False


if __name__ == "__main__":
    import time
    b=time.process_time()
    n=len(singles())
    print(n, time.process_time()-b)
    bad=defaultdict(list); tot=Counter()
    err=defaultdict(list)
    for s in singles():
        for place, value, graph in changes(s):
            tot['all']+=1
            try:
                if silent(s, graph) and not is_listed(place, own(graph), value): bad[place].append((s.name,_known(own(s.graph)).get(place.name) and own(s.graph).attrs.get(place.name),value))
            except AmandaError: raise
            except Exception as e: err[place].append((s.name,value,repr(e)))
    print(tot, time.process_time()-b)
    for k,v in sorted(bad.items()): print(tuple(k), len(v), v[:3], v[-1])
    print('ERR')
    for k,v in sorted(err.items()): print(tuple(k), len(v), v[:2])
