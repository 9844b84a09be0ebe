"""Edits as texts of one line, in the order in which the command line gives them."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import amanda
from amanda.dictionary import parse_name
from amanda.errors import UsageError
from amanda.graph import Graph
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
from amanda_inspect.editing.stripping import strip

__all__ = ["EDITS", "OpText", "apply_edit", "parse_op"]

VALUE_ITSELF: Final = "_"


class OpText(NamedTuple):
    """An op as text: `Clip`, `Clip(_, 0.0, 6.0)`, `LeakyRelu(alpha=0.1)`."""

    type: str
    inputs: list[Any]
    """Names of values, numbers, None for the value that it is inserted after."""
    attrs: dict[str, Any]


def parse_op(text: str) -> OpText:
    """
    >>> parse_op("Clip(_, 0.0, 'max', axis=1)")
    OpText(type='Clip', inputs=[None, 0.0, 'max'], attrs={'axis': 1})
    """
    match = re.fullmatch(r"\s*([^()\s]+)\s*(?:\((.*)\))?\s*", text, re.DOTALL)
    try:
        call: Any = ast.parse(f"f({(match and match[2]) or ''})", mode="eval").body
        if match is None or not isinstance(call, ast.Call):
            raise SyntaxError
        inputs = [_input_of(node) for node in call.args]
        attrs = {str(key.arg): ast.literal_eval(key.value) for key in call.keywords}
    except (SyntaxError, ValueError) as error:
        raise UsageError(
            "this is no op", got=text,
            expected="TYPE, or TYPE(inputs, attribute=value), as in Clip(_, 0.0, 6.0)",
            hint="names with other characters than letters are in quotes",
        ) from error  # fmt: skip
    return OpText(match[1], inputs, attrs)


def _input_of(node: ast.expr) -> Any:
    if isinstance(node, ast.Name):
        return None if node.id == VALUE_ITSELF else node.id
    return ast.literal_eval(node)


def _pair(text: str, form: str) -> tuple[str, str]:
    name, mark, value = text.partition("=")
    if not mark or not name or not value:
        raise UsageError("this is no edit", expected=form, got=text)
    return name, value


def _ends(text: str) -> tuple[list[str], list[str]]:
    """Names before and after `..`."""
    first, mark, last = text.partition("..")
    if not mark or not last:
        raise UsageError("this is no part of a model", got=text,
                         expected="FROM..TO, each names with commas")  # fmt: skip
    return [name for name in first.split(",") if name], last.split(",")


def _literal(text: str) -> Any:
    """A Python literal, or else the text."""
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


def _rename_input(graph: Graph, text: str) -> None:
    rename_ports(graph, inputs=dict([_pair(text, "OLD=NEW")]))


def _rename_output(graph: Graph, text: str) -> None:
    rename_ports(graph, outputs=dict([_pair(text, "OLD=NEW")]))


def _set_dim(graph: Graph, text: str) -> None:
    set_dims(graph, dict([_pair(text, "INPUT:AXIS=SIZE")]))


def _fix_input(graph: Graph, text: str) -> None:
    name, value = _pair(text, "INPUT=VALUE")
    port = next((p for p in graph.parameters if p.name == name), None)
    dtype = getattr(port and port.type, "dtype", None)
    import numpy as np

    array = np.asarray(_literal(value))
    fix_inputs(graph, {name: array if dtype is None else array.astype(dtype.numpy)})


def _cut(graph: Graph, text: str) -> Graph:
    return extract(graph, *_ends(text))


def _keep_outputs(graph: Graph, text: str) -> Graph:
    return keep_outputs(graph, text.split(","))


def _add_output(graph: Graph, text: str) -> None:
    add_outputs(graph, text.split(","))


def _remove(graph: Graph, text: str) -> str:
    return _ops_text(remove_ops(graph, text))


def _replace_op(graph: Graph, text: str) -> str:
    name, op = _pair(text, "OPS=TYPE(attribute=value)")
    made = parse_op(op)
    return _ops_text(replace_ops(graph, name, made.type, made.attrs))


def _replace_subgraph(graph: Graph, text: str) -> None:
    part, op = _pair(text, "FROM..TO=TYPE(attribute=value)")
    made = parse_op(op)
    replace_subgraph(graph, *_ends(part), made.type, made.attrs)


def _insert(graph: Graph, text: str) -> None:
    value, op = _pair(text, "VALUE=TYPE(_, attribute=value)")
    made = parse_op(op)
    insert_after(graph, value, made.type, made.attrs, made.inputs or None)


def _set(graph: Graph, text: str) -> str:
    place, value = _pair(text, "OPS.ATTRIBUTE=VALUE")
    ops, mark, name = place.rpartition(".")
    if not mark:
        raise UsageError(
            "this is no attribute of an op", expected="OPS.ATTRIBUTE=VALUE", got=text
        )
    return _ops_text(set_attributes(graph, ops, **{name: _literal(value)}))


def _opset(graph: Graph, text: str) -> Graph:
    path = parse_name(graph.namespace or "").path
    return amanda.convert(graph, f"{path}/{text}")


def _fold(graph: Graph, text: str) -> str:  # noqa: ARG001
    return _ops_text(fold_constants(graph))


def _strip(graph: Graph, text: str) -> str:
    count = strip(graph, *text.split(","))
    return f"{count} places"


def _ops_text(count: int) -> str:
    return "1 op" if count == 1 else f"{count} ops"


EDITS: Final[dict[str, Callable[[Graph, str], Graph | str | None]]] = {
    "rename-input": _rename_input,
    "rename-output": _rename_output,
    "dim": _set_dim,
    "fix-input": _fix_input,
    "cut": _cut,
    "keep-outputs": _keep_outputs,
    "add-output": _add_output,
    "remove": _remove,
    "replace-op": _replace_op,
    "replace-subgraph": _replace_subgraph,
    "insert": _insert,
    "set": _set,
    "opset": _opset,
    "fold": _fold,
    "strip": _strip,
}
"""The edits by the names of their options."""


def apply_edit(graph: Graph, name: str, text: str) -> tuple[Graph, str]:
    """Apply an edit; returns the graph, and what was changed."""
    found = EDITS[name](graph, text)
    if isinstance(found, Graph):
        return found, ""
    return graph, found or ""
