"""The tool `effective_path`: the smallest part of a network that explains a result."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from amanda import run
from amanda.errors import UsageError
from amanda.graph import Graph, OutputPort
from amanda.instrument import Instrumentation, Report, Tool
from amanda.types import TensorType
from amanda_tools.analysis.lowering import lower_with_sources, op_numbers
from amanda_tools.analysis.selection import is_float_tensor
from amanda_tools.paths.tracing import PathTracer
from amanda_tools.pictures import draw_shares

__all__ = ["EffectivePath", "EffectivePaths", "find_path"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class EffectivePath:
    """The neurons that matter for a result.

    - `masks`: for each op of the model, by its number (`op_numbers`), which elements
      of its output matter, whatever the example
    - `inputs`: the same for each input of the model
    - `links`: the number of connections between them, of all examples
    - `unknown`: types of ops of which all elements count
    """

    masks: Mapping[int, Array]
    inputs: Sequence[Array] = ()
    links: int = 0
    unknown: frozenset[str] = field(default_factory=frozenset)

    @property
    def neurons(self) -> int:
        """The number of elements that matter."""
        return sum(int(mask.sum()) for mask in self.masks.values())

    @property
    def density(self) -> float:
        """The share of the elements that matters."""
        size = sum(mask.size for mask in self.masks.values())
        return self.neurons / size if size else 0.0

    def union(self, other: EffectivePath) -> EffectivePath:
        """What matters in either, of the same model."""
        return EffectivePath(
            {key: mask | other.masks[key] for key, mask in self.masks.items()},
            [a | b for a, b in zip(self.inputs, other.inputs, strict=True)],
            self.links + other.links,
            self.unknown | other.unknown,
        )

    def similarity(self, other: EffectivePath) -> float:
        """The share of what matters in either that matters in both (Jaccard index),
        of neurons and inputs."""
        pairs = [(mask, other.masks[key]) for key, mask in self.masks.items()]
        pairs += zip(self.inputs, other.inputs, strict=True)
        both = sum(int((a & b).sum()) for a, b in pairs)
        either = sum(int((a | b).sum()) for a, b in pairs)
        return both / either if either else 1.0


class EffectivePaths(Tool):
    """The smallest set of neurons that explains a result, on example inputs.

    From the largest element of a result back to the inputs, the fewest inputs of each
    neuron are chosen whose contributions sum to the `threshold` of its value. Paths of
    several examples (`data=`) are united.

    - `threshold`: a share, above 0 and up to 1
    - `output`: the name of the result; the first by default
    - `labels`: the element of the result that is explained, for each row of an example;
      by default the largest one
    - `overlay`: a file for `amanda view --overlay`
    - `backend`: what the examples are run on

    The report has the share of each op's neurons, and the number of neurons and of
    connections.
    """

    name = "effective_path"

    def __init__(
        self,
        *,
        threshold: float = 0.5,
        output: str | None = None,
        labels: Sequence[int] | None = None,
        overlay: str | None = None,
        backend: str = "numpy",
    ) -> None:
        if not 0 < threshold <= 1:
            raise UsageError("the threshold is above 0 and up to 1", got=threshold)
        self.threshold, self.output, self.labels = threshold, output, labels
        self.overlay, self.backend = overlay, backend

    def instrument(self, instrumentation: Instrumentation) -> None:
        """Find the path of the example inputs, and report it."""
        if not instrumentation.data:
            raise UsageError(
                "effective paths need example inputs",
                hint="amanda.apply(graph, EffectivePaths(), data=[feeds]), or "
                "`amanda instrument FILE --tool effective_path --random SEED`",
            )
        found = find_path(
            instrumentation.graph, instrumentation.data, threshold=self.threshold,
            output=self.output, labels=self.labels, backend=self.backend,
        )  # fmt: skip
        positions = {op: i for i, op in enumerate(op_numbers(instrumentation.graph))}
        shares: dict[str, float] = {}
        for site in instrumentation.sites():
            mask = found.masks.get(positions.get(site.op, -1))
            if mask is None:
                continue
            share = float(mask.mean()) if mask.size else 0.0
            for name in [each.name for each in site.sources] or [site.label]:
                shares[name] = max(share, shares.get(name, 0.0))
            site.record("share of neurons", share)
            site.record("neurons", int(mask.sum()))
        instrumentation.report.summary |= {
            "neurons": found.neurons, "share of neurons": found.density,
            "connections": found.links,
        }  # fmt: skip
        if found.unknown:
            instrumentation.report.summary["counted whole"] = ", ".join(
                sorted(found.unknown)
            )
        if self.overlay is not None:
            document = {"overlay": 1, "name": "effective path", "unit": "share",
                        "aggregate": "max", "ops": shares}  # fmt: skip
            Path(self.overlay).write_text(json.dumps(document), encoding="utf-8")

    def picture(self, report: Report) -> str | None:
        """The share of each op's neurons, as bars in the order of the model."""
        rows = report.select("share of neurons", tool=self.name)
        return draw_shares([(row.op, float(row.value)) for row in rows])


def find_path(
    graph: Graph,
    data: Iterable[Any],
    *,
    threshold: float = 0.5,
    output: str | None = None,
    labels: Sequence[int] | None = None,
    backend: str = "numpy",
) -> EffectivePath:
    """The effective path of some feeds through a graph of the hub; see
    `EffectivePaths`."""
    primitives, ports = lower_with_sources(graph)
    result = _find_result(primitives, output)
    paths = [
        _path_of(primitives, ports, feeds, result, threshold, labels, backend)
        for feeds in data
    ]
    first, *others = paths
    for other in others:
        first = first.union(other)
    return first


def _path_of(
    graph: Graph,
    ports: Mapping[int, OutputPort],
    feeds: Any,
    result: OutputPort,
    threshold: float,
    labels: Sequence[int] | None,
    backend: str,
) -> EffectivePath:
    """The path of one feed, for all of its rows."""
    wanted = _values_to_know(graph, ports)
    found = run(graph, feeds, [*wanted, result], backend=backend)
    values = {port: np.asarray(found[port]) for port in [*wanted, result]}
    tracer = PathTracer(graph, values, threshold)
    tracer.trace(result, _find_explained(values[result], labels))
    rows = len(values[result]) if values[result].ndim > 1 else 1
    depends = _dependents(graph)
    masks = {
        key: _any_row(tracer.masks.get(port), values[port].shape, rows)
        for key, port in ports.items()
        if port in depends and tracer.is_followed(port)
    }
    inputs = [
        _any_row(tracer.masks.get(port), np.shape(values[port]), rows)
        for port in graph.parameters
    ]
    return EffectivePath(masks, inputs, tracer.links, frozenset(tracer.unknown))


def _values_to_know(graph: Graph, ports: Mapping[int, OutputPort]) -> list[OutputPort]:
    """The values that ops read and make, without constants."""
    found: dict[OutputPort, None] = dict.fromkeys(graph.parameters)
    for op in graph:
        if not op.is_constant:
            found |= dict.fromkeys(op.outputs)
    found |= {port: None for port in ports.values() if not port.op.is_constant}
    return [port for port in found if isinstance(port.type, TensorType)]


def _dependents(graph: Graph) -> set[OutputPort]:
    """The values that the inputs change."""
    found: set[OutputPort] = set(graph.parameters)
    for op in graph:
        if any(port in found for port in op.inputs):
            found.update(op.outputs)
    return found


def _find_result(graph: Graph, output: str | None) -> OutputPort:
    names = {
        str(port.name): value
        for port, value in zip(graph.outputs, graph.results, strict=True)
        if value is not None
    }
    if output is not None and output not in names:
        raise UsageError(
            f"the model has no result {output!r}", expected=", ".join(names)
        )
    found = next(iter(names.values())) if output is None else names[output]
    if not is_float_tensor(found):
        raise UsageError("the result that is explained is of floats", got=found.type)
    return found


def _find_explained(value: Array, labels: Sequence[int] | None) -> Array:
    """The elements that are explained: one along the last axis of each row."""
    if value.ndim == 0:
        return np.ones((), bool)
    rows = value.reshape(-1, value.shape[-1])
    chosen = rows.argmax(1) if labels is None else np.asarray(labels, "int64")
    if chosen.shape != (len(rows),) or (len(rows) and chosen.max() >= rows.shape[1]):
        raise UsageError(
            "there is a label for each row of the result",
            expected=f"{len(rows)} labels below {rows.shape[1]}",
            got=list(labels or ()),
        )
    mask = np.zeros(rows.shape, bool)
    mask[np.arange(len(rows)), chosen] = True
    return mask.reshape(value.shape)


def _any_row(mask: Array | None, shape: Sequence[int], rows: int) -> Array:
    """The mask of a neuron: whether it matters in any row of a batch."""
    whole: Array = np.zeros(shape, bool) if mask is None else mask
    has_rows = whole.ndim > 1 and whole.shape[0] == rows
    return np.asarray(whole.any(0)) if has_rows else whole
