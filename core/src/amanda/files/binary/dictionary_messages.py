"""The messages of graph.proto for entries of dictionaries, as dataclasses."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = [
    "CLASSES",
    "AttrDefinition",
    "Definition",
    "DeprecationDefinition",
    "Literal",
    "PortDefinition",
]


@dataclass(slots=True)
class Literal:
    boolean: bool | None = None
    integer: int | None = None
    real: float | None = None
    text: str | None = None
    number: int | None = None
    written: str | None = None
    list: int | None = None


@dataclass(slots=True)
class DeprecationDefinition:
    version: int = 0
    why: str = ""
    use: str = ""


@dataclass(slots=True)
class AttrDefinition:
    name: str = ""
    kind: str = ""
    required: bool = False
    default: list[Literal] = field(default_factory=list)
    allowed: list[Literal] = field(default_factory=list)
    minimum: int | None = None
    takes: str = ""
    gives: str = ""
    place: int | None = None
    doc: str = ""
    bounds: list[int] = field(default_factory=list)


@dataclass(slots=True)
class PortDefinition:
    name: str = ""
    type: str = ""
    form: str = ""
    least: int = 0
    number: str = ""
    ref: bool = False
    nullable: bool = False
    alias: str = ""
    axes: list[str] = field(default_factory=list)
    keyword: bool = False
    doc: str = ""


@dataclass(slots=True)
class Definition:
    name: str = ""
    inputs: list[PortDefinition] = field(default_factory=list)
    outputs: list[PortDefinition] = field(default_factory=list)
    attrs: list[AttrDefinition] = field(default_factory=list)
    variables: list[AttrDefinition] = field(default_factory=list)
    traits: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    open: bool = False
    deprecated: DeprecationDefinition | None = None
    since: str = ""
    until: str = ""
    doc: str = ""


CLASSES = (AttrDefinition, Definition, DeprecationDefinition, Literal, PortDefinition)
