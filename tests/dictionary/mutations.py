"""Faults planted in a graph, one at a time, and taken out again.

Each mutation yields what was planted, after planting it: the op and the kinds of
problem that must be told for it. What cannot be planted in an op is passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from amanda.dictionary import Attr, Dictionary, OpDef, attribute_fault
from amanda.graph import CORE, Graph, Op
from amanda.types import DType, TensorType

__all__ = ["MUTATIONS", "plant_mutations"]

Planted = Iterator[set[str]]
Mutation = Callable[[Op, OpDef], Planted]


def renamed_op(op: Op, _: OpDef) -> Planted:
    was, op.type = op.type, f"{op.type}Q"
    yield {"unknown op"}
    op.type = was


def renamed_attribute(op: Op, entry: OpDef) -> Planted:
    for name in [n for n in op.attrs if entry.attr(n) is not None]:
        value = op.attrs.pop(name)
        op.attrs[f"{name}q"] = value
        yield {"unknown attribute"}
        del op.attrs[f"{name}q"]
        op.attrs[name] = value


def removed_attribute(op: Op, entry: OpDef) -> Planted:
    for attr in entry.attrs:
        if attr.required and attr.name in op.attrs:
            value = op.attrs.pop(attr.name)
            yield {"missing attribute"}
            op.attrs[attr.name] = value


def retyped_attribute(op: Op, entry: OpDef) -> Planted:
    for name, was in dict(op.attrs).items():
        attr = entry.attr(name)
        if attr is not None:
            op.attrs[name] = _other(attr)
            yield {"attribute kind"}
            op.attrs[name] = was


def _other(attr: Attr) -> Any:
    """A value of another kind than the attribute's."""
    other: Any = {"string": 7, "dtype": 7, "type": 7, "function": 7, "sparse": None}
    found = other.get(attr.element, "no value")
    return [found] if attr.is_list else found


def forbidden_value(op: Op, entry: OpDef) -> Planted:
    for name, was in dict(op.attrs).items():
        attr = entry.attr(name)
        value = None if attr is None else _forbidden(attr)
        if (
            attr is not None
            and value is not None
            and attribute_fault(attr, was) is None
        ):
            op.attrs[name] = value
            yield {"attribute value"}
            op.attrs[name] = was


def _forbidden(attr: Attr) -> Any:
    if attr.minimum is not None and attr.minimum > 0 and attr.is_list:
        return []
    if attr.minimum is not None and not attr.is_list:
        return attr.minimum - 1
    if attr.bounds is not None:
        beyond = attr.bounds[1] + 1
        return [beyond] if attr.is_list else beyond
    if attr.allowed:
        known = {"string": ["no such thing"], "dtype": DTYPES, "type": DTYPES}
        for value in known.get(attr.element, []):
            if value not in attr.allowed:
                return [value] if attr.is_list else value
    return None


DTYPES = [DType(name) for name in ("complex128", "string", "qint32", "float8_e3m4")]


def one_input_more(op: Op, entry: OpDef) -> Planted:
    if not any(port.repeats for port in entry.inputs):
        value = next((v for v in op.inputs if v is not None), None)
        if value is None:
            return
        missing = len(entry.inputs) - len(op.inputs) + 1
        for _ in range(missing):
            op.add_input(value)
        yield {"inputs"}
        for _ in range(missing):
            op.remove_input(len(op.inputs) - 1)


def one_input_less(op: Op, entry: OpDef) -> Planted:
    forms = [port.form for port in entry.inputs]
    if len(op.inputs) == len(forms) and forms and set(forms) == {"one"}:
        last = op.inputs[-1]
        op.remove_input(len(op.inputs) - 1)
        yield {"inputs"}
        op.add_input(last)


def open_input(op: Op, entry: OpDef) -> Planted:
    for i, port in enumerate(entry.inputs[: len(op.inputs)]):
        value = op.inputs[i]
        if port.repeats:
            return
        if port.form == "one" and value is not None:
            op.input_ports[i].connect(None)
            yield {"missing input"}
            op.input_ports[i].connect(value)


def one_output_more(op: Op, entry: OpDef) -> Planted:
    if not any(port.repeats for port in entry.outputs):
        was = op.outputs
        for _ in range(len(entry.outputs) - len(was) + 1):
            op.add_output()
        yield {"outputs"}
        op.outputs = was


def edge_type(op: Op, entry: OpDef) -> Planted:
    for i, port in enumerate(entry.inputs[: len(op.inputs)]):
        value = op.inputs[i]
        if port.repeats:
            return
        attr = entry.attr(port.type) if isinstance(port.type, str) else None
        allowed = (port.type,) if attr is None else attr.allowed
        other = next((d for d in DTYPES if allowed and d not in allowed), None)
        if value is not None and other is not None:
            was, value.type = value.type, TensorType(other, [3])
            yield {"type"}
            value.type = was


MUTATIONS: dict[str, Mutation] = {
    "op renamed": renamed_op,
    "attribute renamed": renamed_attribute,
    "attribute removed": removed_attribute,
    "attribute retyped": retyped_attribute,
    "value forbidden": forbidden_value,
    "input more": one_input_more,
    "input less": one_input_less,
    "input open": open_input,
    "output more": one_output_more,
    "edge type": edge_type,
}


def plant_mutations(
    graph: Graph, dictionary: Dictionary, find: Any = None
) -> Iterator[tuple[str, bool]]:
    """Every mutation of every op: its name, and whether it was told, at its op."""
    for op in [op for op in graph.walk() if op.__class__ is Op]:
        entry = dictionary.get(op.type)
        own = op.own_namespace
        if entry is None or own == CORE or (own or dictionary.name) != dictionary.name:
            continue
        for name, mutation in MUTATIONS.items():
            for kinds in mutation(op, entry):
                label = op.label
                found = dictionary.validate(graph)
                yield name, any(p.op == label and p.kind in kinds for p in found)
