"""New running statistics of instance normalization, which ATen has no function for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amanda.graph import Graph, Op, OutputPort
from amanda.types import TensorType
from amanda_torch.mapping.functionalization.storages import Storages

__all__ = ["update_instance_statistics"]


def update_instance_statistics(
    graph: Graph, op: Op, running: Sequence[OutputPort | None], storages: Storages
) -> list[OutputPort]:
    """The statistics of instances, averaged over the batch, as part of running ones."""
    x: Any = op.inputs[0]
    rank = len(x.type.shape.dims) if isinstance(x.type, TensorType) else 0
    spatial = list(range(2, rank))
    found = []
    with graph.before(op):
        mean = _add(graph, "aten.mean.dim", [x], dim=[0, *spatial])
        variances = _add(graph, "aten.var.correction", [x], dim=spatial, correction=1)
        variance = _add(graph, "aten.mean.dim", [variances], dim=[0])
        for target, value in zip(running, (mean, variance), strict=True):
            assert target is not None
            now = storages.current(target, op)
            weight = op.attrs["momentum"]
            new = _add(graph, "aten.lerp.Scalar", [now, value], weight=weight)
            new.type = target.type
            found.append(new)
    for port in op.input_ports:
        target = port.source
        if target in running and target is not None:
            port.connect(storages.current(target, op))
    return found


def _add(graph: Graph, type: str, inputs: list[Any], **attrs: Any) -> OutputPort:
    return graph.add(type, inputs, attrs).output
