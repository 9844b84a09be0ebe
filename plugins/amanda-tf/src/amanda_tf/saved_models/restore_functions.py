"""Which arguments a function of a SavedModel restores, without reading it as a graph.

A `tf.train.Checkpoint` saves a function that restores all variables: as many ops as
they are, which no conversion needs. It has one `RestoreV2`, whose outputs are assigned
to arguments, directly or by way of `Identity`. Other functions are left to the caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from amanda.tensors import Tensor
from amanda_tf.graphdef import FunctionNode, FunctionReader

__all__ = ["restored_arguments"]

_ASSIGNMENT: Final = "AssignVariableOp"
_USUAL: Final = frozenset({"Const", "Identity", "NoOp", "RestoreV2", _ASSIGNMENT})

RestoredArgument: TypeAlias = "tuple[int, tuple[str, str]]"
"""The index of an argument, the key and the slice of the value that it gets."""


def restored_arguments(reader: FunctionReader) -> list[RestoredArgument] | None:
    """The arguments that a function restores; None where it is not as usual."""
    nodes = list(reader.nodes())
    if not all(node.op in _USUAL for node in nodes):
        return None
    restores = [node for node in nodes if node.op == "RestoreV2"]
    if len(restores) != 1 or len(restores[0].inputs) < 3:
        return None
    by_name = {node.name: node for node in nodes}
    names, specs = (
        _texts(by_name.get(text.partition(":")[0])) for text in restores[0].inputs[1:3]
    )
    places = {name: i for i, name in enumerate(reader.argument_names())}
    found: list[RestoredArgument] = []
    for node in nodes:
        if node.op != _ASSIGNMENT:
            continue
        index = _output_index(node.inputs[1:2], by_name, restores[0].name)
        place = places.get(node.inputs[0])
        if names is None or specs is None or index is None or place is None:
            return None
        if index < min(len(names), len(specs)):
            found.append((place, (names[index], specs[index])))
    return found


def _output_index(
    inputs: Sequence[str], nodes: dict[str, FunctionNode], restore: str
) -> int | None:
    """The index of the tensor that a value is, by way of `Identity`; None if none."""
    for _ in nodes:
        name, _, output = inputs[0].partition(":") if inputs else ("", "", "")
        if name == restore:
            group, _, index = output.partition(":")
            return int(index) if group == "tensors" and index.isdigit() else None
        node = nodes.get(name)
        if node is None or node.op != "Identity":
            return None
        inputs = node.inputs
    return None


def _texts(node: FunctionNode | None) -> list[str] | None:
    """The texts of a constant."""
    tensor = None if node is None or node.op != "Const" else node.attrs().get("value")
    if not isinstance(tensor, Tensor) or tensor.dtype.name != "string":
        return None
    return [item.decode("utf-8", "replace") for item in tensor.numpy().reshape(-1)]
