"""Which tensor of a checkpoint belongs to which variable of a graph.

TensorFlow restores variables by running ops of the graph, so these decide: the names
that `RestoreV2` reads, and the variables that its outputs are assigned to, also within
functions. Variables that no such op restores are found by their names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import Any, Final

from amanda.errors import FormatError
from amanda.graph import Graph, InputPort, Op, OutputPort
from amanda.tensors import FunctionRef, Tensor
from amanda.types import DType
from amanda_tf.checkpoints.slice_keys import parse_slice_spec
from amanda_tf.graphdef import (
    FunctionReader,
    functions_that_mention,
    names_of_mentioning,
)
from amanda_tf.messages import NODE_RECORDS
from amanda_tf.notes import VALUE
from amanda_tf.saved_messages import SAVED
from amanda_tf.saved_models.restore_functions import restored_arguments

__all__ = ["VARIABLES", "add_values", "keyed_tensors"]

VARIABLES: Final = ("VarHandleOp", "VariableV2", "Variable")
_ASSIGNMENTS: Final = ("AssignVariableOp", "Assign")
_RESTORES: Final = "RestoreV2"
_PASSING: Final = ("Identity", "Cast")
_OBJECTS: Final = "_CHECKPOINTABLE_OBJECT_GRAPH"


def add_values(
    root: Graph, tensors: Mapping[str, Tensor], who: str, assets: Collection[OutputPort]
) -> set[str]:
    """Note the value of every variable of a graph; returns the keys that were used.

    The checkpoint does not have variables that hold the paths of assets.
    """
    keys = dict(_restored_variables(root))
    named = None
    paths = {u.inputs[0] for value in assets for u in value.user_ops if u.inputs}
    for op in root:
        if op.type in VARIABLES and op not in keys and op.output not in paths:
            named = _keys_by_name(tensors) if named is None else named
            shared = op.attrs.get("shared_name")
            for name in (shared, op.name):
                if isinstance(name, str) and name in named:
                    keys.setdefault(op, (named[str(name)], ""))
    for op, (key, spec) in keys.items():
        if key not in tensors:
            raise FormatError(
                f"the checkpoint has no tensor {key!r} for the variable {op.name!r}",
                who=who, got=f"{len(tensors)} other tensors",
            )  # fmt: skip
        value = _part_of(tensors[key], spec, f"{key!r} of {who}")
        if (
            isinstance(op.attrs.get("dtype"), DType)
            and op.attrs["dtype"] != value.dtype
        ):
            raise FormatError(
                f"the variable {op.name!r} and its value have different element types",
                who=who, expected=op.attrs["dtype"], got=value.dtype,
            )  # fmt: skip
        op.attrs[VALUE] = value
        NODE_RECORDS.add(op, key=key, slice=spec)
    return {key for key, _ in keys.values()}


def _restored_variables(root: Graph) -> Iterator[tuple[Op, tuple[str, str]]]:
    """The variables that ops restore, each with the key and the slice of its value."""
    callers = _Callers(root)
    graphs = [root]
    for name in names_of_mentioning(root, _RESTORES):
        reader = root.deferred_functions.get(name)
        rows = None
        if isinstance(reader, FunctionReader):
            rows = restored_arguments(reader)
        if rows is None:
            graphs.append(root.functions[name])
        for index, key in rows or ():
            for call in callers[name]:
                source = call.inputs[index] if index < len(call.inputs) else None
                if source is not None:
                    for found in _variables(source, callers, frozenset({name})):
                        yield found, key
    for graph in graphs:
        for op in graph:
            if op.type != _RESTORES or len(op.inputs) < 3:
                continue
            names, specs = (_strings(op.inputs[i]) for i in (1, 2))
            for value, name, spec in zip(op.outputs, names, specs, strict=False):
                for variable in _assigned_variables(value):
                    for found in _variables(variable, callers, frozenset()):
                        yield found, (name, spec)


class _Callers(dict[str, list[Op]]):
    """The ops that call a function, by its name."""

    def __init__(self, root: Graph) -> None:
        self.root = root

    def __missing__(self, name: str) -> list[Op]:
        graphs = (self.root, *functions_that_mention(self.root, name))
        self[name] = [op for graph in graphs for op in graph if _callee(op) == name]
        return self[name]


def _callee(op: Op) -> str:
    """The name of the function that an op may call."""
    called = op.attrs.get("f") if op.has_attrs else None
    return called.name if isinstance(called, FunctionRef) else op.type or ""


def _strings(value: OutputPort | None) -> list[str]:
    """The texts of a constant."""
    tensor = None if value is None else value.op.attrs.get("value")
    if not isinstance(tensor, Tensor) or tensor.dtype.name != "string":
        return []
    return [item.decode("utf-8", "replace") for item in tensor.numpy().reshape(-1)]


def _assigned_variables(value: OutputPort) -> Iterator[OutputPort]:
    """The variables that a value is assigned to."""
    waiting: list[InputPort] = list(value.users)
    while waiting:
        port = waiting.pop()
        op = port.op
        if op.type in _ASSIGNMENTS and port.index == 1 and op.inputs[0] is not None:
            yield op.inputs[0]
        elif op.type in _PASSING:
            waiting += op.outputs[0].users


def _variables(
    value: OutputPort, callers: _Callers, seen: frozenset[str]
) -> Iterator[Op]:
    """The ops whose variable a value is, through the calls of functions."""
    op = value.op
    if not isinstance(op, Graph):
        if op.type in VARIABLES:
            yield op
        elif op.type in _PASSING and op.inputs and op.inputs[0] is not None:
            yield from _variables(op.inputs[0], callers, seen)
        return
    name = op.name or ""
    if name in seen:  # functions that call each other
        return
    for call in callers[name]:
        source = call.inputs[value.index] if value.index < len(call.inputs) else None
        if source is not None:
            yield from _variables(source, callers, seen | {name})


def _keys_by_name(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Keys by the names of variables: they are equal, or objects have both."""
    found = {key: key for key in tensors}
    if _OBJECTS not in tensors:
        return found
    data = memoryview(tensors[_OBJECTS].item())
    for at in SAVED.read("TrackableObjectGraph", data).get("nodes", ()):
        node = SAVED.read("TrackableObjectGraph.TrackableObject", data, *at)
        for each in node.get("attributes", ()):
            row: Any = SAVED.read(
                "TrackableObjectGraph.TrackableObject.SerializedTensor", data, *each
            )
            if row.get("full_name") and row.get("checkpoint_key") in tensors:
                found.setdefault(row["full_name"], row["checkpoint_key"])
    return found


def _part_of(tensor: Tensor, spec: str, who: str) -> Tensor:
    """The slice of a tensor that a variable has."""
    parsed = parse_slice_spec(spec, who)
    if parsed is None:
        return tensor
    shape, extents = parsed
    if shape != tensor.shape:
        raise FormatError(
            "a slice is of a tensor of another shape", who=who,
            expected=list(tensor.shape), got=list(shape),
        )  # fmt: skip
    rows = list(zip(extents, shape, strict=True))
    lengths = [size if n < 0 else n for (_, n), size in rows]
    if any(
        s < 0 or s + n > size for ((s, _), size), n in zip(rows, lengths, strict=True)
    ):
        raise FormatError("a slice is outside of its tensor", who=who, got=spec)
    places = tuple(
        slice(s, s + n) for ((s, _), _), n in zip(rows, lengths, strict=True)
    )
    return Tensor.lazy(lambda: tensor.numpy()[places], tensor.dtype, lengths)


def keyed_tensors(root: Graph, more: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a checkpoint: values of variables by their keys, and others."""
    from amanda_tf.checkpoints.bundle import assemble

    found = dict(more)
    parts: dict[str, list[Any]] = {}
    for op in root:
        if VALUE not in op.attrs:
            continue
        facts = NODE_RECORDS.of(op)
        key = facts.get("key") or op.name or ""
        parsed = parse_slice_spec(facts.get("slice", ""), key)
        if parsed is None:
            found[key] = op.attrs[VALUE]
        else:
            parts.setdefault(key, []).append((*parsed, op.attrs[VALUE]))
    for key, rows in parts.items():
        shape, dtype = rows[0][0], rows[0][2].dtype
        pieces = [(extents, value) for _, extents, value in rows]
        read = partial(assemble, pieces, dtype, shape, key)
        found[key] = Tensor.lazy(read, dtype, shape)
    return found
