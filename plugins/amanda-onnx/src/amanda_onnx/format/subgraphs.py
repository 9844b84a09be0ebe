"""Nested graphs that stand as ops, for models: as local functions, or inlined.

A local function of ONNX reads its inputs only. So what a nested graph captures becomes
further inputs, and its large constants are moved out of it, to be initializers.
"""

from __future__ import annotations

from typing import Any, Final

from amanda.errors import FormatError
from amanda.graph import Graph, Op, OutputPort, copy_input_attributes, copy_ops
from amanda.passes import inline
from amanda_onnx.domains import function_key, namespace_of

__all__ = ["CHOICES", "FUNCTIONS", "INLINE", "subgraph_fault", "without_subgraphs"]

FUNCTIONS: Final = "functions"
INLINE: Final = "inline"
CHOICES: Final = (FUNCTIONS, INLINE)
_DOMAIN: Final = "local"
_LARGE: Final = 1024  # bytes from which a constant is moved out


def without_subgraphs(graph: Graph, how: str) -> Graph:
    """A copy in which nested graphs are calls of local functions, or inlined.

    The graph itself where it has none. Those that can be neither stay.
    """
    if how not in CHOICES:
        raise FormatError(
            "an unknown way to write subgraphs",
            where="subgraphs=",
            expected=f"one of {', '.join(CHOICES)}",
            got=repr(how),
        )
    if not any(isinstance(op, Graph) for part in graph.graphs() for op in part):
        return graph
    copy = graph.clone()
    if how == INLINE:
        inline(copy)
    nested = [op for part in copy.graphs() for op in part if isinstance(op, Graph)]
    for inner in reversed(nested):  # the innermost first
        if subgraph_fault(inner) is None:
            _call_function(copy, inner)
    return copy


def subgraph_fault(inner: Graph) -> str | None:
    """Why a nested graph cannot become a local function, if it cannot."""
    inside = inner.inner_control_sources or inner.inner_control_sinks
    if inside or inner.control_inputs or inner.control_outputs:
        return "ONNX has no control edges"
    if inner.bodies:
        return "ONNX has no functions with bodies"
    return None


def _call_function(root: Graph, inner: Graph) -> None:
    """Replace a nested graph by a call of a new function of the root graph."""
    home = inner.graph
    assert home is not None
    for op in list(inner):
        if op.is_constant and op.attrs["value"].nbytes >= _LARGE:
            _move_out(op, inner, home)
    captures = list(inner.captures)
    key = _free_key(root, inner.type or inner.name or "subgraph")
    root.add_function(key, _function_of(inner, captures, key.partition("::")[2]))
    with home.before(inner):
        call = home.add(
            key.partition("::")[2],
            [*inner.inputs, *captures],
            outputs=len(inner.outputs),
            namespace=namespace_of(_DOMAIN, 1),
        )
    for old, new in zip(inner.outputs, call.outputs, strict=True):
        new.name, new.type = old.name, old.type
        new.attrs.update(old.attrs if old.has_attrs else {})
    copy_input_attributes([inner], [call], lambda value: value)
    name = inner.name
    home.replace(inner, call.outputs, FUNCTIONS)
    home.rename(call, name)


def _move_out(constant: Op, inner: Graph, home: Graph) -> None:
    """Move a constant to the graph around, which the nested graph then captures."""
    name = constant.name
    with home.before(inner):
        moved = home.constant(
            constant.attrs["value"], home.fresh_name(name) if name else None
        )
    moved.output.name = constant.output.name
    for key, value in constant.attrs.items():
        moved.attrs.setdefault(key, value)
    inner.replace_uses(constant.output, moved.output)
    inner.remove(constant)


def _function_of(inner: Graph, captures: list[OutputPort], name: str) -> Graph:
    """A function with the ops of a nested graph."""
    function = Graph(inner.namespace, name)
    if inner.has_attrs:
        function.attrs.update(inner.attrs)
    memo: dict[Any, Any] = {}
    taken: set[str | None] = set()
    values: list[OutputPort] = [*inner.parameters, *captures]
    for value in values:
        known = value.name if value.name not in taken else None
        memo[value] = function.parameter(value.type, known)
        taken.add(known)
    copy_ops(inner, function, list(inner), memo)
    for port, result in zip(inner.outputs, inner.results, strict=True):
        function.result(None if result is None else memo[result], port.name)
    return function


def _free_key(root: Graph, stem: str) -> str:
    """The key of a new function."""
    stem = stem.replace("::", "_")
    names = [stem, *(f"{stem}_{i}" for i in range(1, len(root.functions) + 1))]
    keys = (function_key(_DOMAIN, name) for name in names)
    return next(key for key in keys if key not in root.functions)
