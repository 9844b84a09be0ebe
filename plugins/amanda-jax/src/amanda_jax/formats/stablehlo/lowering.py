"""The mapping `std-stablehlo`: graphs of the hub op set, as JAX lowers them.

Nothing is mapped op by op: the graph is traced as by the backend `jax`, and the
StableHLO that JAX lowers it to is read. Weights become constants; symbolic dims stay
symbolic."""

from __future__ import annotations

from typing import Any

from amanda.graph import Graph
from amanda.tensors import Tensor
from amanda.types import TensorType

__all__ = [
    "MAPPING",
    "embed_weights",
    "copy_names",
    "open_inputs",
    "unoptimized_context",
]


class _Lowering:
    """A `Mapper` that reports errors instead of gaps."""

    def apply(
        self, graph: Graph, to: str, *, keep_foreign: bool, gap_met: Any
    ) -> Graph:
        del to, keep_foreign, gap_met
        from amanda_jax.compile.passes import prepare_unoptimized
        from amanda_jax.formats.stablehlo.format import Format

        prepared = prepare_unoptimized(graph)
        exported = _export(prepared)
        result = Format().read(exported.program)
        embed_weights(result, exported.weights)
        return copy_names(result, prepared)


def _export(prepared: Graph) -> Any:
    from amanda_jax.export.exporter import export_graph

    return export_graph(
        prepared, unoptimized_context(), (), bool(open_inputs(prepared))
    )


def open_inputs(graph: Graph) -> list[str]:
    """The inputs whose sizes are not all static, with their types."""
    return [
        f"input {port.name or port.index!r}: {port.type}"
        for port in graph.parameters
        if not isinstance(port.type, TensorType) or not port.type.shape.is_static
    ]


def unoptimized_context() -> Any:
    """The context in which a graph is traced without being compiled here."""
    from amanda.host import host_in_use
    from amanda_jax.compile.code import BuildContext
    from amanda_jax.compile.partition import compile_graph
    from amanda_jax.cpu_tuning.steps import CPU_ONLY
    from amanda_jax.devices import find_device
    from amanda_jax.settings import Settings
    from amanda_jax.weights.device_weights import DeviceWeights
    from amanda_std.backends import RunContext

    surroundings = RunContext(None, None, {}, host_in_use())
    settings = Settings(without=CPU_ONLY)  # the same on every machine
    weights = DeviceWeights(find_device("cpu"))
    return BuildContext(weights, settings, surroundings, compile_graph)


def copy_names(result: Graph, old: Graph) -> Graph:
    """Copy the names and attributes of another graph, its inputs and its results."""
    result.name = old.name
    if old.has_attrs:
        result.attrs.update(old.attrs)
    for ours, theirs in ((result.parameters, old.parameters),
                         (result.outputs, old.outputs)):  # fmt: skip
        for port, other in zip(ours, theirs, strict=True):
            port.name = other.name
            if other.has_attrs:
                port.attrs.update(other.attrs)
    for place, twin in zip(result.result_ports, old.result_ports, strict=True):
        if twin.has_edge_attrs:
            place.edge_attrs.update(twin.edge_attrs)
    return result


def embed_weights(graph: Graph, weights: Any) -> None:
    """Turn the first inputs into constants: they are the weights."""
    import numpy as np

    for weight in weights:
        first = graph.parameters[0]
        with graph.before(next(iter(graph), None)):
            result = graph.constant(Tensor.of(np.array(weight))).output
        result.type = first.type
        graph.replace_uses(first, result)
        graph.remove_parameter(0)


MAPPING = _Lowering()
