"""The passes that prepare a graph for compilation, on a copy of it."""

from __future__ import annotations

from collections.abc import Collection

from amanda.graph import Graph, Op
from amanda_jax.cpu_tuning.steps import enabled_steps
from amanda_jax.kernels import JAX
from amanda_jax.shapes.slice_sizes import expose_slice_sizes
from amanda_jax.weights.device_weights import is_weight
from amanda_std.backends import Trait, has_trait, infer, is_std, lower, operation_of

__all__ = ["prepare_graph", "prepare_unoptimized"]


def prepare_graph(
    graph: Graph, platform: str = "cpu", without: Collection[str] = ()
) -> Graph:
    """A copy with types, shape arguments exposed, and weights of bodies lifted out.

    The optimizations are rows in `cpu_tuning.steps`."""
    copy = _infer_types(graph)
    steps = enabled_steps(without, platform)
    names = frozenset(step.name for step in steps)
    for stage in ("simplify", "fold", "relayout"):
        for step in steps:
            graph_pass = getattr(step, stage)
            if graph_pass is not None:
                graph_pass(copy, names)
    expose_slice_sizes(copy)
    _lift_weights(copy)
    return copy


def prepare_unoptimized(graph: Graph) -> Graph:
    """A copy prepared without optimizations, in which every weight is unchanged."""
    copy = _infer_types(graph)
    _lift_weights(copy)
    return copy


def _infer_types(graph: Graph) -> Graph:
    copy = graph.clone()
    infer(copy)
    lower(copy, lambda op: not _expands_first(op))
    return copy


def _expands_first(op: Op) -> bool:
    """Whether XLA compiles the definition of an op, in a graph, and not the op."""
    if has_trait(op, Trait.EXPAND_EARLY):
        return True
    if not is_std(op) or op.type in JAX:
        return False
    operation = operation_of(op)
    return operation.numpy_only and operation.definition is not None


def _lift_weights(graph: Graph) -> None:
    """Turn weights of bodies into captures, so that they are not part of the program.

    Functions keep theirs, since they cannot read values around them."""
    functions = {graph, *(g for f in graph.functions.values() for g in f.graphs())}
    bodies = [part for part in graph.graphs() if part not in functions]
    first = next(iter(graph), None)
    for body in bodies:
        for op in [op for op in body if is_weight(op)]:
            with graph.before(first):
                outer = graph.constant(op.attrs["value"]).output
            outer.type = op.output.type
            body.replace_uses(op.output, outer)
