"""Profiles of sessions: the trace that onnxruntime writes, by the ops of the graph."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from amanda.backend import OpLabel, OpTime, op_label
from amanda.graph import Graph

__all__ = ["graph_labels", "new_trace_file", "read_trace"]

_SUFFIX: Final = "_kernel_time"


def new_trace_file() -> Path:
    """The start of the name of a file for a trace, in a folder of its own."""
    return Path(tempfile.mkdtemp(prefix="amanda-onnxruntime-")) / "trace"


def graph_labels(graph: Graph) -> dict[str, OpLabel]:
    """The labels of the ops of a graph, and of its bodies, by name."""
    labels = (op_label(op, i) for i, op in enumerate(graph.walk()))
    return {label.name: label for label in labels}


def read_trace(path: Path, labels: Mapping[str, OpLabel]) -> list[OpTime]:
    """The times of the nodes in the last call, relative to its start.

    A node that onnxruntime made from several has its own name and no sources but it."""
    events = json.loads(path.read_text(encoding="utf-8"))
    runs = [each for each in events if each.get("name") == "model_run"]
    since = max(each["ts"] for each in runs)
    return [
        OpTime(label, (event["ts"] - since) / 1e6, event["dur"] / 1e6)
        for event, label in _nodes(events, labels)
        if event["ts"] >= since
    ]


def _nodes(
    events: list[dict[str, Any]], labels: Mapping[str, OpLabel]
) -> Iterator[tuple[dict[str, Any], OpLabel]]:
    """The events of kernels in order, each with its label."""
    kernels = [each for each in events if each.get("cat") == "Node"]
    for event in sorted(kernels, key=lambda each: each["ts"]):
        if event["name"].endswith(_SUFFIX):
            name = event["name"].removesuffix(_SUFFIX)
            type_ = event.get("args", {}).get("op_name", "?")
            known = labels.get(name)
            sources = (name,) if known is None else known.sources
            yield event, OpLabel(name, type_, sources)
