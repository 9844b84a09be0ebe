"""Runs of a graph in windows of ops, with the values that others still need.

A window is some consecutive ops as a graph of its own, whose results are all their
outputs. So every value of a model can be looked at in bounded memory: values are
released when nothing needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import amanda
from amanda.backend import extract_graph
from amanda.cli import backend_label
from amanda.graph import Graph, Op, OutputPort
from amanda.tensors import Tensor
from amanda.types import Sym, TensorType, evaluate

__all__ = [
    "Backend",
    "Values",
    "array_bytes",
    "constant_array",
    "reads_of",
    "run_ops",
    "run_part",
    "value_or_constant",
    "windows_of",
    "with_constants",
]

_UNKNOWN_BYTES: Final = 1 << 20
"""What a value of unknown size counts."""


class Backend(NamedTuple):
    """A backend by name, with its options."""

    name: str | None
    options: Mapping[str, Any]

    def __str__(self) -> str:
        return backend_label(self.name or "the default backend", dict(self.options))


Values = dict[OutputPort, Any]
"""Arrays by the value of a graph that they are."""


def windows_of(
    graph: Graph, feeds: Mapping[OutputPort, Any], limit: int
) -> list[list[Op]]:
    """The ops of a graph in order, cut where their outputs exceed a limit.

    Constants are left out.

    Sizes are those of the types, with symbolic dims as in the feeds.
    """
    sizes = _symbol_sizes(feeds)
    windows: list[list[Op]] = [[]]
    used = 0
    for op in graph:
        if op.is_constant:
            continue
        size = sum(_bytes_of(port, sizes) for port in op.outputs)
        if windows[-1] and used + size > limit:
            windows.append([])
            used = 0
        windows[-1].append(op)
        used += size
    return windows if windows[-1] else []


def _symbol_sizes(feeds: Mapping[OutputPort, Any]) -> dict[Any, int]:
    sizes: dict[Any, int] = {}
    for port, value in feeds.items():
        shape = getattr(value, "shape", None)
        if shape is None or not isinstance(port.type, TensorType):
            continue
        if port.type.shape.has_rank and port.type.shape.rank == len(shape):
            for dim, size in zip(port.type.shape, shape, strict=True):
                if isinstance(dim, Sym) and dim.name is not None:
                    sizes[dim] = int(size)
    return sizes


def _bytes_of(port: OutputPort, sizes: Mapping[Any, int]) -> int:
    kind = port.type
    if not isinstance(kind, TensorType) or not kind.shape.has_rank:
        return _UNKNOWN_BYTES
    count = max(kind.dtype.bits, 8) // 8
    for dim in kind.shape:
        if isinstance(dim, Sym):
            if not all(symbol in sizes for symbol in dim.free):
                return _UNKNOWN_BYTES
            dim = evaluate(dim, {symbol: sizes[symbol] for symbol in dim.free})
        count *= int(dim)
    return count


def run_ops(
    graph: Graph,
    ops: Sequence[Op],
    wanted: Iterable[OutputPort],
    value: Callable[[OutputPort], Any],
    backend: Backend,
) -> Values:
    """Run some ops of a graph; `value` returns what they read from outside."""
    results = list(wanted)
    if not results:
        return {}
    part, reads = extract_graph(graph, with_constants(ops), results)
    found = run_part(part, [value(port) for port in reads], backend)
    return dict(zip(results, found, strict=True))


def run_part(part: Graph, feeds: Sequence[Any], backend: Backend) -> list[Any]:
    """The results of a graph, in order; its executable is not kept.

    Its inputs get the types of the feeds, with the content of small integers, which
    decide shapes.
    """
    for port, value in zip(part.parameters, feeds, strict=True):
        if hasattr(value, "dtype") and value.dtype.kind not in "OSUT":
            port.type = Tensor.of(value).type_with_content()
    compiled = amanda.compile(
        part, backend.name, keep_executable=False, **backend.options
    )
    return list(compiled(feeds).values())


def with_constants(ops: Sequence[Op]) -> list[Op]:
    """Ops in order, each constant of their graph that they read before the reader."""
    chosen: dict[Op, None] = {}
    for op in ops:
        for value in reads_of(op):
            if value.op.is_constant and value.op.graph is op.graph:
                chosen.setdefault(value.op)
        chosen.setdefault(op)
    return list(chosen)


def reads_of(op: Op) -> Iterator[OutputPort]:
    """What an op and its bodies read of the graph that it is in."""
    inner = (*op.bodies.values(), *([op] if isinstance(op, Graph) else ()))
    for value in (*op.inputs, *(v for body in inner for v in body.captures)):
        if value is not None:
            yield value


def constant_array(port: OutputPort) -> Any:
    """The array of a constant."""
    return port.op.attrs["value"].numpy()


def value_or_constant(port: OutputPort, values: Mapping[OutputPort, Any]) -> Any:
    """A value that is known; a body reads constants of the graph around it, too."""
    return constant_array(port) if port.op.is_constant else values[port]


def array_bytes(value: Any) -> int:
    """The size of an array, or of a sequence of arrays."""
    if isinstance(value, list | tuple):
        return sum(map(array_bytes, value))
    return int(getattr(value, "nbytes", 0))
