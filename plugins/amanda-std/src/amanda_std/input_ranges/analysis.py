"""The hook `find_input_ranges`: what the readers of inputs accept, found in the hub."""

from __future__ import annotations

from typing import Any, Final

import amanda
from amanda.errors import ConversionError
from amanda.feeds import InputRange
from amanda.graph import Graph, Op, OutputPort, Parameter
from amanda.types import TensorType
from amanda_std.engine.annotations import SHAPE_ARG
from amanda_std.engine.links import NAMESPACE
from amanda_std.hub.expansion import is_not_composite
from amanda_std.hub.lowering import lower
from amanda_std.hub.op_access import is_std, operation_of, shape_arguments
from amanda_std.input_ranges.flows import Flows
from amanda_std.input_ranges.readers import DOMAINS, INDEX_READERS, Call, Interval
from amanda_std.passes import fold, infer

__all__ = ["find_input_ranges"]

_MASKED: Final = -1e3
"""What is added to scores, or put in place of them, where a position is masked."""
_PLACES: Final = frozenset({"axes", "axis", "starts", "start", "shifts", "k_diagonal"})
"""Shape arguments that may be 0; the others count something."""
_LENGTHS: Final = frozenset({"lengths", "steps"})


def find_input_ranges(graph: Graph) -> dict[str | int, InputRange]:
    """The values that the inputs of a graph accept, if its namespace has a mapping to
    the hub."""
    hub = graph
    if graph.namespace != NAMESPACE:
        try:
            hub = amanda.convert(graph, NAMESPACE, keep_foreign=True)
        except ConversionError:
            return {}
    infer(hub)
    lower(hub, lambda op: is_not_composite(op) or op.type in INDEX_READERS)
    fold(hub)
    infer(hub)
    found = _Ranges(hub)
    names = {_key(port): port for port in hub.parameters}
    return {
        key: range_
        for key, port in names.items()
        if (range_ := _by_name(port, found.of(port))) is not None
    }


def _key(port: Parameter) -> str | int:
    return port.index if port.name is None else port.name


class _Ranges:
    """The ranges of the inputs of a graph of the hub."""

    def __init__(self, graph: Graph) -> None:
        self._flows = Flows(graph)
        self._found: dict[OutputPort, InputRange] = {}
        self._masks: dict[OutputPort, InputRange] = {}
        for op in self._flows.ops:
            if is_std(op):
                self._read(op)

    def of(self, port: Parameter) -> InputRange | None:
        """The range of an input: as an index, or else as a mask."""
        return self._found.get(port) or self._masks.get(port)

    def _read(self, op: Op) -> None:
        kind = op.type or ""
        if kind in INDEX_READERS:
            self._read_indices(op)
        if kind in DOMAINS:
            self._limit(op.inputs[0], DOMAINS[kind], "number")
        if kind in ("divide", "floor_divide", "remainder", "truncated_remainder"):
            self._read_divisor(op)
        if kind == "where":
            self._read_mask(op)
        if kind in ("add", "subtract"):
            self._read_added_mask(op)
        self._read_sizes(op)

    def _read_indices(self, op: Op) -> None:
        call = Call(op)
        for name, limit in INDEX_READERS[op.type or ""].items():
            port = call.values.get(name)
            if isinstance(port, OutputPort) and self._flows.origins(port):
                accepted = limit(call)
                role = "length" if name in _LENGTHS else "index"
                if accepted is not None:
                    self._limit(port, accepted, role)

    def _read_divisor(self, op: Op) -> None:
        port = op.inputs[1]
        type_ = None if port is None else port.type
        if isinstance(type_, TensorType) and type_.dtype.kind in ("int", "uint"):
            self._limit(port, Interval(1, None), "number")

    def _read_mask(self, op: Op) -> None:
        """A condition that puts a very negative number in place of a score."""
        condition, a, b = op.inputs
        ends = [self._flows.interval(port).high for port in (a, b)]
        masked = [end is not None and end <= _MASKED for end in ends]
        for origin in self._flows.origins(condition):
            if origin.is_binary and masked[0] != masked[1]:
                keeps = masked[1] == (origin.scale > 0)
                self._masks[origin.input] = InputRange(0, 1, "mask", keeps)
            elif origin.is_binary:
                self._masks.setdefault(origin.input, InputRange(0, 1, "mask"))

    def _read_added_mask(self, op: Op) -> None:
        """A mask that was scaled to a very negative number, to be added to scores."""
        for port in op.inputs:
            for origin in self._flows.origins(port):
                zero, one = origin.high, origin.scale + origin.high
                if (zero <= _MASKED) != (one <= _MASKED):
                    mask = InputRange(0, 1, "mask", one > zero)
                    self._masks[origin.input] = mask

    def _read_sizes(self, op: Op) -> None:
        if not any(p.role == SHAPE_ARG for p in operation_of(op).form.params):
            return
        for name, port in shape_arguments(op).items():
            if isinstance(port, OutputPort) and self._flows.origins(port):
                least = 0 if name in _PLACES else 1
                is_shape = op.type == "reshape" and name == "shape"
                role = "shape" if is_shape else "size"
                self._limit(port, Interval(least, None), role)

    def _limit(self, port: OutputPort | None, accepted: Interval, role: str) -> None:
        for origin in self._flows.origins(port):
            if origin.is_binary:
                continue
            solved = origin.solve(accepted)
            is_ordered = origin.is_difference and role == "index"
            new = InputRange(solved.low, solved.high, "ordered" if is_ordered else role)
            known = self._found.get(origin.input)
            self._found[origin.input] = new if known is None else known.intersect(new)


def _by_name(port: Parameter, found: InputRange | None) -> InputRange | None:
    """A range with what the name of the input says: positions increase, masks pad."""
    name, type_ = (port.name or "").lower(), port.type
    kind = type_.dtype.kind if isinstance(type_, TensorType) else ""
    if kind not in ("int", "uint"):
        return found
    if "position" in name and (found is None or found.role in ("index", "number")):
        known: Any = found or InputRange(0)
        return InputRange(known.low, known.high, "position")
    if "mask" in name and (found is None or found.role == "number"):
        return InputRange(0, 1, "mask")
    return found
