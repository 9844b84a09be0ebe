"""How two models differ: structure, attributes, types and weights.

>>> import amanda
>>> from amanda_std import ops
>>> def network(axis):
...     graph = amanda.Graph("amanda/std/1")
...     x = graph.parameter("float32[4, 8]", "x")
...     graph.result(ops.softmax(ops.tanh(x), axes=(axis,)), "y")
...     return graph
>>> print(*diff(network(0), network(1)).lines(), sep="\\n")
softmax #1: attribute axes: (1,), not (0,)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from amanda.comparison import Difference, Tolerance, compare_values
from amanda.graph import Graph, Op, OutputPort
from amanda.tensors import Tensor
from amanda_inspect.matching import Change, Matching, attribute_changes, match_graphs

__all__ = ["ChangedOp", "ChangedWeight", "GraphDifference", "diff", "scope_of"]

_EXACT: Final = Tolerance(0, 0)


@dataclass(frozen=True)
class ChangedWeight:
    """A constant with other elements than its counterpart."""

    place: str
    """Its name, or the op and input that read it."""
    op: Op
    """The constant, of the second graph."""
    counterpart: Op
    difference: Difference

    @property
    def tensors(self) -> tuple[Tensor, Tensor]:
        """Its tensor, and that of the first graph."""
        mine, theirs = (each.attrs["value"] for each in (self.op, self.counterpart))
        return mine, theirs

    @property
    def norms(self) -> tuple[float | None, float | None]:
        """The Euclidean norms of both, where they have numbers that are finite."""
        mine, theirs = self.tensors
        return _norm(mine), _norm(theirs)

    def __str__(self) -> str:
        return f"weight {self.place}: {self.difference}"


@dataclass(frozen=True)
class ChangedOp:
    """An op that corresponds to one of the other model and differs from it."""

    op: Op
    counterpart: Op
    changes: tuple[Change, ...]
    """Its attributes, inputs and types that differ, and bodies that one of them has."""
    bodies: dict[str, GraphDifference] = field(default_factory=dict)
    """How its bodies differ, where they do."""

    @property
    def texts(self) -> tuple[str, ...]:
        """What differs, in its bodies too."""
        inner = (
            f"body {key}: {line}"
            for key, body in self.bodies.items()
            for line in body.lines()
        )
        return (*map(str, self.changes), *inner)

    def __str__(self) -> str:
        return f"{self.op.label}: {'; '.join(self.texts)}"


@dataclass
class GraphDifference:
    """What a graph has and another has not."""

    graphs: tuple[Graph, Graph]
    head: list[str] = field(default_factory=list)
    """Differences of namespaces, inputs, outputs, and functions that one has."""
    functions: dict[str, GraphDifference] = field(default_factory=dict)
    """How functions of both differ, where they do."""
    changed: list[ChangedOp] = field(default_factory=list)
    weights: list[ChangedWeight] = field(default_factory=list)
    removed: list[Op] = field(default_factory=list)
    """Ops of the first graph that correspond to none of the second."""
    added: list[Op] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether the graphs have the same structure, attributes and weights."""
        return not any(
            (self.head, self.functions, self.changed, self.weights, self.removed,
             self.added)
        )  # fmt: skip

    @property
    def head_lines(self) -> list[str]:
        """The differences of namespaces, inputs, outputs and functions."""
        inner = (
            f"function {name}: {line}"
            for name, each in self.functions.items()
            for line in each.lines()
        )
        return [*self.head, *inner]

    def lines(self, limit: int | None = None) -> Iterator[str]:
        """The differences as text; ops that are added or removed by scope and type."""
        yield from self.head_lines
        for rows in (self.changed, self.weights):
            yield from map(str, rows[:limit])
            if limit is not None and len(rows) > limit:
                yield f"... and {len(rows) - limit} more"
        for word, ops in (("removed", self.removed), ("added", self.added)):
            yield from _ops_by_scope(word, ops, limit)

    def walk(self, place: str = "") -> Iterator[tuple[str, GraphDifference]]:
        """This difference, and those of bodies and functions with their places."""
        yield place, self
        prefix = f"{place} / " if place else ""
        for each in self.changed:
            for key, body in each.bodies.items():
                yield from body.walk(f"{prefix}{each.op.label} / {key}")
        for name, function in self.functions.items():
            yield from function.walk(f"{prefix}function {name}")


def diff(a: Graph, b: Graph) -> GraphDifference:
    """How `b` differs from `a`, of the same namespace.

    Ops correspond as `match_graphs` finds: by what they read, not by their order.
    """
    matching = match_graphs(a, b)
    found = GraphDifference((a, b), list(_head(a, b)))
    for name in sorted(a.functions.keys() & b.functions.keys()):
        inner = diff(a.functions[name], b.functions[name])
        if not inner.is_empty:
            found.functions[name] = inner
    _compare_matched(matching, found)
    found.removed += matching.unmatched_reference_ops()
    found.added += matching.unmatched_ops()
    return found


def _head(a: Graph, b: Graph) -> Iterator[str]:
    if a.namespace != b.namespace:
        yield f"namespace {b.namespace}, not {a.namespace}"
    for word, mine, theirs in (
        ("input", b.parameters, a.parameters),
        ("output", b.outputs, a.outputs),
    ):
        own = {_key(port): port for port in mine}
        others = {_key(port): port for port in theirs}
        for key in others.keys() - own.keys():
            yield f"{word} {key} removed"
        for key, port in own.items():
            if key not in others:
                yield f"{word} {key} added"
            else:
                types = _type(b, port), _type(a, others[key])
                if None not in types and str(types[0]) != str(types[1]):
                    yield f"{word} {key}: {types[0]}, not {types[1]}"
    for name in sorted(a.functions.keys() - b.functions.keys()):
        yield f"function {name} removed"
    for name in sorted(b.functions.keys() - a.functions.keys()):
        yield f"function {name} added"


def _key(port: OutputPort) -> str:
    return str(port.index if port.name is None else port.name)


def _type(graph: Graph, port: OutputPort) -> Any:
    """The type of an input, or of the value that is a result."""
    if port in graph.outputs:
        value = graph.results[port.index]
        return None if value is None else value.type
    return port.type


def _compare_matched(matching: Matching, found: GraphDifference) -> None:
    seen: set[Op] = set()
    for op, other in matching.ops.items():
        if op is other or op.is_constant:
            continue
        changes = [
            *attribute_changes(op, other),
            *_input_differences(matching, op, other),
            *_type_differences(op, other),
        ]
        bodies = {}
        for key in sorted({*op.bodies, *other.bodies}):
            body = _body_difference(matching, op, other, key)
            if isinstance(body, Change):
                changes.append(body)
            elif not body.is_empty:
                bodies[key] = body
        if changes or bodies:
            found.changed.append(ChangedOp(op, other, tuple(changes), bodies))
        for i, (mine, theirs) in enumerate(zip(op.inputs, other.inputs, strict=False)):
            if mine is None or theirs is None or mine.op in seen:
                continue
            if mine.op.is_constant and theirs.op.is_constant:
                seen.add(mine.op)
                found.weights += _weight_differences(op, i, mine, theirs)


def _input_differences(matching: Matching, op: Op, other: Op) -> Iterator[Change]:
    """Inputs that are other values than those of the counterpart."""
    if len(op.inputs) != len(other.inputs):
        yield Change(f"{len(op.inputs)} inputs, not {len(other.inputs)}")
    for i, (mine, theirs) in enumerate(zip(op.inputs, other.inputs, strict=False)):
        if mine is None or theirs is None:
            is_same = mine is theirs
        else:
            both = mine.op.is_constant and theirs.op.is_constant
            is_same = both or matching.values.get(mine) is theirs
        if not is_same:
            yield Change(f"input {i}", _value_text(mine), _value_text(theirs))


def _value_text(value: OutputPort | None) -> str:
    if value is None:
        return "none"
    return value.name or value.op.label


def _type_differences(op: Op, other: Op) -> Iterator[Change]:
    for mine, theirs in zip(op.outputs, other.outputs, strict=False):
        if mine.type is not None and theirs.type is not None:
            texts = str(mine.type), str(theirs.type)
            if texts[0] != texts[1]:
                yield Change(f"output {mine.index}", *texts)


def _body_difference(
    outer: Matching, op: Op, other: Op, key: str
) -> GraphDifference | Change:
    mine, theirs = op.bodies.get(key), other.bodies.get(key)
    if mine is None or theirs is None:
        return Change(f"body {key} {'removed' if mine is None else 'added'}")
    inputs: dict[OutputPort, OutputPort] = {}
    inputs.update(zip(mine.parameters, theirs.parameters, strict=False))
    inputs |= {v: outer.values[v] for v in mine.captures if v in outer.values}
    matching = match_graphs(theirs, mine, inputs)
    found = GraphDifference((theirs, mine))
    _compare_matched(matching, found)
    found.removed += matching.unmatched_reference_ops()
    found.added += matching.unmatched_ops()
    return found


def _weight_differences(
    op: Op, i: int, mine: OutputPort, theirs: OutputPort
) -> Iterator[ChangedWeight]:
    own, other = (port.op.attrs.get("value") for port in (mine, theirs))
    if own is None or other is None:
        return
    is_alike = (own.dtype, own.shape) == (other.dtype, other.shape)
    if is_alike and own.digest() == other.digest():
        return
    difference = compare_values(own.numpy(), other.numpy(), _EXACT)
    if not difference.equal:
        place = mine.op.name or f"{op.label} input {i}"
        yield ChangedWeight(place, mine.op, theirs.op, difference)


def _norm(tensor: Tensor) -> float | None:
    import numpy as np

    if tensor.dtype.kind not in ("float", "int", "uint", "complex"):
        return None
    array = tensor.numpy()
    wide = array.astype("complex128" if array.dtype.kind == "c" else "float64")
    norm = float(np.linalg.norm(wide))
    return norm if np.isfinite(norm) else None


def _ops_by_scope(word: str, ops: Sequence[Op], limit: int | None) -> Iterator[str]:
    """Ops one by one, or counted by scope and type where they are many."""
    if limit is None or len(ops) <= limit:
        yield from (f"{word} {op.label}" for op in ops)
        return
    counts = Counter((scope_of(op), op.type or "graph") for op in ops)
    for (scope, kind), count in counts.most_common(limit):
        yield f"{word} {count} {kind}{f' in {scope}' if scope else ''}"
    if len(counts) > limit:
        yield f"... and {len(counts) - limit} more"


def scope_of(op: Op) -> str:
    """The scopes in the name of an op."""
    return (op.name or "").rpartition("/")[0].strip("/")
