"""The messages of mapping.proto as dataclasses."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from amanda.formatkit import RecordCodec

__all__ = [
    "CODEC",
    "MappingRule",
    "RuleFile",
    "RuleFunction",
    "RulePart",
    "RuleTable",
    "RuleValue",
    "read",
    "write",
]


@dataclass(slots=True)
class RuleValue:
    boolean: bool | None = None
    integer: int | None = None
    real: float | None = None
    text: str | None = None
    digits: str | None = None
    list: int | None = None
    dtype: str | None = None


@dataclass(slots=True)
class RulePart:
    form: str = ""
    name: str = ""
    parts: int = 0
    key: str = ""
    waits: bool = False
    low: int | None = None
    high: int | None = None
    output: int = 0
    optional: bool = False
    value: list[RuleValue] = field(default_factory=list)


@dataclass(slots=True)
class MappingRule:
    arrow: str = ""
    parts: list[RulePart] = field(default_factory=list)
    loss: str | None = None
    tags: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    file: str = ""
    line: int = 0


@dataclass(slots=True)
class RuleFunction:
    type: str = ""
    low: int | None = None
    high: int | None = None
    writes: bool = False
    name: str = ""


@dataclass(slots=True)
class RuleTable:
    name: str = ""
    doc: str = ""
    left: list[RuleValue] = field(default_factory=list)
    right: list[RuleValue] = field(default_factory=list)


@dataclass(slots=True)
class RuleFile:
    magic: str = ""
    major: int = 0
    minor: int = 0
    source: str = ""
    target: str = ""
    tables: list[RuleTable] = field(default_factory=list)
    functions: list[RuleFunction] = field(default_factory=list)
    rules: list[MappingRule] = field(default_factory=list)
    source_hints: list[str] = field(default_factory=list)
    target_hints: list[str] = field(default_factory=list)


CODEC: Final = RecordCodec(
    Path(__file__).with_name("mapping.proto"),
    [MappingRule, RuleFile, RuleFunction, RulePart, RuleTable, RuleValue],
)

read = CODEC.read
write = CODEC.write
