"""The names of ops as nodes of a GraphDef."""

from __future__ import annotations

import re

from amanda.graph import Graph, Op
from amanda_tf.loading.interface import parameter_node

__all__ = ["node_names"]

_VALID_NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*")


def node_names(graph: Graph, *, results: bool = False) -> dict[Op, str]:
    """The name of every op; a new one where it has none, or not a valid one.

    Inputs keep their names; so do `results`, where they are nodes. New names are others
    than all others also in lower case: TensorFlow renames such nodes where it loads a
    SavedModel.
    """
    names: dict[Op, str] = {}
    used = {parameter_node(port) for port in graph.parameters if port.name}
    rows = zip(graph.outputs, graph.results, strict=True) if results else ()
    for port, value in rows:
        if port.name and (value is None or value.op.name != port.name or value.index):
            used.add(port.name)
    used_lower = {each.lower() for each in (*used, *(op.name for op in graph)) if each}
    count = 0
    for op in graph:
        name = op.name or f"{op.type}_{count}"
        if not _VALID_NAME.fullmatch(name):
            name = "n" + re.sub(r"[^A-Za-z0-9_.\\/>-]", "_", name)
        stem = name
        while name in used if name == op.name else name.lower() in used_lower:
            name, count = f"{stem}_{count}", count + 1
        used.add(name)
        used_lower.add(name.lower())
        names[op] = name
    return names
