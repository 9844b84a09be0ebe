"""The parameters and results of a program as a function of Python has them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from amanda.graph import OutputPort
from amanda_torch.records import INPUT_RECORDS, PROGRAM_RECORDS
from amanda_torch.source.forward import free_name
from amanda_torch.source.program import Program
from amanda_torch.source.python_text import (
    Expression,
    constant_text,
    expression,
    join,
    literal,
)
from amanda_torch.source.steps import result_items

__all__ = ["FixedInput", "Signature", "flat_inputs", "read_signature"]


class Parameter(NamedTuple):
    """A parameter: its name, type and default, as text."""

    name: str
    type: str = "Tensor"
    default: str | None = None
    by_name: bool = False


class Signature(NamedTuple):
    """The parameters of `forward`, the text of each value, and what it returns."""

    parameters: Sequence[Parameter]
    texts: dict[OutputPort, str]
    returned: Expression
    result: str
    writes: Sequence[tuple[str, str, OutputPort]]
    """Role, target and new value of buffers and inputs that the program changes."""

    def head(self) -> str:
        """The head of the method."""
        items = ["self"]
        for i, each in enumerate(self.parameters):
            if each.by_name and "*" not in items:
                items.append("*")
            rest = [p for p in self.parameters[i:] if not p.by_name]
            optional = each.by_name or all(p.default is not None for p in rest)
            default = f" = {each.default}" if each.default and optional else ""
            items.append(f"{each.name}: {each.type}{default}")
        return f"def forward({', '.join(items)}) -> {self.result}:"


def read_signature(program: Program) -> Signature:
    """The signature of a program, by its trees of arguments."""
    record = PROGRAM_RECORDS.of(program.graph)
    calls = record.get("module_call_graph") or [{}]
    known = calls[0].get("signature") or {}
    leaves = flat_inputs(program)
    texts: dict[OutputPort, str] = {}
    parameters = _parameters(known, leaves, texts)
    items, writes = _results(program)
    spec = json.loads(known["out_spec"])[1] if known.get("out_spec") else None
    if spec is None or _count(spec) != len(items):
        spec = {"type": None} if len(items) == 1 else {
            "type": "builtins.tuple", "children_spec": [{"type": None}] * len(items),
        }  # fmt: skip
    kinds = [
        _type_of(v) for p, v in zip(program.graph.outputs, program.results, strict=True)
        if not _is_write(p)
    ]  # fmt: skip
    returned = _tree(spec, iter(items))
    return Signature(parameters, texts, returned, _tree_type(spec, iter(kinds)), writes)


def flat_inputs(program: Program) -> list[OutputPort | FixedInput]:
    """The inputs of a program in order: values, and those that it fixes."""
    record = PROGRAM_RECORDS.of(program.graph)
    parameters = {port.name: port for port in program.graph.parameters}
    constants = record.get("constants", {})
    order = [n for n in record.get("inputs", ()) if n in constants or n in parameters]
    order += [name for name in parameters if name not in order]
    return [
        parameters[n] if n in parameters else FixedInput(constants[n]) for n in order
    ]


class FixedInput:
    """An input that the program fixes: its value."""

    def __init__(self, entry: dict[str, Any]) -> None:
        spec = next(iter(entry["spec"].values()))
        value = spec.get("value", spec.get("arg", entry["input"]))
        [(kind, found)] = value.items() if isinstance(value, dict) else [("", value)]
        self.value = None if kind == "as_none" else found


def _type_of(value: Any) -> str:
    if isinstance(value, OutputPort):
        kind = value.op.type or "" if value.op.type else ""
        recorded = INPUT_RECORDS.of(value).get("kind") if not kind else ""
        names = {"as_sym_int": "int", "as_sym_float": "float", "as_sym_bool": "bool"}
        if recorded in names:
            return names[recorded]
        return "int" if kind.startswith(("aten.sym_size", "_operator.")) else "Tensor"
    value = getattr(value, "value", value)
    return "None" if value is None else type(value).__name__


# -- trees ---------------------------------------------------------------------------


def _count(spec: dict[str, Any]) -> int:
    children = spec.get("children_spec") or []
    return sum(map(_count, children)) if spec.get("type") is not None else 1


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _keys(spec: dict[str, Any]) -> list[Any] | None:
    """The keys of a dict; None for a sequence."""
    try:
        context = json.loads(spec.get("context") or "null")
    except (TypeError, ValueError):
        return None
    if isinstance(context, list) and len(context) == 2:  # with facts of the class
        named = [part for part in context[::-1] if _are_names(part)]
        context = named[0] if named else context
    count = len(spec.get("children_spec") or [])
    is_keys = isinstance(context, list) and len(context) == count
    return context if is_keys and spec["type"] != "builtins.tuple" else None


def _parameters(
    known: dict[str, Any], leaves: Sequence[Any], texts: dict[OutputPort, str]
) -> list[Parameter]:
    spec = json.loads(known["in_spec"])[1] if known.get("in_spec") else None
    if spec is None or _count(spec) != len(leaves):
        return [_leaf(leaf, f"input_{i}", texts) for i, leaf in enumerate(leaves)]
    args, kwargs = spec["children_spec"]
    names = list(known.get("forward_arg_names") or [])
    rest = iter(leaves)
    found: list[Parameter] = []
    for i, child in enumerate(args["children_spec"]):
        name = names[i] if i < len(names) else f"input_{i}"
        found.append(_parameter(name, child, rest, texts, False))
    for key, child in zip(_keys(kwargs) or [], kwargs["children_spec"], strict=True):
        found.append(_parameter(key, child, rest, texts, True))
    return found


def _leaf(leaf: Any, name: str, texts: dict[OutputPort, str]) -> Parameter:
    if isinstance(leaf, OutputPort):
        texts[leaf] = free_name(leaf.name or name, texts.values())
        return Parameter(texts[leaf], _type_of(leaf))
    return Parameter(name, _type_of(leaf), constant_text(leaf.value))


def _parameter(
    name: str, spec: dict[str, Any], leaves: Iterator[Any],
    texts: dict[OutputPort, str], by_name: bool,
) -> Parameter:  # fmt: skip
    if spec.get("type") is not None:
        types: list[str] = []
        _paths(spec, name, leaves, texts, types)
        return Parameter(name, _tree_type(spec, iter(types)), by_name=by_name)
    leaf = next(leaves)
    if isinstance(leaf, OutputPort):
        texts[leaf] = name
        return Parameter(name, _type_of(leaf), by_name=by_name)
    default = constant_text(leaf.value)
    return Parameter(name, _type_of(leaf), default, by_name)


def _paths(
    spec: dict[str, Any], path: str, leaves: Iterator[Any],
    texts: dict[OutputPort, str], types: list[str],
) -> None:  # fmt: skip
    """The texts of the leaves of a tree: `cache[0]["key"]`."""
    if spec.get("type") is None:
        leaf = next(leaves)
        types.append(_type_of(leaf))
        if isinstance(leaf, OutputPort):
            texts[leaf] = path
        return
    children = spec.get("children_spec") or []
    keys = _keys(spec) or range(len(children))
    for key, child in zip(keys, children, strict=True):
        part = constant_text(key)
        _paths(child, f"{path}[{part}]", leaves, texts, types)


def _tree(spec: dict[str, Any], leaves: Iterator[Expression]) -> Expression:
    if spec.get("type") is None:
        return next(leaves)
    children = [_tree(child, leaves) for child in spec.get("children_spec") or []]
    keys = _keys(spec)
    if keys is not None:
        pairs = [
            expression(literal(key), ": ", child)
            for key, child in zip(keys, children, strict=True)
        ]
        return expression("{", join(pairs), "}")
    if spec["type"] == "builtins.list":
        return expression("[", join(children), "]")
    end = ",)" if len(children) == 1 else ")"
    return expression("(", join(children), end)


def _tree_type(spec: dict[str, Any], leaves: Iterator[str]) -> str:
    if spec.get("type") is None:
        return next(leaves)
    children = [_tree_type(child, leaves) for child in spec.get("children_spec") or []]
    kinds = list(dict.fromkeys(children))
    if _keys(spec) is not None:
        return f"dict[str, {' | '.join(kinds)}]"
    if spec["type"] == "builtins.list":
        return f"list[{' | '.join(kinds)}]"
    if len(kinds) == 1 and len(children) > 2:
        return f"tuple[{kinds[0]}, ...]"
    return f"tuple[{', '.join(children) or '()'}]"


# -- results -------------------------------------------------------------------------


def _is_write(port: Any) -> bool:
    spec = INPUT_RECORDS.of(port).get("spec") or {}
    return any(role.endswith("_mutation") for role in spec)


def _results(
    program: Program,
) -> tuple[list[Expression], list[tuple[str, str, OutputPort]]]:
    items: list[Expression] = []
    writes: list[tuple[str, str, OutputPort]] = []
    values = zip(
        program.graph.outputs, program.results, result_items(program), strict=True
    )
    for port, value, item in values:
        if not _is_write(port):
            items.append(item)
        elif value is not None:
            [(role, fields)] = INPUT_RECORDS.of(port)["spec"].items()
            target = next(v for k, v in fields.items() if k.endswith("_name"))
            writes.append((role, target, value))
    return items, writes
