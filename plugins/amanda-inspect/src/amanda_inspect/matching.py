"""Ops and values of two graphs that correspond.

>>> import amanda
>>> graphs = [amanda.Graph("amanda/onnx/18") for _ in range(2)]
>>> for graph, name in zip(graphs, ("x", "input"), strict=True):
...     x = graph.parameter("float32[3]", name)
...     _ = graph.result(graph.add("Relu", [x], name=f"relu of {name}").output)
>>> matching = match_graphs(*graphs)
>>> {op.name: other.name for op, other in matching.ops.items()}
{'relu of input': 'relu of x'}
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from amanda.comparison import match_ports
from amanda.graph import Graph, Op, OutputPort, is_note, is_record
from amanda.tensors import Tensor
from amanda.types import TensorType, Type, accepts

__all__ = [
    "Change",
    "Matching",
    "attribute_changes",
    "describe_differences",
    "match_graphs",
]

_CONSTANT: Final = "constant"
_SAMPLE: Final = 64
"""Elements by which constants are compared."""


class Change(NamedTuple):
    """What an op has, where its counterpart has something else."""

    what: str
    new: str = ""
    old: str = ""
    """Both are empty where `what` says it all."""

    def __str__(self) -> str:
        return f"{self.what}: {self.new}, not {self.old}" if self.new else self.what


class Matching:
    """Which ops and values of a graph `b` correspond to those of a reference `a`."""

    def __init__(self, a: Graph, b: Graph) -> None:
        self.a = a
        self.b = b
        self.ops: dict[Op, Op] = {}
        self.values: dict[OutputPort, OutputPort] = {}
        self._used: set[Op] = set()
        self._paired: set[OutputPort] = set()
        self._equal: dict[tuple[Op, Op], bool] = {}

    def copy(self) -> Matching:
        """A copy, whose pairs may be dropped."""
        copy = Matching(self.a, self.b)
        copy.ops, copy.values = dict(self.ops), dict(self.values)
        copy._used, copy._paired = set(self._used), set(self._paired)
        copy._equal = self._equal
        return copy

    def equal_constants(self, mine: Op, theirs: Op) -> bool:
        """Whether two constants have the same elements; compared once."""
        if (mine, theirs) not in self._equal:
            both = mine.attrs.get("value"), theirs.attrs.get("value")
            tensors = [each for each in both if isinstance(each, Tensor)]
            equal = len(tensors) == 2 and tensors[0].same_content(tensors[1])
            self._equal[mine, theirs] = equal
        return self._equal[mine, theirs]

    def add(self, op: Op, other: Op) -> bool:
        """Match two ops with their outputs, if nothing says otherwise.

        Constants that they read at the same places are matched with them.
        """
        if op in self.ops or other in self._used or not _are_alike(op, other):
            return False
        self.ops[op] = other
        self._used.add(other)
        for mine, theirs in zip(op.outputs, other.outputs, strict=False):
            self.values.setdefault(mine, theirs)
        for read, counterpart in zip(op.inputs, other.inputs, strict=False):
            if read is None or counterpart is None or read.op in self.ops:
                continue
            if read.op.is_constant and counterpart.op.is_constant:
                self.ops[read.op] = counterpart.op
                self.values.setdefault(read, counterpart)
        return True

    def add_values(self, mine: OutputPort, theirs: OutputPort) -> None:
        """Match values that different ops compute, if their types allow it."""
        if theirs not in self._paired and _may_be_equal(mine.type, theirs.type):
            self.values[mine] = theirs
            self._paired.add(theirs)

    def is_free(self, other: Op) -> bool:
        """Whether an op of the reference has no counterpart yet."""
        return other not in self._used

    def is_inside(self, op: Op, other: Op) -> bool:
        """Whether two ops are ops of the graphs that compute something: no constants,
        and none around a body, which reads their values."""
        is_constant = op.is_constant or other.is_constant
        return not is_constant and op.graph is self.b and other.graph is self.a

    def unmatched_ops(self) -> list[Op]:
        """Ops of `b` without a counterpart, in order; constants are left out."""
        return [op for op in self.b if not op.is_constant and op not in self.ops]

    def unmatched_reference_ops(self) -> list[Op]:
        """Ops of `a` without a counterpart, in order; constants are left out."""
        return [op for op in self.a if not op.is_constant and op not in self._used]


def match_graphs(
    a: Graph,
    b: Graph,
    inputs: Mapping[OutputPort, OutputPort] | None = None,
    results: Sequence[tuple[OutputPort, OutputPort]] | None = None,
) -> Matching:
    """Match the ops of two graphs of one namespace.

    Inputs and results correspond by name, order or type, or `inputs` of b to those of a
    as given, and then `results`, by default in order. From the inputs on, ops of one
    type match that read matched values at the same places; of several, those with the
    same name, attributes and constants. What is left is matched from the results
    backwards, by the places at which matched ops read, then by name, then by weights
    that one op of each graph reads. Types of outputs must agree, unless nothing else is
    left and ops of one type read them.
    """
    matching = Matching(a, b)
    if a is b:
        for op in a:
            matching.add(op, op)
            matching.values.update({port: port for port in op.outputs})
        matching.values.update({port: port for port in a.parameters})
        return matching
    if inputs is None:
        _match_inputs(matching)
        results = _result_pairs(matching)
    else:
        matching.values.update(inputs)
        both = zip(b.results, a.results, strict=False) if results is None else results
        results = [(x, y) for x, y in both if x is not None and y is not None]
    while True:
        before = len(matching.ops)
        _match_forward(matching, _give_equal_types)
        _match_backward(matching, results)
        for match in (_match_names, _match_weights, _match_alike):
            if len(matching.ops) == before:
                match(matching)
        if len(matching.ops) == before and not _match_values(matching, results):
            return matching


def _are_alike(op: Op, other: Op) -> bool:
    """Whether two ops may correspond: one type, and as many outputs."""
    return (
        op.type == other.type
        and op.own_namespace == other.own_namespace
        and op.is_graph == other.is_graph
        and len(op.outputs) == len(other.outputs)
    )


def _may_be_equal(mine: Type | None, theirs: Type | None) -> bool:
    if isinstance(mine, TensorType) and isinstance(theirs, TensorType):
        return accepts(mine, theirs) is not False and mine.dtype == theirs.dtype
    return mine is None or theirs is None


def _match_inputs(matching: Matching) -> None:
    sides = [
        {_key(port.name, port.index): port for port in graph.parameters}
        for graph in (matching.a, matching.b)
    ]
    types: list[dict[Any, Any]] = [
        {key: port.type for key, port in side.items()} for side in sides
    ]
    for key, other in match_ports(types[0], types[1], "inputs").items():
        matching.values[sides[1][other]] = sides[0][key]


def _key(name: str | None, index: int) -> str | int:
    return index if name is None else name


def _result_pairs(matching: Matching) -> list[tuple[OutputPort, OutputPort]]:
    """Results of b and a that correspond."""
    sides = [
        {
            _key(port.name, port.index): value
            for port, value in zip(graph.outputs, graph.results, strict=True)
        }
        for graph in (matching.a, matching.b)
    ]
    types: list[dict[Any, Any]] = [
        {key: None if v is None else v.type for key, v in side.items()}
        for side in sides
    ]
    pairs = match_ports(types[0], types[1], "outputs").items()
    found = [(sides[1][other], sides[0][key]) for key, other in pairs]
    return [(b, a) for b, a in found if b is not None and a is not None]


def _give_equal_types(op: Op, other: Op) -> bool:
    """Whether the outputs of two ops may be equal, as far as their types say."""
    both = zip(op.outputs, other.outputs, strict=False)
    return all(_may_be_equal(mine.type, theirs.type) for mine, theirs in both)


def _are_read_alike(op: Op, other: Op) -> bool:
    """Whether ops of one type read the outputs of two ops."""
    users = (
        {user.type for port in each.outputs for user in port.user_ops}
        for each in (op, other)
    )
    return bool(set.intersection(*users))


def _match_alike(matching: Matching) -> None:
    """Match ops that read matched values, though their types differ."""
    _match_forward(matching, _are_read_alike)


def _match_forward(matching: Matching, may_match: Callable[[Op, Op], bool]) -> None:
    """Match ops that read matched values at the same places."""
    waiting: dict[Any, list[Op]] = defaultdict(list)
    for other in matching.a:
        if not other.is_constant and matching.is_free(other):
            waiting[_signature(other, list(other.inputs))].append(other)
    for op in matching.b:
        if op.is_constant or op in matching.ops:
            continue
        inputs = _counterparts(matching, op)
        if inputs is None:
            continue
        candidates = [
            other
            for other in waiting.get(_signature(op, inputs), ())
            if matching.is_free(other) and may_match(op, other)
        ]
        if candidates:
            matching.add(op, _most_similar(op, candidates))


def _counterparts(matching: Matching, op: Op) -> list[OutputPort | None] | None:
    """The inputs of an op in the reference; None where one is not matched yet."""
    found: list[OutputPort | None] = []
    for value in op.inputs:
        if value is None or value.op.is_constant:
            found.append(value)
        elif value in matching.values:
            found.append(matching.values[value])
        else:
            return None
    return found


def _signature(op: Op, inputs: Sequence[OutputPort | None]) -> tuple[Any, ...]:
    """What two ops share that read the same values; constants are one value."""
    reads = tuple(
        None if v is None else _CONSTANT if v.op.is_constant else v for v in inputs
    )
    return (op.type, op.own_namespace, len(op.outputs), reads)


def _most_similar(op: Op, candidates: Sequence[Op]) -> Op:
    """The candidate that shares most with an op; the first of equals."""
    if len(candidates) == 1:
        return candidates[0]
    return max(candidates, key=lambda other: _similarity(op, other))


def _similarity(op: Op, other: Op) -> tuple[int, int, int]:
    named = op.name is not None and op.name == other.name
    constants = sum(
        _same_constant(mine, theirs)
        for mine, theirs in zip(op.inputs, other.inputs, strict=False)
    )
    attributes = sum(
        key in other.attrs and _same(value, other.attrs[key])
        for key, value in op.attrs.items()
    )
    return int(named), constants, attributes


def _same_constant(mine: OutputPort | None, theirs: OutputPort | None) -> bool:
    if mine is None or theirs is None:
        return mine is theirs
    if not (mine.op.is_constant and theirs.op.is_constant):
        return False
    return _same(mine.op.attrs.get("value"), theirs.op.attrs.get("value"))


def describe_differences(op: Op, other: Op) -> list[str]:
    """Attributes and constant inputs of an op that its counterpart has not.

    >>> import amanda
    >>> graphs = [amanda.Graph("amanda/onnx/18") for _ in range(2)]
    >>> softmax = [
    ...     graph.add("Softmax", [graph.parameter("float32[2, 3]")], {"axis": axis})
    ...     for axis, graph in enumerate(graphs)
    ... ]
    >>> describe_differences(*softmax)
    ['attribute axis: 0, not 1']
    """
    found = [str(each) for each in attribute_changes(op, other)]
    for i, (read, counterpart) in enumerate(zip(op.inputs, other.inputs, strict=False)):
        if read is None or counterpart is None:
            continue
        both = read.op.is_constant and counterpart.op.is_constant
        if both and not _same_constant(read, counterpart):
            found.append(f"constant input {i}, {read.op.label}: other elements")
    return found


def attribute_changes(op: Op, other: Op) -> list[Change]:
    """Attributes of an op that its counterpart has not; notes are left out."""
    found = []
    for key in sorted({*op.attrs, *other.attrs}):
        mine, theirs = (each.attrs.get(key, "the default") for each in (op, other))
        if not is_note(key) and not is_record(key) and not _same(mine, theirs):
            found.append(Change(f"attribute {key}", str(mine), str(theirs)))
    return found


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and a.digest() == b.digest()
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return a == b or _as_float32(a) == _as_float32(b)
    return bool(type(a) is type(b) and a == b)


def _as_float32(value: float) -> bytes:
    """The bits of a number in float32, the precision of attributes of ONNX."""
    import numpy as np

    with np.errstate(over="ignore"):
        return np.float32(value).tobytes()


def _match_backward(
    matching: Matching, results: Sequence[tuple[OutputPort, OutputPort]]
) -> None:
    """Match what matched ops, and results, read at the same places."""
    waiting = [*results, *_read_pairs(list(matching.ops.items()))]
    while waiting:
        mine, theirs = waiting.pop()
        op, other = mine.op, theirs.op
        if not matching.is_inside(op, other) or mine in matching.values:
            continue
        if not _may_be_equal(mine.type, theirs.type):
            continue
        if mine.index == theirs.index and matching.add(op, other):
            waiting += _read_pairs([(op, other)])


def _match_values(
    matching: Matching, results: Sequence[tuple[OutputPort, OutputPort]]
) -> int:
    """Match values that different ops compute, and matched ops, or results, read."""
    before = len(matching.values)
    for mine, theirs in (*results, *_read_pairs(list(matching.ops.items()))):
        op, other = mine.op, theirs.op
        is_open = op not in matching.ops and matching.is_free(other)
        is_inside = matching.is_inside(op, other)
        if is_inside and is_open and mine not in matching.values:
            matching.add_values(mine, theirs)
    return len(matching.values) - before


def _read_pairs(
    ops: Sequence[tuple[Op, Op]],
) -> Iterator[tuple[OutputPort, OutputPort]]:
    for op, other in ops:
        for mine, theirs in zip(op.inputs, other.inputs, strict=False):
            if mine is not None and theirs is not None:
                yield mine, theirs


def _match_names(matching: Matching) -> None:
    """Match ops of one name and type."""
    named = {
        other.name: other
        for other in matching.unmatched_reference_ops()
        if other.name is not None
    }
    for op in matching.unmatched_ops():
        if op.name in named:
            matching.add(op, named[op.name])


def _match_weights(matching: Matching) -> None:
    """Match ops of one type that alone read constants of the same elements.

    They are found between ops that only one of the graphs has.
    """
    theirs = _ops_by_weight(matching.unmatched_reference_ops())
    mine = _ops_by_weight(matching.unmatched_ops()) if theirs else {}
    for weight, ops in mine.items():
        others = theirs.get(weight, ())
        if len(ops) == len(others) == 1:
            matching.add(ops[0], others[0])


def _ops_by_weight(ops: Sequence[Op]) -> dict[Any, list[Op]]:
    """Ops by each constant that they read: its place, type and a sample of it."""
    found: dict[Any, list[Op]] = defaultdict(list)
    for op in ops:
        for i, value in enumerate(op.inputs):
            tensor = None if value is None else value.op.attrs.get("value")
            if value is None or not value.op.is_constant:
                continue
            if isinstance(tensor, Tensor) and tensor.size > 1:
                key = (op.type, op.own_namespace, i, tensor.shape, str(tensor.dtype))
                found[*key, _sample(tensor)].append(op)
    return found


def _sample(tensor: Tensor) -> bytes:
    """Some elements of a tensor, evenly spread."""
    flat = tensor.numpy().reshape(-1)
    sample: bytes = flat[:: max(1, flat.size // _SAMPLE)].tobytes()
    return sample
