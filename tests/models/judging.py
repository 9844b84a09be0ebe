"""One model through the whole house: loaded, validated, run everywhere, and back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

__all__ = ["BACKENDS", "CLOSE", "RETURNED", "Judged", "judged", "of_onnxruntime"]

BACKENDS: Final = ("numpy", "jax", "onnxruntime")
RETURNED: Final = "onnx -> std -> onnx"
CLOSE: Final = 1e-4
"""How far an element may be off, by the largest expected one where that is above 1."""


@dataclass
class Judged:
    """What was seen of a model; `problems` is empty where all is as it should be."""

    model: str
    expected_of: str
    faults: list[str] = field(default_factory=list)
    differences: dict[str, float] = field(default_factory=dict)
    """The largest one for each way that it was run."""
    largest: float = 0.0
    nodes: tuple[int, int | None] = (0, None)
    """In the file, and in the one that comes back; nodes in bodies are counted."""
    gaps: dict[str, int] = field(default_factory=dict)
    peak: int = 0
    """The most memory, in bytes, that its process had."""

    @property
    def problems(self) -> list[str]:
        """What must not be. A gap is none: it is told, and compared by who asks."""
        found = [f"not valid: {fault}" for fault in self.faults]
        bound = CLOSE * max(1.0, self.largest)
        found += [
            f"{way} is off by {off:.2g}, more than {bound:.2g}"
            for way, off in self.differences.items()
            if not off <= bound  # nan is no number that is close
        ]
        before, after = self.nodes
        if after is not None and after > before:
            found.append(f"{before} nodes became {after}")
        return found


def judged(
    name: str,
    path: Path,
    feeds: Mapping[str, Any] | Sequence[Any],
    expected: Sequence[Any],
    folder: Path,
    *,
    expected_of: str = "PyTorch",
    backends: Sequence[str] = BACKENDS,
) -> Judged:
    """Take a model of ONNX through everything that a user may do with it."""
    import amanda

    seen = Judged(name, expected_of, largest=max(map(_largest, expected)))
    graph = amanda.load(path)
    assert graph.namespace is not None
    found = amanda.namespace(graph.namespace).validate(graph)
    seen.faults = [str(each) for each in found]
    seen.nodes = (_nodes(path), None)
    gaps = amanda.plan(graph, "std").gaps
    seen.gaps = dict(sorted(Counter(gap.op for gap in gaps).items()))
    for backend in backends:
        if backend == "onnxruntime" or not gaps:
            results = amanda.run(graph, feeds, backend=backend).values()
            seen.differences[backend] = _difference(list(results), expected)
    if not gaps:
        back = amanda.convert(amanda.convert(graph, "std"), graph.namespace)
        again = folder / "again.onnx"
        amanda.save(back, again)
        seen.nodes = (seen.nodes[0], _nodes(again))
        run = of_onnxruntime(again, feeds)
        seen.differences[RETURNED] = _difference(run, expected)
    return seen


def of_onnxruntime(
    path: Path, feeds: Mapping[str, Any] | Sequence[Any]
) -> Sequence[Any]:
    """What onnxruntime makes of a file, without us."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors
    session = onnxruntime.InferenceSession(
        path, options, providers=["CPUExecutionProvider"]
    )
    if not isinstance(feeds, Mapping):
        names = [each.name for each in session.get_inputs()]
        feeds = dict(zip(names, feeds, strict=True))
    return list(session.run(None, feeds))


def _largest(array: Any) -> float:
    import numpy as np

    return float(np.abs(array).max(initial=0))


def _difference(found: Sequence[Any], expected: Sequence[Any]) -> float:
    """The largest of all outputs; infinite where one is of another shape or type."""
    import numpy as np

    if len(found) != len(expected):
        return float("inf")
    worst = 0.0
    for have, want in zip(found, expected, strict=True):
        if (have.shape, have.dtype) != (want.shape, want.dtype):
            return float("inf")
        off = np.abs(np.asarray(have, "float64") - np.asarray(want, "float64"))
        worst = float(np.maximum(worst, off.max(initial=0)))  # nan stays nan
    return worst


def _nodes(path: Path) -> int:
    import onnx

    model = onnx.load(path, load_external_data=False)
    graphs: list[Any] = [model.graph, *model.functions]
    return sum(1 for graph in graphs for _ in _walk(graph))


def _walk(graph: Any) -> Iterator[Any]:
    stack = [graph]
    while stack:
        for node in stack.pop().node:
            yield node
            for attribute in node.attribute:
                stack += [attribute.g] if attribute.HasField("g") else attribute.graphs
