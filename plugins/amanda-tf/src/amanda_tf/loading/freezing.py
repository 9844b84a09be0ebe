"""Variables replaced by constants with their values."""

from __future__ import annotations

from amanda.errors import FormatError
from amanda.graph import Graph, Op
from amanda.tensors import Tensor
from amanda_tf.loading.interface import drop_colocations, remove_placeholders
from amanda_tf.notes import VALUE

__all__ = ["freeze_variables"]

_READS = ("ReadVariableOp",)
_WRITES = ("Assign", "Scatter", "Apply", "SparseApply")
_REFERENCES = ("VariableV2", "Variable")


def freeze_variables(graph: Graph) -> Graph:
    """A copy with constants in place of variables; calls of functions are inlined.

    Raises FormatError for variables that something else than a read uses.
    """
    if not any(VALUE in op.attrs for op in graph):
        return graph
    from amanda_tf.function_library import bodies_to_functions
    from amanda_tf.mapping.control.function_bodies import expand_functions
    from amanda_tf.mapping.unused_ops import remove_unused

    copy = expand_functions(graph)
    copy = graph.clone() if copy is graph else copy
    remove_unused(copy)
    problems = []
    for op in list(copy):
        if VALUE in op.attrs:
            problems += _freeze(copy, op)
    if problems:
        raise FormatError("variables that cannot be frozen", problems=problems)
    if copy.results:
        for name in list(copy.entries):
            copy.remove_entry(name)
    remove_unused(copy)
    remove_placeholders(copy)
    drop_colocations(copy)
    bodies_to_functions(copy)
    return copy


def _freeze(graph: Graph, op: Op) -> list[str]:
    """Replace a variable; returns what uses it otherwise than by reading it."""
    users = [user for user in op.output.user_ops if user.graph is graph]
    reads = [op]
    if op.type in _REFERENCES:
        others = [u for u in users if str(u.type).startswith(_WRITES)]
    else:
        reads = [user for user in users if user.type in _READS]
        others = [user for user in op.output.user_ops if user not in reads]
    if others:
        return [f"{op.label} is used by {others[0].label}"]
    value: Tensor = op.attrs[VALUE]
    name = op.name
    for i, read in enumerate(reads):
        label = read.name
        with graph.before(read):
            constant = graph.constant(value)
        constant.output.type = value.type
        for other in read.control_outputs:
            graph.control(constant, other)
        graph.replace_uses(read.output, constant.output)
        graph.remove(read, "freeze", [constant.output])
        constant.name = name if i == 0 and op in reads else label
    return []
