"""Edits of models: what is otherwise done by hand, in one line each.

The functions change a graph in place, or return a part of it; `check_edit` validates
what they made.

>>> import amanda
>>> from amanda_std import ops
>>> graph = amanda.Graph("amanda/std/1")
>>> x = graph.parameter("float32[1, 4]", "x")
>>> graph.result(ops.exp(ops.tanh(x)), "y")
result graph[y]
>>> before = graph.clone()
>>> set_dims(graph, {"x:0": "batch"})
>>> rename_ports(graph, {"x": "features"}, {"y": "scores"})
>>> replace_ops(graph, "type:tanh", "relu")
1
>>> check_edit(before, graph)
>>> [op.type for op in graph], str(graph.results[0].type)
(['relu', 'exp'], 'float32[batch, 4]')
"""

from __future__ import annotations

from amanda.argument_checks import check_arguments
from amanda_inspect.editing.checking import (
    EditError,
    check_edit,
    find_lost_dims,
    infer_types,
)
from amanda_inspect.editing.interface import (
    add_outputs,
    extract,
    fix_inputs,
    keep_outputs,
    rename_ports,
    set_dims,
)
from amanda_inspect.editing.rewriting import (
    fold_constants,
    insert_after,
    remove_ops,
    replace_ops,
    replace_subgraph,
    set_attributes,
)
from amanda_inspect.editing.selection import find_ops, find_value
from amanda_inspect.editing.stripping import strip

__all__ = [
    "EditError",
    "add_outputs",
    "check_edit",
    "extract",
    "find_lost_dims",
    "find_ops",
    "find_value",
    "fix_inputs",
    "fold_constants",
    "infer_types",
    "insert_after",
    "keep_outputs",
    "remove_ops",
    "rename_ports",
    "replace_ops",
    "replace_subgraph",
    "set_attributes",
    "set_dims",
    "strip",
]

check_arguments(globals())
