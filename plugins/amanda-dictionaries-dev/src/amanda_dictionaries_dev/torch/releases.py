"""Parse the C++ headers in packages of PyTorch 1.0 to 1.6.

`RegistrationDeclarations.h` has the schemas of the operators of aten, in comments.
Releases without it, or with a partial one, have C++ functions for all operators: these
distinguish operators of aten from those that only TorchScript has, for lists, strings
and numbers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import Any, NamedTuple

from amanda_dictionaries_dev.torch.schemas import overload_name

_SCHEMA = re.compile(r'// (?:\{"schema": ("aten::.*?[^\\]").*\}|(aten::.*))$')
_FUNCTION = re.compile(
    r"\s*(?:static inline |virtual |static |inline )?(?:CAFFE2_API )?"
    r"[\w:<>,&\s]*?[\s&>](?:Tensor::)?(\w+)\((.*?)\)\s*(?:const)?\s*"
    r"(?:override|= 0)?\s*[;{]"
)
_OPTIONS = frozenset({"dtype", "layout", "device", "pin_memory"})
_NUMBERS = {  # named constants in defaults
    "Mean": 1, "Sum": 2, "channels_last": 2, "contiguous_format": 0, "long": 4,
    "preserve_format": 0, "strided": 0,
}  # fmt: skip
_ALIAS = re.compile(r"\(([a-z](?:\|[a-z])*!?(?:\s*->\s*[^)]*)?|\*!?)\)")
# Functions of both C++ and TorchScript that are not operators.
_NOT_OPERATORS = {
    "cpu",
    "cuda",
    "dim",
    "get_device",
    "sizes",
    "storage_offset",
    "strides",
}


class CppFunction(NamedTuple):
    """A C++ function: its name, and the names of its arguments without results."""

    name: str
    arguments: frozenset[str]


def read_declarations(text: str) -> Iterator[tuple[str, str]]:
    """Read names and schemas of operators from `RegistrationDeclarations.h`.

    >>> list(read_declarations("Tensor t(); // aten::t(Tensor self) -> Tensor"))
    [('aten::t', 'aten::t(Tensor self) -> Tensor')]
    """
    for line in text.splitlines():
        if found := _SCHEMA.search(line):
            schema = json.loads(found[1]) if found[1] else found[2].strip()
            yield schema.partition("(")[0], re.sub(r"-> void$", "-> ()", schema)


def parse_schema(schema: str) -> dict[str, Any]:
    """Parse a schema into a row of raw data.

    >>> parse_schema("aten::t(Tensor(a) self, *, int[2] dim=1) -> Tensor(a)")["args"][1]
    {'type': 'int[2]', 'name': 'dim', 'kw': True, 'default': [1, 1]}
    """
    inside, _, after = schema.partition("(")[2].rpartition("->")
    after = after.strip()
    row: dict[str, Any] = {"args": []}
    named = False
    for part in _split_arguments(inside.rstrip().removesuffix(")")):
        if part.strip() == "*":
            named = True
        else:
            text, _, default = part.strip().partition("=")
            row["args"].append(_argument(text.strip(), default.strip(), named))
    is_many = after.startswith("(") and not _ALIAS.match(after)
    results = _split_arguments(after[1:-1]) if is_many else [after]
    if returns := [_parse_type(result.strip()) for result in results]:
        row["returns"] = returns
    return row


def _argument(text: str, default: str, named: bool) -> dict[str, Any]:
    row = _parse_type(text) | ({"kw": True} if named else {})
    return row | ({"default": _default(row["type"], default)} if default else {})


def _parse_type(text: str) -> dict[str, Any]:
    """Parse `Tensor(a!) self` into a row: type, name and alias set."""
    alias = _ALIAS.search(text)
    kind, _, name = _ALIAS.sub("", text).rpartition(" ")
    row: dict[str, Any] = {"type": kind.strip() or name}
    row |= {"name": name} if kind else {}
    return row | ({"alias": alias[1]} if alias else {})


def _default(kind: str, text: str) -> Any:
    if text[0] in "[{(":
        return [_value(part.strip()) for part in _split_arguments(text[1:-1])]
    value = _value(text)
    size = re.search(r"\[(\d+)\]\??$", kind)
    if size and value is not None:
        return [value] * int(size[1])
    return float(value) if kind.startswith("float") and value is not None else value


def _value(text: str) -> Any:
    if text[0] in "\"'":
        return text[1:-1]
    if text in _NUMBERS:
        return _NUMBERS[text]
    try:
        return json.loads({"None": "null", "none": "null"}.get(text, text.lower()))
    except ValueError:
        return float(text) if text[0] in "-.0123456789" else {"sym": text}


def read_functions(text: str, *, methods: bool = False) -> Iterator[CppFunction]:
    """Read the functions of a header; methods have `self` as an extra argument.

    >>> next(read_functions("Tensor & add_out(Tensor & r, const Tensor & a, int b=1);"))
    CppFunction(name='add_out', arguments=frozenset({...}))
    """
    for line in text.splitlines():
        if found := _FUNCTION.match(line):
            name = found[1]
            given = [
                a.strip() for a in _split_arguments(found[2]) if a.strip() != "void"
            ]
            if name.endswith("_out"):
                given = [a for a in given if not a.startswith("Tensor &")]
            names = [a.partition("=")[0].split()[-1].lstrip("&*") for a in given]
            yield CppFunction(name, frozenset([*names, *(["self"] if methods else [])]))


def _split_arguments(text: str) -> Iterator[str]:
    """Split at commas outside of brackets."""
    depth, part = 0, ""
    for sign in text:
        closes = sign in ")]}" or (sign == ">" and not part.endswith("-"))
        depth += (sign in "<([{") - closes
        if sign == "," and not depth:
            yield part
            part = ""
        else:
            part += sign
    if part.strip():
        yield part


def is_operator(name: str, row: Mapping[str, Any], known: set[CppFunction]) -> bool:
    """True if C++ has a function for a schema, such as `aten.add.Tensor`."""
    base = name.split(".")[1]
    arguments = row.get("args", ())
    results = {arg["name"] for arg in arguments if arg.get("kw") and "alias" in arg}
    names = frozenset(arg["name"] for arg in arguments) - results
    forms = [names]
    if {"dtype", "layout"} <= names:  # one argument of C++
        rest = names - _OPTIONS
        forms += [rest | {"options"}, rest, rest | {"type"}, names - {"pin_memory"}]
    called = [f"{base}_out"] if results else [base, f"{base}_out", f"th_{base}"]
    found = any(CppFunction(each, form) in known for each in called for form in forms)
    return found and base not in _NOT_OPERATORS and _is_of_tensors(row)


def _is_of_tensors(row: Mapping[str, Any]) -> bool:
    """True if no argument is a TorchScript list, and with `self`, one is a tensor."""
    types = {arg["name"]: str(arg["type"]) for arg in row.get("args", ())}
    flows = any(re.search(r"\bt\b|Dict|Any", kind) for kind in types.values())
    tensors = any(kind.startswith("Tensor") for kind in types.values())
    return not flows and (tensors or "self" not in types)


def match_overload_names(
    rows: Mapping[str, Mapping[str, Any]], others: Iterable[Mapping[str, Any]]
) -> dict[str, Mapping[str, Any]]:
    """Name overloads that have no name, after those of other releases.

    `others` are tables of releases with overload names, the nearest first. Overloads
    that none of them has are numbered.
    """
    found = {name: row for name, row in rows.items() if ".default" not in name}
    left = {name: row for name, row in rows.items() if name not in found}
    for table in others:
        for shape in (_typed_names, _names):
            named: dict[Any, list[str]] = {}
            for name, row in table.items():
                named.setdefault((_base_name(name), shape(row)), []).append(name)
            for name, row in list(left.items()):
                given = named.get((_base_name(name), shape(row)), ())
                if free := [each for each in given if each not in found]:
                    found[free[0]] = left.pop(name)
    for name, row in left.items():
        numbered = (overload_name(f"aten::{_base_name(name)}", i) for i in count(1))
        found[next(each for each in numbered if each not in found)] = row
    return found


def _base_name(name: str) -> str:
    return name.split(".")[1]


def _typed_names(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple((arg["name"], arg["type"]) for arg in row.get("args", ()))


def _names(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(arg["name"] for arg in row.get("args", ()))
