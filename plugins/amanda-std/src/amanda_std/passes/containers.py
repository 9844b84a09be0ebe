"""Containers of known elements: sequences, optionals and tuples are read directly."""

from __future__ import annotations

from typing import Any

from amanda.errors import AmandaError
from amanda.graph import Graph, Op, OutputPort, Provenance
from amanda.types import TensorType
from amanda_std.engine.traits import Trait
from amanda_std.engine.values import Value, lift, tracing, value_type
from amanda_std.hub.op_access import has_trait, is_std, operation_of, traced_arguments
from amanda_std.passes.drop import drop_ops
from amanda_std.passes.infer import infer


def containers(graph: Graph) -> int:
    """Replace reads of containers whose elements are known values of the graph, and
    remove the containers that nothing uses then; returns how many reads.

    The elements are known where the graph shows every op that builds the container,
    with constant indices: not those of inputs, or carried by a loop."""
    known: dict[OutputPort, Any] = {}
    count = 0
    for part in graph.graphs():
        built: list[Op] = []
        for op in part:
            found = _evaluate(part, op, known)
            if found is None:
                continue
            if isinstance(found, OutputPort):
                part.replace(op, [found], "containers")
                count += 1
            else:
                known[op.output] = found
                built.append(op)
        drop_ops(part, built)
    if count:
        infer(graph)
    return count


def _evaluate(graph: Graph, op: Op, known: dict[OutputPort, Any]) -> Any:
    """The container that an op builds, as Python object, or the port of the value that
    it reads; None if that is not known."""
    if not _is_static(op):
        return None
    args, attrs = traced_arguments(op)
    for i, arg in enumerate(args):
        if isinstance(arg, Value) and not isinstance(value_type(arg.port), TensorType):
            if arg.port not in known:
                return None
            args[i] = known[arg.port]
    operation = operation_of(op)
    sources = op.provenance.sources if op.provenance else (op.label,)
    with tracing(graph, op, Provenance(sources, "containers")) as into:
        try:
            found = (operation.unrolled or operation.function)(*args, **attrs)
            if isinstance(value_type(op.output), TensorType):
                return lift(found, into)
        except AmandaError:  # an index or a number of elements that is computed
            into.take_back(0)
            return None
    return found


def _is_static(op: Op) -> bool:
    if not is_std(op) or op.bodies or len(op.outputs) != 1:
        return False
    if op.control_inputs or op.control_outputs:
        return False
    return operation_of(op).unrolled is not None or has_trait(op, Trait.CONTAINER)
