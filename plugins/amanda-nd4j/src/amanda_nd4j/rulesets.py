"""Deeplearning4j's published rule sets, as they stand in their files.

A declaration says how one op of a framework becomes one op of nd4j, by a list of rules.
Here they are only read and checked; what a rule means is in `meanings`.

    mappings {
      frameworkName: "tensorflow"  opName: "softmax"  inputFrameworkOpName: "Softmax"
      rule { ruleName: "ndarraymapping" inputToOutput { key: "input" value: "logits" } }
    }

The files stay where the user has them, and `AMANDA_ND4J_RULES` names them; which
framework a file is about, it says itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from amanda.errors import FormatError, NamespaceError
from amanda_nd4j.textproto import Message, parse_text

__all__ = [
    "RULES",
    "Declaration",
    "Given",
    "PublishedRule",
    "declarations",
    "installed",
]

RULES: Final = "AMANDA_ND4J_RULES"


class Given(NamedTuple):
    """A value that a rule is given: a constant, a name to compare with, a place."""

    name: str
    kind: str
    place: int
    value: Any
    """By the field that holds one; 0, false or empty where none does."""
    fields: Mapping[str, Any]


class PublishedRule(NamedTuple):
    """A rule of a declaration: `pairs` lead from names of nd4j to those of the source;
    `given` has the values for one of them, or for `value`."""

    name: str
    pairs: Mapping[str, str]
    given: Mapping[str, tuple[Given, ...]]

    def values(self, key: str) -> tuple[Given, ...]:
        return self.given.get(key, ())


class Declaration(NamedTuple):
    """How an op of a framework becomes one of nd4j."""

    framework: str
    source: str
    target: str
    rules: tuple[PublishedRule, ...]
    file: str

    @property
    def where(self) -> str:
        return f"{self.file}, {self.source}"


def declarations(file: Path) -> list[Declaration]:
    """What a file declares, in its order."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise NamespaceError(
            "the rule sets of nd4j cannot be read",
            who=file,
            got=error,
            hint=f"{RULES} names files such as tensorflow-mapping-ruleset.pbtxt",
        ) from error
    found = [
        _declaration(row, file)
        for row in parse_text(text, str(file)).get("mappings", ())
    ]
    if not found:
        raise FormatError(
            "this file has no rule sets",
            who=file,
            expected="mappings { frameworkName: ... opName: ... rule { ... } }",
        )
    seen: set[str] = set()
    for each in found:
        if each.source in seen:
            raise FormatError("an op is declared twice", who=file, got=each.source)
        seen.add(each.source)
    return found


def installed(framework: str) -> list[Declaration]:
    """The declarations for a framework in the files that `AMANDA_ND4J_RULES` names."""
    named = [part for part in os.environ.get(RULES, "").split(os.pathsep) if part]
    if not named:
        raise NamespaceError(
            "the rules of nd4j are read from files of yours, and none is named",
            hint=f"set {RULES} to the {framework}-mapping-ruleset.pbtxt of "
            "Deeplearning4j",
        )
    found = [each for name in named for each in declarations(Path(name))]
    fitting = [each for each in found if each.framework == framework]
    if not fitting:
        raise NamespaceError(
            f"no file that {RULES} names is about {framework}",
            expected=f"{framework}-mapping-ruleset.pbtxt of Deeplearning4j",
            got=", ".join(sorted({each.framework for each in found})),
        )
    return fitting


# -- messages --------------------------------------------------------------------------


def _declaration(row: Any, file: Path) -> Declaration:
    op = _text(row, "inputFrameworkOpName", file)
    rules = tuple(_rule(each, file, op) for each in row.get("rule", ()))
    framework, target = _text(row, "frameworkName", file), _text(row, "opName", file)
    return Declaration(framework, op, target, rules, file.name)


def _rule(row: Any, file: Path, op: str) -> PublishedRule:
    if not isinstance(row, dict):
        raise _fault(file, op, "a message", row)
    pairs = {
        _text(pair, "key", file, op): _text(pair, "value", file, op)
        for pair in row.get("inputToOutput", ())
    }
    given: dict[str, tuple[Given, ...]] = {}
    for entry in row.get("transformerArgs", ()):  # keys repeat: the last one counts
        key = _text(entry, "key", file, op)
        given[key] = tuple(_given(one, file, op) for one in _rows(entry, file, op))
    return PublishedRule(_text(row, "ruleName", file, op), pairs, given)


def _rows(entry: Message, file: Path, op: str) -> Iterator[Message]:
    for one in entry.get("transformerArgs", ()):
        if not isinstance(one, dict):
            raise _fault(file, op, "a message", one)
        yield one


_FIELDS: Final = {
    "BOOL": "boolValue",
    "DATA_TYPE": "dataTypeValue",
    "DOUBLE": "doubleValue",
    "FLOAT": "floatValue",
    "INT32": "int32Value",
    "INT64": "int64Value",
    "STRING": "stringValue",
}
_NOTHING: Final = {"BOOL": False, "DOUBLE": 0.0, "FLOAT": 0.0, "STRING": ""}


def _given(row: Message, file: Path, op: str) -> Given:
    kind = str(row.get("argType", ["FLOAT"])[-1])
    fields = {key: values[-1] for key, values in row.items()}
    held = [name for name in _FIELDS.values() if name in fields]
    if "argType" in fields:
        value = fields.get(_FIELDS.get(kind, ""), _NOTHING.get(kind, 0))
    else:  # many texts and numbers are given without a type
        value = fields[held[0]] if held else 0
    place = fields.get("argIndex", 0)
    if not isinstance(place, int):
        raise _fault(file, op, "a number as argIndex", place)
    return Given(str(fields.get("name", "")), kind, place, value, fields)


def _text(
    row: Any, field: str, file: Path, op: str = "", default: str | None = None
) -> str:
    values = row.get(field, (default,)) if isinstance(row, dict) else ()
    if not values or not isinstance(values[-1], str):
        raise _fault(file, op, f"a text as {field}", values[-1:] or row)
    return values[-1]


def _fault(file: Path, op: str, expected: str, got: object) -> FormatError:
    return FormatError(
        "a declaration is not as it should be",
        who=file,
        where=op or None,
        expected=expected,
        got=got,
    )
