"""The mapping `std-stablehlo`: graphs of the hub set, as JAX lowers them.

Nothing is mapped op by op: the graph is traced as the backend `jax` does, and what JAX
makes of it is read. Weights become constants. Sizes that inputs leave open stay open.
"""

from __future__ import annotations

from typing import Any

from amanda.graph import Graph
from amanda.tensors import Tensor
from amanda.types import TensorType

__all__ = ["MAPPING", "hold", "named_as", "open_inputs", "plain_build"]


class _Lowering:
    """A `Mapper`: what it cannot do is told op by op, and there are no gaps to fill."""

    def apply(
        self, graph: Graph, to: str, *, keep_foreign: bool, gap_met: Any
    ) -> Graph:
        del to, keep_foreign, gap_met
        from amanda_jax.compile.passes import plainly
        from amanda_jax.formats.stablehlo.format import Format

        ready = plainly(graph)
        written = _written(ready)
        made = Format().read(written.program)
        hold(made, written.weights)
        return named_as(made, ready)


def _written(ready: Graph) -> Any:
    from amanda_jax.export.exporter import exported

    return exported(ready, plain_build(), (), bool(open_inputs(ready)))


def open_inputs(graph: Graph) -> list[str]:
    """The inputs whose sizes are not all known, with their types."""
    return [
        f"input {port.name or port.index!r}: {port.type}"
        for port in graph.parameters
        if not isinstance(port.type, TensorType) or not port.type.shape.is_static
    ]


def plain_build() -> Any:
    """What a graph is traced with that nobody compiles here."""
    from amanda.host import host_in_use
    from amanda_jax.compile.code import Build
    from amanda_jax.devices import chosen
    from amanda_jax.settings import ON_CPU, Settings
    from amanda_jax.weights.device_weights import Weights
    from amanda_std.backends import RunContext

    around = RunContext(None, None, {}, host_in_use())
    settings = Settings(without=ON_CPU)  # the same, whoever makes it for whom
    return Build(Weights(chosen("cpu")), settings, around)


def named_as(made: Graph, old: Graph) -> Graph:
    """The names of another graph, its inputs and its results."""
    made.name = old.name
    for ours, theirs in ((made.parameters, old.parameters),
                         (made.outputs, old.outputs)):  # fmt: skip
        for port, other in zip(ours, theirs, strict=True):
            port.name = other.name
    return made


def hold(graph: Graph, weights: Any) -> None:
    """The first inputs as constants: they are the weights."""
    import numpy as np

    for weight in weights:
        first = graph.parameters[0]
        with graph.before(next(iter(graph), None)):
            made = graph.constant(Tensor.of(np.array(weight))).output
        made.type = first.type
        graph.replace_uses(first, made)
        graph.remove_parameter(0)


MAPPING = _Lowering()
