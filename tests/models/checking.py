"""Check one model: load, validate, run on every backend, convert to std and back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

__all__ = [
    "BACKENDS",
    "ROUND_TRIP",
    "TOLERANCE",
    "ModelReport",
    "check_model",
    "run_onnxruntime",
]

BACKENDS: Final = ("numpy", "jax", "onnxruntime")
ROUND_TRIP: Final = "onnx -> std -> onnx"
TOLERANCE: Final = 1e-4
"""Maximum error of an element, relative to the largest expected one if above 1."""


@dataclass
class ModelReport:
    """Measurements of a model; `problems` is empty if they are as required."""

    model: str
    expected_of: str
    faults: list[str] = field(default_factory=list)
    differences: dict[str, float] = field(default_factory=dict)
    """The largest difference by backend, and after the round trip."""
    largest: float = 0.0
    nodes: tuple[int, int | None] = (0, None)
    """In the file, and in that of the round trip; nodes in bodies are included."""
    gaps: dict[str, int] = field(default_factory=dict)
    peak: int = 0
    """Peak memory of the process, in bytes."""

    @property
    def problems(self) -> list[str]:
        """Violated requirements. Gaps are not among them; callers check `gaps`."""
        problems = [f"not valid: {fault}" for fault in self.faults]
        bound = TOLERANCE * max(1.0, self.largest)
        problems += [
            f"{backend} differs by {error:.2g}, more than {bound:.2g}"
            for backend, error in self.differences.items()
            if not error <= bound  # also true for nan
        ]
        before, after = self.nodes
        if after is not None and after > before:
            problems.append(f"{before} nodes became {after}")
        return problems


def check_model(
    name: str,
    path: Path,
    feeds: Mapping[str, Any] | Sequence[Any],
    expected: Sequence[Any],
    folder: Path,
    *,
    expected_of: str = "PyTorch",
    backends: Sequence[str] = BACKENDS,
) -> ModelReport:
    """Load, validate, run and convert an ONNX model; compare with expected outputs."""
    import amanda

    report = ModelReport(name, expected_of, largest=max(map(_largest, expected)))
    graph = amanda.load(path)
    assert graph.namespace is not None
    faults = amanda.namespace(graph.namespace).validate(graph)
    report.faults = [str(each) for each in faults]
    report.nodes = (_count_nodes(path), None)
    gaps = amanda.plan(graph, "std").gaps
    report.gaps = dict(sorted(Counter(gap.op for gap in gaps).items()))
    for backend in backends:
        if backend == "onnxruntime" or not gaps:
            results = amanda.run(graph, feeds, backend=backend).values()
            report.differences[backend] = _difference(list(results), expected)
    if not gaps:
        back = amanda.convert(amanda.convert(graph, "std"), graph.namespace)
        again = folder / "again.onnx"
        amanda.save(back, again)
        report.nodes = (report.nodes[0], _count_nodes(again))
        run = run_onnxruntime(again, feeds)
        report.differences[ROUND_TRIP] = _difference(run, expected)
    return report


def run_onnxruntime(
    path: Path, feeds: Mapping[str, Any] | Sequence[Any]
) -> Sequence[Any]:
    """Run a file directly in onnxruntime."""
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


def _difference(results: Sequence[Any], expected: Sequence[Any]) -> float:
    """Return the largest difference, infinite if a shape or dtype differs."""
    import numpy as np

    if len(results) != len(expected):
        return float("inf")
    worst = 0.0
    for actual, wanted in zip(results, expected, strict=True):
        if (actual.shape, actual.dtype) != (wanted.shape, wanted.dtype):
            return float("inf")
        error = np.abs(np.asarray(actual, "float64") - np.asarray(wanted, "float64"))
        worst = float(np.maximum(worst, error.max(initial=0)))  # nan stays nan
    return worst


def _count_nodes(path: Path) -> int:
    import onnx

    model = onnx.load(path, load_external_data=False)
    graphs: list[Any] = [model.graph, *model.functions]
    return sum(1 for graph in graphs for _ in _walk_nodes(graph))


def _walk_nodes(graph: Any) -> Iterator[Any]:
    stack = [graph]
    while stack:
        for node in stack.pop().node:
            yield node
            for attribute in node.attribute:
                stack += [attribute.g] if attribute.HasField("g") else attribute.graphs
