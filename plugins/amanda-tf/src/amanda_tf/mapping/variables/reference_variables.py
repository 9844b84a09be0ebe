"""Reference variables of TensorFlow 1 as resource variables.

    VariableV2, Assign, ApplyAdam      VarHandleOp, AssignVariableOp, ResourceApplyAdam

A value of a reference is read where an op uses it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from amanda.graph import Graph, Op, OutputPort
from amanda.types import DType, TensorType, resource

if TYPE_CHECKING:
    from amanda.dictionary import Dictionary

__all__ = ["REFERENCE_VARIABLES", "use_resource_variables"]

REFERENCE_VARIABLES: Final = ("VariableV2", "Variable", "TemporaryVariable")
_OWN_NAMES: Final = {
    "Assign": "AssignVariableOp",
    "AssignAdd": "AssignAddVariableOp",
    "AssignSub": "AssignSubVariableOp",
    "IsVariableInitialized": "VarIsInitializedOp",
}
"""The ops that are not named `Resource` and the name of the op on references."""


class _Reference(NamedTuple):
    """What a reference stands for: the handle, and the op that wrote to it last."""

    handle: OutputPort
    written: Op | None


def use_resource_variables(graph: Graph, dictionary: Dictionary) -> None:
    """Replace the reference variables of a graph by resource variables, in place."""
    references: dict[OutputPort, _Reference] = {}
    replaced: list[Op] = []
    for op in list(graph):
        if op.type in REFERENCE_VARIABLES:
            with graph.before(op):
                references[op.output] = _Reference(_add_handle(graph, op), None)
        elif any(value in references for value in op.inputs):
            new_type = _resource_type(op, dictionary)
            if new_type is None:
                _read_references(graph, op, references)
                continue
            made = _add_resource_op(graph, op, new_type, references, dictionary)
            first = op.inputs[0]
            assert first is not None
            if not _returns_reference(op, dictionary):
                for old, new in zip(op.outputs, made.outputs, strict=True):
                    graph.replace_uses(old, new)
            else:
                references[op.output] = _Reference(references[first].handle, made)
        else:
            continue
        replaced.append(op)
    for port in graph.result_ports:
        if port.source in references:
            port.connect(_add_read(graph, references[port.source]).output)
    for op in reversed(replaced):
        for then in list(op.control_outputs):
            graph.uncontrol(op, then)
        name = op.name
        graph.remove(op)
        if op.output in references and op.type in REFERENCE_VARIABLES:
            graph.rename(references[op.output].handle.op, name)


def _add_handle(graph: Graph, op: Op) -> OutputPort:
    attrs = {key: op.attrs[key] for key in op.attrs}
    attrs["shared_name"] = attrs.get("shared_name") or op.name or ""
    made = graph.add("VarHandleOp", [], attrs)
    made.output.type = TensorType(resource)
    return made.output


def _resource_type(op: Op, dictionary: Dictionary) -> str | None:
    """The op on resource variables for one on references; None where there is none."""
    kind = op.type or ""
    for name in (_OWN_NAMES.get(kind), f"Resource{kind}"):
        if name is not None and dictionary.get(name) is not None:
            return name
    return None


def _returns_reference(op: Op, dictionary: Dictionary) -> bool:
    entry = dictionary.get(op.type or "")
    return entry is not None and any(port.ref for port in entry.outputs)


def _add_resource_op(
    graph: Graph, op: Op, kind: str, references: dict[OutputPort, _Reference],
    dictionary: Dictionary,
) -> Op:  # fmt: skip
    entry = dictionary.get(op.type or "")
    assert entry is not None
    with graph.before(op):
        inputs: list[OutputPort | None] = []
        for i, value in enumerate(op.inputs):
            found = None if value is None else references.get(value)
            is_written = i < len(entry.inputs) and entry.inputs[i].ref
            if found is None:
                inputs.append(value)
            elif is_written:
                inputs.append(found.handle)
            else:
                inputs.append(_add_read(graph, found, op).output)
        target: Any = dictionary.get(kind)
        known = target.attrs_by_name
        attrs = {key: op.attrs[key] for key in op.attrs if key in known}
        if "dtype" in known and isinstance(op.attrs.get("T"), DType):
            attrs["dtype"] = op.attrs["T"]
        attrs.pop("validate_shape", None)
        made = graph.add(kind, inputs, attrs, outputs=len(target.outputs))
    for key, note in op.attrs.items():
        if key.startswith("x-"):
            made.attrs[key] = note
    _move_order(graph, op, made, references)
    return made


def _move_order(
    graph: Graph, op: Op, made: Op, references: dict[OutputPort, _Reference]
) -> None:
    """Give an op the order of another, and let it wait for writes that it follows."""
    written = [references[v].written for v in op.inputs if v in references]
    for first in dict.fromkeys([*op.control_inputs, *written]):
        if first is not None and first not in made.control_inputs:
            graph.control(first, made)
    for then in op.control_outputs:
        graph.control(made, then)


def _read_references(
    graph: Graph, op: Op, references: dict[OutputPort, _Reference]
) -> None:
    """Let an op read values instead of references."""
    for port in op.input_ports:
        value = port.source
        if value in references:
            with graph.before(op):
                port.connect(_add_read(graph, references[value], op).output)


def _add_read(graph: Graph, found: _Reference, before: Op | None = None) -> Op:
    """Read a variable after what its reader waits for, and after the last write."""
    dtype = found.handle.op.attrs.get("dtype")
    made = graph.add("ReadVariableOp", [found.handle], {"dtype": dtype})
    made.output.type = TensorType(dtype) if isinstance(dtype, DType) else None
    waits = [] if before is None else list(before.control_inputs)
    for first in dict.fromkeys([*waits, found.written]):
        if first is not None:
            graph.control(first, made)
    return made
