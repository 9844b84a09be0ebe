"""Compare two dictionaries: ops added, removed and changed."""

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
    """An op whose definition differs between two dictionaries."""

    old: OpDef
    new: OpDef

    @property
    def name(self) -> str:
        return self.new.name

    @property
    def lines(self) -> list[str]:
        """The differences, one line each; none if only the version differs.

        >>> from amanda.dictionary import parse_signature
        >>> old = parse_signature("F(x: T, *, a: int = 0) -> (y: T)  T in {f32}")
        >>> new = parse_signature("F(x: T, *, b: int = 0) -> (y: T)  T in {f32, f64}")
        >>> OpChange(old, new).lines
        ['attribute a is removed', 'attribute b: int = 0 is new', 'T also allows f64']
        """
        return [
            *_port_changes("input", self.old.inputs, self.new.inputs),
            *_attr_changes(self.old.attrs, self.new.attrs),
            *_port_changes("output", self.old.outputs, self.new.outputs),
            *_variable_changes(self.old.variables, self.new.variables),
            *_other_changes(self.old, self.new),
        ]


@dataclass(frozen=True)
class Difference:
    """The difference of two dictionaries. False if there is none."""

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
    """Compare the ops of `old` and `new`, or `only` one op.

    If both are versions of one dictionary, an op with a new version counts as changed
    even if its signature is equal: its semantics may have changed.
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
        tuple(
            OpChange(*pair) for name in both if (pair := _changed_pair(old, new, name))
        ),
    )


def _changed_pair(
    old: Dictionary, new: Dictionary, name: str
) -> tuple[OpDef, OpDef] | None:
    one, other = old[name], new[name]
    if old.history is new.history:
        return None if one is other else (one, other)
    return None if one == other else (one, other)


def _port_changes(
    what: str, old: tuple[Port, ...], new: tuple[Port, ...]
) -> Iterator[str]:
    before = {_port_key(port, i): format_port(port) for i, port in enumerate(old)}
    after = {_port_key(port, i): format_port(port) for i, port in enumerate(new)}
    yield from _text_changes(what, before, after)
    common = [name for name in before if name in after]
    if common != [name for name in after if name in before]:
        yield f"the {what}s are in another order"


def _port_key(port: Port, index: int) -> str:
    """The name of a port, or its position if it has none."""
    return port.name or f"#{index}"


def _attr_changes(old: tuple[Attr, ...], new: tuple[Attr, ...]) -> Iterator[str]:
    before = {attr.name: _format_positional(attr) for attr in old}
    after = {attr.name: _format_positional(attr) for attr in new}
    yield from _text_changes("attribute", before, after)


def _format_positional(attr: Attr) -> str:
    position = "" if attr.position is None else f", argument {attr.position + 1}"
    return format_attr(attr) + position


def _text_changes(
    what: str, before: dict[str, str], after: dict[str, str]
) -> Iterator[str]:
    yield from (f"{what} {name} is removed" for name in before if name not in after)
    for name, text in after.items():
        if name not in before:
            yield f"{what} {text} is new"
        elif before[name] != text:
            yield f"{what} {before[name]} is now {text}"


def _variable_changes(old: tuple[Attr, ...], new: tuple[Attr, ...]) -> Iterator[str]:
    before = {attr.name: attr for attr in old}
    for attr in new:
        was = before.get(attr.name)
        if was is None:
            yield f"variable {format_attr(attr)} is new"
        elif was != attr:
            yield from _allowed_changes(was, attr)
    names = {attr.name for attr in new}
    yield from (f"variable {name} is removed" for name in before if name not in names)


def _allowed_changes(was: Attr, now: Attr) -> Iterator[str]:
    from amanda.dictionary.literals import format_literal

    if was._replace(allowed=now.allowed) != now or not (was.allowed and now.allowed):
        yield f"variable {format_attr(was)} is now {format_attr(now)}"
        return
    more = [value for value in now.allowed if value not in was.allowed]
    less = [value for value in was.allowed if value not in now.allowed]
    for values, text in ((more, "also allows {}"), (less, "no longer allows {}")):
        if values:
            names = ", ".join(format_literal(now.element, value) for value in values)
            yield f"{now.name} {text.format(names)}"


def _other_changes(old: OpDef, new: OpDef) -> Iterator[str]:
    for trait in sorted(new.traits - old.traits):
        yield f"is {trait}"
    for trait in sorted(old.traits - new.traits):
        yield f"is no longer {trait}"
    for tag in sorted(new.tags - old.tags):
        yield f"is tagged {tag}"
    for tag in sorted(old.tags - new.tags):
        yield f"is no longer tagged {tag}"
    if old.open != new.open:
        yield f"allows {'other' if new.open else 'no other'} attributes"
    if old.deprecated != new.deprecated:
        yield "is deprecated" if new.deprecated else "is no longer deprecated"
