"""Deeplearning4j's TensorFlow rules, done by hand: an oracle that makes no rows.

For one op it gives the arguments of nd4j as (kind, index) and value, by the meanings
that the rule types are published with, and nothing of the plug-in but its file reader.
"""

from __future__ import annotations

from typing import Any

from amanda.dictionary import Dictionary
from amanda.graph import Op, OutputPort
from amanda.mapping import constant_of
from amanda.types import DType
from amanda_nd4j.namespace import Descriptor
from amanda_nd4j.rulesets import Declaration, PublishedRule

__all__ = ["Absent", "arguments"]

CODES = {
    "bool": 1, "float16": 3, "float32": 5, "float64": 6, "int8": 7, "int16": 8,
    "int32": 9, "int64": 10, "uint8": 11, "uint16": 12, "uint32": 13, "uint64": 14,
    "bfloat16": 17, "string": 50,
}  # fmt: skip


class Absent(Exception):
    """A value that is known at run time only."""


def arguments(
    declaration: Declaration, descriptor: Descriptor, op: Op, dictionary: Dictionary
) -> dict[tuple[str, int], Any]:
    """The arguments that are no tensors. The first rule for an index has it; what
    another argument of that index says goes to the index of its own name."""
    found: dict[tuple[str, int], tuple[str, Any]] = {}
    for rule in declaration.rules:
        for name, kind, index, value in _results(rule, descriptor, op, dictionary):
            if (kind, index) in found and found[kind, index][0] != name:
                index = _index(descriptor, name, kind)
            found[kind, index] = name, value
    return {key: value for key, (_, value) in found.items() if value is not None}


def _index(descriptor: Descriptor, name: str, kind: str) -> int:
    for each in descriptor.arguments:
        if each.name == name and each.kind == kind:
            return each.place
    return -1


def _kinds(descriptor: Descriptor, name: str) -> list[str]:
    wanted = ("INT64", "BOOL")
    return [e.kind for e in descriptor.arguments if e.name == name and e.kind in wanted]


def _results(
    rule: PublishedRule, descriptor: Descriptor, op: Op, dictionary: Dictionary
) -> list[tuple[str, str, int, Any]]:
    entry = dictionary[op.type or ""]
    names = [port.name for port in entry.inputs]

    def attr(name: str) -> Any:
        known = entry.attr(name)
        return op.attrs.get(name, None if known is None else known.default)

    def tensor(name: str) -> Any:
        at = names.index(name)
        if at and entry.inputs[0].repeats:  # behind a list
            at = len(op.inputs) - (len(names) - at)
        value: OutputPort | None = op.inputs[at]
        while value is not None and value.op.type == "Identity":
            value = value.op.inputs[0]
        content = None if value is None else constant_of(value)
        if content is None:
            raise Absent(name)
        return content

    def by_name(key: str, kind: str, value: Any) -> tuple[str, str, int, Any]:
        return key, kind, _index(descriptor, key, kind), value

    made: list[tuple[str, str, int, Any]] = []
    if rule.name == "argdescriptorconstant":
        for given in rule.values("value"):
            made.append((given.name, given.kind, given.place, given.value))
    for key, name in rule.pairs.items():
        values = rule.values(key)
        match rule.name:
            case "valuemapping":
                made.append(by_name(key, _kind(attr(name), entry, name), attr(name)))
            case "invertbooleannumber":
                made.append(by_name(key, "INT64", int(attr(name))))
            case "stringequals" | "stringnotequalsadapterrule":
                holds = attr(name) == values[0].fields["stringValue"]
                holds = holds == (rule.name == "stringequals")
                kinds = _kinds(descriptor, key)
                for kind in kinds:
                    at = values[0].place
                    if len(kinds) > 1:
                        at = _index(descriptor, key, kind)
                    made.append(
                        (key, kind, at, int(holds) if kind[0] == "I" else holds)
                    )
            case "stringtoindex":
                words = [each.fields["stringValue"] for each in values]
                made.append((key, "INT64", values[0].place, words.index(attr(name))))
            case "datatypetoint":
                made.append(by_name(key, "INT64", CODES[str(attr(name))]))
            case "listnumbertolistnumber":
                made.append(by_name(key, "INT64", list(attr(name))))
            case "listattributevaluelookuptoindex":
                made.append(
                    (key, "INT64", values[0].place, attr(name)[values[0].value])
                )
            case "ndarraytointattributevalue":
                made.append(by_name(key, "INT64", tensor(name).tolist()))
            case "ndarrayinputtonumericalattribute":
                first = tensor(name).numpy().reshape(-1)[0].item()
                kind = "INT64" if _index(descriptor, key, "INT64") >= 0 else "DOUBLE"
                made.append(by_name(key, kind, first))
            case "ndarraysizeat":
                at = values[0].fields.get("int64Value", 0)
                port = op.inputs[names.index(name)]
                known = None if port is None else constant_of(port)
                size = -1 if known is None else known.shape[at]
                made.append((key, "INT64", values[0].place, size))
            case (
                "conditionalfieldvalueintindex" | "conditionalfieldvalueintindexndarray"
            ):
                told = {each.name: each for each in values}
                holds = attr(name) == told["targetValue"].fields["stringValue"]
                index = told["trueIndex" if holds else "falseIndex"]
                of = told["attributeNameOfListAttribute"].fields["stringValue"]
                items = tensor(of).tolist() if rule.name[-7:] == "ndarray" else attr(of)
                made.append((key, "INT64", index.place,
                             items[index.fields["int64Value"]]))  # fmt: skip
    return made


def _kind(value: Any, entry: Any, name: str) -> str:
    if isinstance(value, bool):
        return "BOOL"
    kinds = {int: "INT64", float: "DOUBLE", str: "STRING", DType: "DATA_TYPE"}
    if type(value) in kinds:
        return kinds[type(value)]
    attr = entry.attr(name)
    return "INT64" if attr is not None and attr.kind == "int" else "DATA_TYPE"
