"""Deeplearning4j's TensorFlow rules, done by hand: an oracle that makes no rows.

For one op it gives the arguments of nd4j as (kind, index) and value, by the meanings
that the rule types are published with, and nothing of the plug-in but its file reader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from amanda.dictionary import Dictionary, OpDef
from amanda.graph import Op, OutputPort
from amanda.mapping import constant_of
from amanda.tensors import Tensor
from amanda.types import DType
from amanda_nd4j.namespace import Descriptor
from amanda_nd4j.rulesets import Declaration, PublishedRule, RuleArgument

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


Result = tuple[str, str, int, Any]
"""Name, kind, index and value."""


def _results(
    rule: PublishedRule, descriptor: Descriptor, op: Op, dictionary: Dictionary
) -> Iterator[Result]:
    if rule.name == "argdescriptorconstant":
        for given in rule.values("value"):
            yield given.name, given.kind, given.place, given.value
    meaning = _MEANINGS.get(rule.name)
    if meaning is not None:
        at = Place(op, dictionary[op.type or ""], descriptor)
        for key, name in rule.pairs.items():
            yield from meaning(at, key, name, rule.values(key))


class Place(NamedTuple):
    """An op, and what is known of it and of what it becomes."""

    op: Op
    entry: OpDef
    descriptor: Descriptor

    def attr(self, name: str) -> Any:
        known = self.entry.attr(name)
        return self.op.attrs.get(name, None if known is None else known.default)

    def port(self, name: str) -> OutputPort | None:
        names = [port.name for port in self.entry.inputs]
        at = names.index(name)
        if at and self.entry.inputs[0].repeats:  # behind a list
            at = len(self.op.inputs) - (len(names) - at)
        return self.op.inputs[at]

    def tensor(self, name: str) -> Tensor:
        value = self.port(name)
        while value is not None and value.op.type == "Identity":
            value = value.op.inputs[0]
        content = None if value is None else constant_of(value)
        if content is None:
            raise Absent(name)
        return content

    def by_name(self, key: str, kind: str, value: Any) -> Result:
        return key, kind, _index(self.descriptor, key, kind), value


_Values = tuple[RuleArgument, ...]


def _value(at: Place, key: str, name: str, _: _Values) -> Iterator[Result]:
    value = at.attr(name)
    yield at.by_name(key, _kind(value, at.entry, name), value)


def _number(at: Place, key: str, name: str, _: _Values) -> Iterator[Result]:
    yield at.by_name(key, "INT64", int(at.attr(name)))


def _equal(at: Place, key: str, name: str, values: _Values) -> Iterator[Result]:
    holds = at.attr(name) == values[0].fields["stringValue"]
    kinds = _kinds(at.descriptor, key)
    for kind in kinds:
        alone = len(kinds) == 1
        index = values[0].place if alone else _index(at.descriptor, key, kind)
        yield key, kind, index, int(holds) if kind == "INT64" else holds


def _unequal(at: Place, key: str, name: str, values: _Values) -> Iterator[Result]:
    for told, kind, index, value in _equal(at, key, name, values):
        yield told, kind, index, 1 - value if kind == "INT64" else not value


def _word(at: Place, key: str, name: str, values: _Values) -> Iterator[Result]:
    words = [each.fields["stringValue"] for each in values]
    yield key, "INT64", values[0].place, words.index(at.attr(name))


def _code(at: Place, key: str, name: str, _: _Values) -> Iterator[Result]:
    yield at.by_name(key, "INT64", CODES[str(at.attr(name))])


def _list(at: Place, key: str, name: str, _: _Values) -> Iterator[Result]:
    yield at.by_name(key, "INT64", list(at.attr(name)))


def _item(at: Place, key: str, name: str, values: _Values) -> Iterator[Result]:
    yield key, "INT64", values[0].place, at.attr(name)[values[0].value]


def _all(at: Place, key: str, name: str, _: _Values) -> Iterator[Result]:
    yield at.by_name(key, "INT64", at.tensor(name).tolist())


def _first(at: Place, key: str, name: str, _: _Values) -> Iterator[Result]:
    first = at.tensor(name).numpy().reshape(-1)[0].item()
    kind = "INT64" if _index(at.descriptor, key, "INT64") >= 0 else "DOUBLE"
    yield at.by_name(key, kind, first)


def _size(at: Place, key: str, name: str, values: _Values) -> Iterator[Result]:
    port = at.port(name)
    known = None if port is None else constant_of(port)
    dim = values[0].fields.get("int64Value", 0)
    yield key, "INT64", values[0].place, -1 if known is None else known.shape[dim]


def _chosen(at: Place, key: str, name: str, values: _Values) -> Iterator[Result]:
    told = {each.name: each for each in values}
    holds = at.attr(name) == told["targetValue"].fields["stringValue"]
    index = told["trueIndex" if holds else "falseIndex"]
    of = told["attributeNameOfListAttribute"].fields["stringValue"]
    items = at.attr(of) if at.entry.attr(of) else at.tensor(of).tolist()
    yield key, "INT64", index.place, items[index.fields["int64Value"]]


_MEANINGS: dict[str, Callable[[Place, str, str, _Values], Iterator[Result]]] = {
    "valuemapping": _value,
    "invertbooleannumber": _number,
    "stringequals": _equal,
    "stringnotequalsadapterrule": _unequal,
    "stringtoindex": _word,
    "datatypetoint": _code,
    "listnumbertolistnumber": _list,
    "listattributevaluelookuptoindex": _item,
    "ndarraytointattributevalue": _all,
    "ndarrayinputtonumericalattribute": _first,
    "ndarraysizeat": _size,
    "conditionalfieldvalueintindex": _chosen,
    "conditionalfieldvalueintindexndarray": _chosen,
}


def _kind(value: Any, entry: Any, name: str) -> str:
    if isinstance(value, bool):
        return "BOOL"
    kinds = {int: "INT64", float: "DOUBLE", str: "STRING", DType: "DATA_TYPE"}
    if type(value) in kinds:
        return kinds[type(value)]
    attr = entry.attr(name)
    return "INT64" if attr is not None and attr.kind == "int" else "DATA_TYPE"
