"""Models with their feeds, and parts of them whose inputs are recorded values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import amanda
from amanda.graph import Graph, Op, OutputPort, unused_name
from amanda.tensors import Tensor
from amanda.types import TensorType
from amanda_inspect.windows import Backend, reads_of

__all__ = ["Model", "Recorder", "count_ops", "is_array", "ops_of", "replace_values"]

SMALL: Final = 64
"""Integers up to this many elements may be shapes, so they become constants."""


@dataclass(frozen=True)
class Model:
    """A graph with an array for each input, by name."""

    graph: Graph
    feeds: Mapping[str, Any]

    @classmethod
    def of(cls, graph: Graph, feeds: Mapping[Any, Any]) -> Model:
        """A copy in which every input has a name."""
        copy = graph.clone()
        arrays = {}
        for old, port in zip(graph.parameters, copy.parameters, strict=True):
            key = port.index if port.name is None else port.name
            if port.name is None:
                port.name = _free_name(copy, f"input_{port.index}")
            for known in (key, old):
                if known in feeds:
                    arrays[port.name] = feeds[known]
        return cls(copy, arrays)

    def copy(self) -> tuple[Graph, dict[Any, Any]]:
        """A copy of the graph, and what each op and value became in it."""
        memo: dict[Any, Any] = {}
        return self.graph.clone(memo=memo), memo

    def with_graph(self, graph: Graph, feeds: Mapping[str, Any] | None = None) -> Model:
        """Another graph with those of the feeds that it has inputs for."""
        feeds = {**self.feeds, **(feeds or {})}
        names = [port.name for port in graph.parameters]
        return Model(graph, {str(n): feeds[str(n)] for n in names if n in feeds})

    def with_results(self, results: Iterable[OutputPort]) -> Model | None:
        """The part that some values need; None where no op computes them."""
        ports = [port for port in dict.fromkeys(results) if port.op is not self.graph]
        return self.with_graph(self.graph.clone(ports)) if ports else None


def ops_of(graph: Graph) -> list[Op]:
    """The ops of a graph in order, without constants."""
    return [op for op in graph if not op.is_constant]


def count_ops(graph: Graph) -> int:
    """The number of ops at any depth, without constants.

    >>> graph = Graph("amanda/std/1")
    >>> x = graph.parameter("float32[2]")
    >>> two = graph.constant([2.0, 2.0]).output
    >>> _ = graph.add("add", [graph.add("tanh", [x]).output, two])
    >>> count_ops(graph)
    2
    """
    return sum(not op.is_constant for op in graph.walk())


def is_array(value: Any) -> bool:
    """Whether a value is an array of numbers or truth values, not a sequence."""
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    return bool(kind) and kind in "biufcV"


def replace_values(
    model: Model,
    values: Mapping[OutputPort, Any],
    results: Sequence[OutputPort],
    *,
    constants: bool,
) -> Model | None:
    """The part of a model that computes results from some values.

    These become inputs with the arrays as feeds; with `constants`, small arrays of
    integers become constants.
    """
    graph, memo = model.copy()
    feeds: dict[str, Any] = {}
    for port, array in values.items():
        if constants and array.dtype.kind in "biu" and array.size <= SMALL:
            with graph.before(next(iter(graph), None)):
                new = graph.constant(array).output
        else:
            name = _free_name(graph, port.name or f"value_{len(feeds)}")
            new = graph.parameter(Tensor.of(array).type, name)
            feeds[name] = array
        graph.replace_uses(memo[port], new)
    targets = [memo[port] for port in results]
    return model.with_graph(graph, feeds).with_results(targets)


def _free_name(graph: Graph, stem: str) -> str:
    names = {port.name for port in graph.parameters}
    return unused_name(stem, names.__contains__)


@dataclass
class Recorder:
    """Values of a model, as a backend computes them.

    Where it cannot, arrays of the recorded types are drawn, as far as these are static.
    """

    backend: Backend
    drawn: int = field(default=0)
    """How many values were drawn."""

    def arrays(
        self, model: Model, ports: Sequence[OutputPort]
    ) -> dict[OutputPort, Any] | None:
        """An array for each value; None where there is none for some of them."""
        try:
            return self.compute(model, ports)
        except Exception:  # noqa: BLE001  the model under test may fail here, too
            return self._draw(ports)

    def compute(
        self, model: Model, ports: Sequence[OutputPort]
    ) -> dict[OutputPort, Any] | None:
        """The values by port; None where some are not arrays."""
        computed = [port for port in ports if port.op is not model.graph]
        found = {p: model.feeds.get(p.name or "") for p in ports if p not in computed}
        if computed:
            part = model.with_graph(model.graph.clone(computed))
            for i, port in enumerate(part.graph.outputs):
                port.name = f"value {i}"
            compiled = amanda.compile(
                part.graph, self.backend.name, keep_executable=False,
                **{"seed": 0, **self.backend.options},
            )  # fmt: skip
            arrays = compiled(dict(part.feeds)).values()
            found.update(zip(computed, arrays, strict=True))
        return found if all(map(is_array, found.values())) else None

    def _draw(self, ports: Sequence[OutputPort]) -> dict[OutputPort, Any] | None:
        import numpy as np

        numbers = np.random.default_rng(0)
        found = {}
        for port in ports:
            kind = port.type
            if not isinstance(kind, TensorType) or not _is_static(kind):
                return None
            values: Any = numbers.integers(0, 2, tuple(map(int, kind.shape)))
            if kind.dtype.kind == "float":
                values = numbers.standard_normal(values.shape)
            found[port] = np.asarray(values).astype(kind.dtype.numpy)
        self.drawn += len(found)
        return found


def _is_static(kind: TensorType) -> bool:
    is_plain = kind.dtype.kind in ("float", "int", "uint", "bool")
    sizes = list(kind.shape) if kind.shape.has_rank else [None]
    return is_plain and all(isinstance(size, int) for size in sizes)


def reads_from_outside(ops: Sequence[Op], inside: set[Op]) -> Iterator[OutputPort]:
    """The values that ops read of others, each once, without constants."""
    found = dict.fromkeys(port for op in ops for port in reads_of(op))
    for port in found:
        if port.op not in inside and not port.op.is_constant:
            yield port
