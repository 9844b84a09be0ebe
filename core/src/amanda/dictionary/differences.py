"""How two dictionaries differ: ops that came, ops that went, ops that changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from amanda.dictionary.op_definition import Attr, OpDef, Port
from amanda.dictionary.signature import format_attr, format_port

if TYPE_CHECKING:
    from amanda.dictionary.history import Dictionary

__all__ = ["Difference", "OpChange", "compare_dictionaries"]


@dataclass(frozen=True)
class OpChange:
    """An op that both have, and not alike."""

    old: OpDef
    new: OpDef

    @property
    def name(self) -> str:
        return self.new.name

    @property
    def lines(self) -> list[str]:
        """What is another, a line each; none where only the version is.

        >>> from amanda.dictionary import parse_signature
        >>> old = parse_signature("F(x: T, *, a: int = 0) -> (y: T)  T in {f32}")
        >>> new = parse_signature("F(x: T, *, b: int = 0) -> (y: T)  T in {f32, f64}")
        >>> OpChange(old, new).lines
        ['attribute a is gone', 'attribute b: int = 0 is new', 'T takes f64 too']
        """
        return [
            *_ports("input", self.old.inputs, self.new.inputs),
            *_attrs(self.old.attrs, self.new.attrs),
            *_ports("output", self.old.outputs, self.new.outputs),
            *_variables(self.old.variables, self.new.variables),
            *_others(self.old, self.new),
        ]


@dataclass(frozen=True)
class Difference:
    """What makes one dictionary from another. False where there is nothing."""

    old: str
    new: str
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[OpChange, ...]

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)

    def __str__(self) -> str:
        counts = (len(self.added), len(self.removed), len(self.changed))
        return (
            f"{self.old} -> {self.new}: "
            f"{counts[0]} added, {counts[1]} removed, {counts[2]} changed"
        )


def compare_dictionaries(
    old: Dictionary, new: Dictionary, only: str | None = None
) -> Difference:
    """What is in `new` and not in `old`, and the other way round.

    Where both are versions of one vocabulary, a definition that `new` has of a later
    version counts as changed, though it be written the same: what it means may have
    changed.
    """
    if only is None:
        before, after = set(old), set(new)
    else:
        before, after = ({only} if only in one else set() for one in (old, new))
    both = sorted(before & after)
    return Difference(
        old.name,
        new.name,
        tuple(sorted(after - before)),
        tuple(sorted(before - after)),
        tuple(OpChange(*pair) for name in both if (pair := _pair(old, new, name))),
    )


def _pair(old: Dictionary, new: Dictionary, name: str) -> tuple[OpDef, OpDef] | None:
    one, other = old[name], new[name]
    if old.history is new.history:
        return None if one is other else (one, other)
    return None if one == other else (one, other)


def _ports(what: str, old: tuple[Port, ...], new: tuple[Port, ...]) -> Iterator[str]:
    before = {_called(port, i): format_port(port) for i, port in enumerate(old)}
    after = {_called(port, i): format_port(port) for i, port in enumerate(new)}
    yield from _compared(what, before, after)
    kept = [name for name in before if name in after]
    if kept != [name for name in after if name in before]:
        yield f"the {what}s are in another order"


def _called(port: Port, index: int) -> str:
    """The name of a port; one without is known by its place."""
    return port.name or f"#{index}"


def _attrs(old: tuple[Attr, ...], new: tuple[Attr, ...]) -> Iterator[str]:
    before = {attr.name: _placed(attr) for attr in old}
    after = {attr.name: _placed(attr) for attr in new}
    yield from _compared("attribute", before, after)


def _placed(attr: Attr) -> str:
    place = "" if attr.place is None else f", argument {attr.place + 1}"
    return format_attr(attr) + place


def _compared(
    what: str, before: dict[str, str], after: dict[str, str]
) -> Iterator[str]:
    yield from (f"{what} {name} is gone" for name in before if name not in after)
    for name, text in after.items():
        if name not in before:
            yield f"{what} {text} is new"
        elif before[name] != text:
            yield f"{what} {before[name]} is now {text}"


def _variables(old: tuple[Attr, ...], new: tuple[Attr, ...]) -> Iterator[str]:
    before = {attr.name: attr for attr in old}
    for attr in new:
        was = before.get(attr.name)
        if was is None:
            yield f"variable {format_attr(attr)} is new"
        elif was != attr:
            yield from _variable(was, attr)
    names = {attr.name for attr in new}
    yield from (f"variable {name} is gone" for name in before if name not in names)


def _variable(was: Attr, now: Attr) -> Iterator[str]:
    from amanda.dictionary.literals import format_literal

    if was._replace(allowed=now.allowed) != now or not (was.allowed and now.allowed):
        yield f"variable {format_attr(was)} is now {format_attr(now)}"
        return
    more = [value for value in now.allowed if value not in was.allowed]
    less = [value for value in was.allowed if value not in now.allowed]
    for values, told in ((more, "takes {} too"), (less, "no longer takes {}")):
        if values:
            listed = ", ".join(format_literal(now.element, value) for value in values)
            yield f"{now.name} {told.format(listed)}"


def _others(old: OpDef, new: OpDef) -> Iterator[str]:
    for trait in sorted(new.traits - old.traits):
        yield f"is {trait}"
    for trait in sorted(old.traits - new.traits):
        yield f"is no longer {trait}"
    for tag in sorted(new.tags - old.tags):
        yield f"is tagged {tag}"
    for tag in sorted(old.tags - new.tags):
        yield f"is no longer tagged {tag}"
    if old.open != new.open:
        yield f"takes {'other' if new.open else 'no other'} attributes"
    if old.deprecated != new.deprecated:
        yield "is deprecated" if new.deprecated else "is no longer deprecated"
