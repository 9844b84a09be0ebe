"""Reader of Deeplearning4j's published rule sets.

A declaration maps one op of a framework to one op of nd4j, by a list of rules. They are
only read and checked here; `meanings` has what rules mean.

    mappings {
      frameworkName: "tensorflow"  opName: "softmax"  inputFrameworkOpName: "Softmax"
      rule { ruleName: "ndarraymapping" inputToOutput { key: "input" value: "logits" } }
    }

`AMANDA_ND4J_RULES` has the paths of the user's files; each file names its framework.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from amanda.errors import FormatError, NamespaceError
from amanda_nd4j.textproto import Message, parse_text

__all__ = [
    "RULES",
    "Declaration",
    "RuleArgument",
    "PublishedRule",
    "read_declarations",
    "installed_declarations",
]

RULES: Final = "AMANDA_ND4J_RULES"
_Kind = TypeVar("_Kind", int, str)


class RuleArgument(NamedTuple):
    """An argument of a rule: a constant, a name to compare with, an index."""

    name: str
    kind: str
    place: int
    value: Any
    """By the field that holds one; 0, false or empty for none."""
    fields: Mapping[str, Any]

    @property
    def text(self) -> str:
        """The string that it has to have."""
        return self._expect(self.fields.get("stringValue"), str, "a string")

    @property
    def integer(self) -> int:
        """Its integer; 0 for none."""
        return self._expect(self.fields.get("int64Value", 0), int, "an integer")

    @property
    def position(self) -> int:
        """Its value, which has to be an integer."""
        return self._expect(self.value, int, "an integer")

    def _expect(self, value: Any, kind: type[_Kind], expected: str) -> _Kind:
        if not isinstance(value, kind):
            raise FormatError(
                f"argument {self.name!r} of a rule has no value of its kind",
                expected=expected,
                got=value,
            )
        return value


class PublishedRule(NamedTuple):
    """A rule of a declaration: `pairs` maps names of nd4j to names of the source, and
    `given` has the arguments for one of them, or for `value`."""

    name: str
    pairs: Mapping[str, str]
    given: Mapping[str, tuple[RuleArgument, ...]]

    def values(self, key: str) -> tuple[RuleArgument, ...]:
        return self.given.get(key, ())

    def first(self, key: str) -> RuleArgument:
        """The first argument for a key; FormatError if there is none."""
        found = self.values(key)
        if not found:
            raise FormatError(
                f"rule {self.name!r} has no arguments for {key!r}",
                got=", ".join(self.given) or "none",
            )
        return found[0]


class Declaration(NamedTuple):
    """The mapping of one op of a framework to one of nd4j."""

    framework: str
    source: str
    target: str
    rules: tuple[PublishedRule, ...]
    file: str

    @property
    def where(self) -> str:
        return f"{self.file}, {self.source}"


def read_declarations(file: Path) -> list[Declaration]:
    """Read the declarations of a file, in order."""
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
        _read_declaration(row, file)
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


def installed_declarations(framework: str) -> list[Declaration]:
    """The declarations for a framework in the files that `AMANDA_ND4J_RULES` names."""
    named = [part for part in os.environ.get(RULES, "").split(os.pathsep) if part]
    if not named:
        raise NamespaceError(
            "the rules of nd4j are read from files of yours, and none is named",
            hint=f"set {RULES} to the {framework}-mapping-ruleset.pbtxt of "
            "Deeplearning4j",
        )
    found = [each for name in named for each in read_declarations(Path(name))]
    fitting = [each for each in found if each.framework == framework]
    if not fitting:
        raise NamespaceError(
            f"no file that {RULES} names is for {framework}",
            expected=f"{framework}-mapping-ruleset.pbtxt of Deeplearning4j",
            got=", ".join(sorted({each.framework for each in found})),
        )
    return fitting


# -- messages --------------------------------------------------------------------------


def _read_declaration(row: Any, file: Path) -> Declaration:
    op = _read_text(row, "inputFrameworkOpName", file)
    rules = tuple(_read_rule(each, file, op) for each in row.get("rule", ()))
    framework, target = (
        _read_text(row, "frameworkName", file),
        _read_text(row, "opName", file),
    )
    return Declaration(framework, op, target, rules, file.name)


def _read_rule(row: Any, file: Path, op: str) -> PublishedRule:
    if not isinstance(row, dict):
        raise _format_error(file, op, "a message", row)
    pairs = {
        _read_text(pair, "key", file, op): _read_text(pair, "value", file, op)
        for pair in row.get("inputToOutput", ())
    }
    given: dict[str, tuple[RuleArgument, ...]] = {}
    for entry in row.get("transformerArgs", ()):  # keys repeat: the last one counts
        key = _read_text(entry, "key", file, op)
        given[key] = tuple(
            _read_argument(one, file, op) for one in _messages(entry, file, op)
        )
    return PublishedRule(_read_text(row, "ruleName", file, op), pairs, given)


def _messages(entry: Message, file: Path, op: str) -> Iterator[Message]:
    for one in entry.get("transformerArgs", ()):
        if not isinstance(one, dict):
            raise _format_error(file, op, "a message", one)
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
_EMPTY: Final = {"BOOL": False, "DOUBLE": 0.0, "FLOAT": 0.0, "STRING": ""}


def _read_argument(row: Message, file: Path, op: str) -> RuleArgument:
    kind = str(row.get("argType", ["FLOAT"])[-1])
    fields = {key: values[-1] for key, values in row.items()}
    held = [name for name in _FIELDS.values() if name in fields]
    if "argType" in fields:
        value = fields.get(_FIELDS.get(kind, ""), _EMPTY.get(kind, 0))
    else:  # many strings and numbers have no type
        value = fields[held[0]] if held else 0
    place = fields.get("argIndex", 0)
    if not isinstance(place, int):
        raise _format_error(file, op, "a number as argIndex", place)
    return RuleArgument(str(fields.get("name", "")), kind, place, value, fields)


def _read_text(
    row: Any, field: str, file: Path, op: str = "", default: str | None = None
) -> str:
    values = row.get(field, (default,)) if isinstance(row, dict) else ()
    if not values or not isinstance(values[-1], str):
        raise _format_error(file, op, f"a string as {field}", values[-1:] or row)
    return values[-1]


def _format_error(file: Path, op: str, expected: str, got: object) -> FormatError:
    return FormatError(
        "a declaration is not as it should be",
        who=file,
        where=op or None,
        expected=expected,
        got=got,
    )
