"""Which port of an entry each input or output of an op is, and what its type may be.

An op lists its values one after another; an entry may say `N * T` or `*xs: T`, so which
value belongs to which port depends on the attributes, or on what is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from amanda.dictionary.attributes import cast_value, describe_allowed, normalize_value
from amanda.dictionary.op_definition import Attr, OpDef, Port
from amanda.dictionary.type_patterns import (
    TypePattern,
    format_pattern,
    matches_pattern,
    pattern_of,
)
from amanda.types import Type

__all__ = ["PortBinding", "PortBindings", "bind_ports", "type_faults"]


class PortBinding(NamedTuple):
    """One value of an op: its port, which of the port's values, and of all values."""

    port: Port
    at: int
    order: int = 0

    @property
    def name(self) -> str:
        name = self.port.name or f"#{self.order}"
        return f"{name}[{self.at}]" if self.port.repeats and self.port.name else name

    @property
    def may_lack(self) -> bool:
        return self.port.form == "optional" or self.port.nullable


class PortBindings(NamedTuple):
    """The slots of an op's inputs or outputs; None where they cannot be told.

    `fault` says why that many values cannot be.
    """

    slots: tuple[PortBinding, ...] | None
    fault: str | None = None


def bind_ports(
    ports: Sequence[Port], total: int, entry: OpDef, attrs: Mapping[str, Any]
) -> PortBindings:
    """The slots of `total` values."""
    sizes = [_size(port, attrs) for port in ports]
    open_ends = [i for i, size in enumerate(sizes) if size is None]
    fixed = sum(size for size in sizes if size is not None)
    least = _least(ports, sizes, entry)
    if total < least:
        return PortBindings(
            None, _due(ports, least, None if open_ends else fixed, total)
        )
    if not open_ends:
        if total > fixed:
            return PortBindings(None, _due(ports, least, fixed, total))
    elif len(open_ends) == 1:
        sizes[open_ends[0]] = max(total - fixed, 0)
    else:
        return PortBindings(None)
    slots = [
        PortBinding(port, i)
        for port, size in zip(ports, sizes, strict=True)
        for i in range(size or 0)
    ]
    placed = [slot._replace(order=i) for i, slot in enumerate(slots[:total])]
    return PortBindings(tuple(placed))


def _size(port: Port, attrs: Mapping[str, Any]) -> int | None:
    """How many values a port stands for, where that is known."""
    if port.form == "count":
        number = attrs.get(port.number)
        return number if number.__class__ is int and number >= 0 else None
    if port.form == "list":
        types = attrs.get(port.type) if isinstance(port.type, str) else None
        return len(types) if isinstance(types, list | tuple) else None
    return None if port.repeats else 1


def _least(ports: Sequence[Port], sizes: Sequence[int | None], entry: OpDef) -> int:
    """How many values there are at least; optional ones at the end may be missing."""
    count = least = 0
    for port, size in zip(ports, sizes, strict=True):
        if size is None:
            attr = entry.attr(port.number or str(port.type))
            by_attr = (attr.minimum or 0) if attr is not None else 0
            size = port.least if port.form in ("many", "each") else by_attr
        count += size
        if size and port.form != "optional" and not port.nullable:
            least = count
    return least


def _due(ports: Sequence[Port], least: int, most: int | None, total: int) -> str:
    if most == least:
        number = str(most or "none")
    else:
        number = f"at least {least}" if most is None else f"{least} to {most}"
    names = ", ".join(port.name for port in ports if port.name)
    told = f"{number} ({names})" if names else number
    is_one = number in ("1", "at least 1")
    return f"{told} {'is' if is_one else 'are'} due, there {_are(total)}"


def _are(total: int) -> str:
    return "is 1" if total == 1 else f"are {total or 'none'}"


class _Bound(NamedTuple):
    pattern: Any
    by: str


def type_faults(
    entry: OpDef,
    attrs: Mapping[str, Any],
    values: Sequence[tuple[str, PortBinding, Type | None]],
) -> Iterator[str]:
    """What is wrong with the types of an op's values, as far as they are recorded.

    `values` are what messages call each value (`input`, `output`), its slot and type.
    Attributes that say types count as said.
    """
    bound = dict(_said(entry, attrs))
    for side, slot, type in values:
        found = pattern_of(type)
        if found is None:
            continue
        name, port = f"{side} {slot.name}", slot.port
        if not isinstance(port.type, str):
            if not matches_pattern(port.type, found):
                yield f"{name} is {_text(found)}, not {_text(port.type)}"
            continue
        attr = entry.attr(port.type)
        if attr is None:
            continue
        if attr.is_list:
            yield from _listed(attr, bound, slot, name, found)
        elif attr.allowed and found not in attr.allowed:
            yield f"{name} is {_text(found)}, but {attr.name} {describe_allowed(attr)}"
        elif port.form != "each":
            was = bound.setdefault(attr.name, _Bound(found, name))
            if was.pattern != found:
                told = f"{attr.name} is {_text(was.pattern)} by {was.by}"
                yield f"{name} is {_text(found)}, but {told}"


def _said(entry: OpDef, attrs: Mapping[str, Any]) -> Iterator[tuple[str, _Bound]]:
    """What attributes say of types."""
    for attr in (*entry.attrs, *entry.variables):
        if attr.element in ("dtype", "type") and attr.name in attrs:
            value = cast_value(attr, attrs[attr.name])
            said = (
                list(map(normalize_value, value))
                if attr.is_list
                else normalize_value(value)
            )
            yield attr.name, _Bound(said, "its attribute")


def _listed(
    attr: Attr,
    bound: Mapping[str, _Bound],
    slot: PortBinding,
    name: str,
    found: TypePattern,
) -> Iterator[str]:
    said = bound.get(attr.name)
    if said is not None:
        if slot.at < len(said.pattern) and said.pattern[slot.at] != found:
            told = f"{attr.name} says {_text(said.pattern[slot.at])}"
            yield f"{name} is {_text(found)}, but {told}"
    elif attr.allowed and found not in attr.allowed:
        yield f"{name} is {_text(found)}, but {attr.name} {describe_allowed(attr)}"


def _text(pattern: Any) -> str:
    try:
        return format_pattern(pattern)
    except (AssertionError, AttributeError, IndexError):
        return str(pattern)
