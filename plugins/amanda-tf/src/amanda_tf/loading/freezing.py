"""Variables replaced by constants with their values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from amanda.errors import FormatError
from amanda.graph import Graph, Op, OutputPort
from amanda.tensors import Tensor
from amanda_tf.derived_attributes import element_type
from amanda_tf.loading.interface import drop_colocations, remove_placeholders
from amanda_tf.notes import VALUE

__all__ = ["freeze_variables"]

_WRITES: Final = ("Assign", "Scatter", "Apply", "SparseApply")
_REFERENCES: Final = ("VariableV2", "Variable")
_Replacement = Callable[[Graph, Op, OutputPort], list[OutputPort]]


def freeze_variables(graph: Graph) -> Graph:
    """A copy with constants in place of variables; calls of functions are inlined.

    Raises FormatError for variables that something else than a read uses.
    """
    if not any(VALUE in op.attrs for op in graph):
        return graph
    from amanda_tf.function_library import bodies_to_functions
    from amanda_tf.mapping.control.function_bodies import expand_functions
    from amanda_tf.mapping.unused_ops import remove_unused
    from amanda_tf.mapping.variables.resources import capture_handles

    copy = expand_functions(graph)
    copy = graph.clone() if copy is graph else copy
    remove_unused(copy)
    capture_handles(copy)
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
    users = list(dict.fromkeys(op.output.user_ops))
    is_reference = op.type in _REFERENCES
    for user in users:
        if not (_reads_reference(user) if is_reference else user.type in _READS):
            return [f"{op.label} is used by {user.label}"]
    value: Tensor = op.attrs[VALUE]
    with graph.before(op):
        constant = _constant(graph, value)
    for user in users if not is_reference else ():
        home = user.graph
        assert home is not None
        with home.before(user):
            results = _READS[user.type or ""](home, user, constant)
        for old, new in zip(user.outputs, results, strict=True):
            new.type = new.type or old.type
        label = user.name
        home.replace(user, results, "freeze")
        if results and results[0] is not constant:
            home.rename(results[0].op, label)
    name = op.name
    graph.replace(op, [constant], "freeze")
    graph.rename(constant.op, name)
    return []


def _reads_reference(user: Op) -> bool:
    return not str(user.type).startswith(_WRITES)


def _constant(graph: Graph, value: Tensor) -> OutputPort:
    made = graph.constant(value).output
    made.type = value.type
    return made


def _op_on_tensor(type: str, dtype: str, *kept: str) -> _Replacement:
    """Replaces an op on a variable by the op `type` on a tensor.

    `dtype` is its attribute with the element type; it keeps the attributes `kept`.
    """

    def replace(graph: Graph, user: Op, value: OutputPort) -> list[OutputPort]:
        attrs = {key: user.attrs[key] for key in kept if key in user.attrs}
        attrs[dtype] = element_type(value.type)
        inputs = [value, *user.inputs[1:]]
        if type == "GatherV2":
            axis = Tensor.of(user.attrs.get("batch_dims", 0), "int32")
            inputs.append(_constant(graph, axis))
            attrs["Taxis"] = axis.dtype
        return [graph.add(type, inputs, attrs).output]

    return replace


def _itself(_graph: Graph, _user: Op, value: OutputPort) -> list[OutputPort]:
    return [value]


def _nothing(_graph: Graph, _user: Op, _value: OutputPort) -> list[OutputPort]:
    return []


def _true(graph: Graph, _user: Op, _value: OutputPort) -> list[OutputPort]:
    return [_constant(graph, Tensor.of(True))]


_READS: Final[Mapping[str, _Replacement]] = {
    "ReadVariableOp": _itself,
    "DisableCopyOnRead": _nothing,
    "VarIsInitializedOp": _true,
    "VariableShape": _op_on_tensor("Shape", "T", "out_type"),
    "ResourceGather": _op_on_tensor("GatherV2", "Tparams", "Tindices", "batch_dims"),
    "ResourceGatherNd": _op_on_tensor("GatherNd", "Tparams", "Tindices"),
}
"""The values of ops that read a variable, by their type, for its constant."""
