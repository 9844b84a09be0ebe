"""Memory of a graph, estimated without running it: weights, and values while they live.

A value lives from the op that computes it to its last user. Backends that fuse ops or
reuse buffers need less, those with buffers of their own more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from amanda.types import Dim, Sym, TensorType, evaluate

if TYPE_CHECKING:
    from amanda.graph import Graph, Op, OutputPort
    from amanda.types import Type

__all__ = ["MemoryEstimate", "estimate_memory", "type_bytes"]

_LARGE = 1 << 12
"""The size of symbolic dims at which formulas are compared."""


class MemoryEstimate(NamedTuple):
    """Bytes that a graph needs, where dims are symbolic as a formula."""

    weights: int
    """Bytes of all constants; shared ones count once."""
    peak: Dim
    """The most bytes that values need at once, beside the weights; where dims are
    symbolic, at the op that needs most when they are large."""
    peak_at: str | None
    """The op at which this is."""
    unknown: int
    """The number of values of unknown size, which are not counted."""


def type_bytes(type: Type | None) -> Dim | None:
    """The bytes of a value of a type; None if it is no tensor of known rank."""
    if not isinstance(type, TensorType) or not type.shape.has_rank:
        return None
    bits: Dim = type.dtype.bits
    if bits == 0 or any(isinstance(d, Sym) and d.is_anonymous for d in type.shape.dims):
        return None
    for dim in type.shape.dims:
        bits = bits * dim
    return bits // 8 if isinstance(bits, Sym) else -(-bits // 8)


def estimate_memory(graph: Graph) -> MemoryEstimate:
    """Estimate the memory of a graph, bodies included, from the types of its values."""
    walked = _Liveness()
    peak, at = walked.peak_of(graph)
    return MemoryEstimate(_weight_bytes(graph), peak, at, walked.unknown)


def _weight_bytes(graph: Graph) -> int:
    from amanda.graph import VALUE_NOTE
    from amanda.tensors import Tensor

    tensors = {
        id(tensor): tensor.nbytes
        for op in graph.walk()
        if op.has_attrs
        for tensor in (op.attrs.get("value" if op.is_constant else VALUE_NOTE),)
        if isinstance(tensor, Tensor)
    }
    return sum(tensors.values())


class _Liveness:
    """The sizes of living values, op by op."""

    def __init__(self) -> None:
        self.unknown = 0

    def peak_of(self, graph: Graph) -> tuple[Dim, str | None]:
        """The most bytes of values that a graph, but none around it, computes."""
        last = _last_readers(graph)
        sizes: dict[OutputPort, Dim]
        sizes = {port: self._size(port) for port in graph.parameters}
        live: Dim = sum(sizes.values(), start=0)
        found: tuple[Dim, str | None] = (live, None)
        for op in graph:
            if op.is_constant:
                continue
            own = {port: self._size(port) for port in op.outputs}
            live = live + sum(own.values(), start=0)
            sizes |= own
            inner, place = max(
                (self.peak_of(body) for body in _inner_graphs(op)),
                key=lambda each: _at_large_dims(each[0]),
                default=(0, None),
            )
            here = live + inner
            if _at_large_dims(here) > _at_large_dims(found[0]):
                found = (here, f"{place}, in {op.label}" if place else op.label)
            for port in last.get(op, ()):
                live = live - sizes.pop(port, 0)
        return found

    def _size(self, port: OutputPort) -> Dim:
        size = type_bytes(port.type)
        self.unknown += size is None
        return 0 if size is None else size


def _inner_graphs(op: Op) -> Iterator[Graph]:
    from amanda.graph import Graph

    if isinstance(op, Graph):
        yield op
    yield from op.bodies.values()


def _last_readers(graph: Graph) -> Mapping[Op, list[OutputPort]]:
    """Values by the op after which nothing reads them; not results and inputs."""
    kept = {value for value in graph.results if value is not None}
    last: dict[OutputPort, Op] = {}
    for op in graph:
        last.update((port, op) for port in op.outputs)
        last.update((v, op) for v in _read_values(op) if v.op.graph is graph)
    readers: dict[Op, list[OutputPort]] = {}
    for port, op in last.items():
        if port not in kept:
            readers.setdefault(op, []).append(port)
    return readers


def _read_values(op: Op) -> Iterable[OutputPort]:
    captured = (v for body in _inner_graphs(op) for v in body.captures)
    return (v for v in (*op.inputs, *captured) if v is not None)


def _at_large_dims(size: Dim) -> int:
    """The size with a large number for each symbol, to compare formulas."""
    if not isinstance(size, Sym):
        return size
    return evaluate(size, dict.fromkeys(size.free, _LARGE))
