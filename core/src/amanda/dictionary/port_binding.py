"""Bind the inputs or outputs of an op to the ports of its definition, and check types.

An op lists its values one after another; a definition may have `N * T` or `*xs: T`. So
the port of a value depends on attributes, or on how many values there are.
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
    """One value of an op: its port, the offset within it, and the position overall."""

    port: Port
    offset: int
    position: int = 0

    @property
    def name(self) -> str:
        name = self.port.name or f"#{self.position}"
        return (
            f"{name}[{self.offset}]" if self.port.repeats and self.port.name else name
        )

    @property
    def is_optional(self) -> bool:
        return self.port.form == "optional" or self.port.nullable


class PortBindings(NamedTuple):
    """The bindings of an op's inputs or outputs; None where they are ambiguous.

    `fault` says why the number of values is wrong.
    """

    bindings: tuple[PortBinding, ...] | None
    fault: str | None = None


def bind_ports(
    ports: Sequence[Port], total: int, op_def: OpDef, attrs: Mapping[str, Any]
) -> PortBindings:
    """Bind `total` values to ports."""
    sizes = [_port_size(port, attrs) for port in ports]
    variadic = [i for i, size in enumerate(sizes) if size is None]
    fixed = sum(size for size in sizes if size is not None)
    least = _min_values(ports, sizes, op_def)
    if total < least:
        most = None if variadic else fixed
        return PortBindings(None, _count_fault(ports, least, most, total))
    if not variadic:
        if total > fixed:
            return PortBindings(None, _count_fault(ports, least, fixed, total))
    elif len(variadic) == 1:
        sizes[variadic[0]] = max(total - fixed, 0)
    else:
        return PortBindings(None)
    bindings = [
        PortBinding(port, i)
        for port, size in zip(ports, sizes, strict=True)
        for i in range(size or 0)
    ]
    placed = [each._replace(position=i) for i, each in enumerate(bindings[:total])]
    return PortBindings(tuple(placed))


def _port_size(port: Port, attrs: Mapping[str, Any]) -> int | None:
    """The number of values of a port, if it is known."""
    if port.form == "count":
        number = attrs.get(port.number)
        return number if number.__class__ is int and number >= 0 else None
    if port.form == "list":
        types = attrs.get(port.type) if isinstance(port.type, str) else None
        return len(types) if isinstance(types, list | tuple) else None
    return None if port.repeats else 1


def _min_values(
    ports: Sequence[Port], sizes: Sequence[int | None], op_def: OpDef
) -> int:
    """The minimum number of values; optional ones at the end may be omitted."""
    count = least = 0
    for port, size in zip(ports, sizes, strict=True):
        if size is None:
            attr = op_def.attr(port.number or str(port.type))
            by_attr = (attr.minimum or 0) if attr is not None else 0
            size = port.least if port.form in ("many", "each") else by_attr
        count += size
        if size and port.form != "optional" and not port.nullable:
            least = count
    return least


def _count_fault(
    ports: Sequence[Port], least: int, most: int | None, total: int
) -> str:
    if most == least:
        number = str(most)
    else:
        number = f"at least {least}" if most is None else f"{least} to {most}"
    names = ", ".join(port.name for port in ports if port.name)
    return f"expected {number}{f' ({names})' if names else ''}, got {total}"


class _BoundVariable(NamedTuple):
    pattern: Any
    source: str


def type_faults(
    op_def: OpDef,
    attrs: Mapping[str, Any],
    values: Sequence[tuple[str, PortBinding, Type | None]],
) -> Iterator[str]:
    """Find type errors among an op's values, as far as their types are known.

    `values` are the side of each value for messages (`input`, `output`), its binding
    and its type. Attributes that state types take part.
    """
    bound = dict(_variables_of_attrs(op_def, attrs))
    for side, binding, type in values:
        found = pattern_of(type)
        if found is None:
            continue
        name, port = f"{side} {binding.name}", binding.port
        if not isinstance(port.type, str):
            if not matches_pattern(port.type, found):
                yield f"{name} is {_text(found)}, not {_text(port.type)}"
            continue
        attr = op_def.attr(port.type)
        if attr is None:
            continue
        if attr.is_list:
            yield from _list_item_faults(attr, bound, binding, name, found)
        elif attr.allowed and found not in attr.allowed:
            yield _not_allowed(name, found, attr)
        elif port.form != "each":
            was = bound.setdefault(attr.name, _BoundVariable(found, name))
            if was.pattern != found:
                because = f"{attr.name} is {_text(was.pattern)} by {was.source}"
                yield f"{name} is {_text(found)}, but {because}"


def _not_allowed(name: str, found: TypePattern, attr: Attr) -> str:
    return f"{name} is {_text(found)}, but {attr.name} {describe_allowed(attr)}"


def _variables_of_attrs(
    op_def: OpDef, attrs: Mapping[str, Any]
) -> Iterator[tuple[str, _BoundVariable]]:
    """Type variables that attributes state."""
    for attr in (*op_def.attrs, *op_def.variables):
        if attr.element in ("dtype", "type") and attr.name in attrs:
            pattern = cast_value(attr, attrs[attr.name])
            if attr.is_list != isinstance(pattern, list | tuple):
                continue  # a fault of the attribute, which is reported
            if attr.is_list:
                pattern = list(map(normalize_value, pattern))
            else:
                pattern = normalize_value(pattern)
            yield attr.name, _BoundVariable(pattern, "its attribute")


def _list_item_faults(
    attr: Attr,
    bound: Mapping[str, _BoundVariable],
    binding: PortBinding,
    name: str,
    found: TypePattern,
) -> Iterator[str]:
    stated = bound.get(attr.name)
    if stated is not None:
        offset = binding.offset
        if offset < len(stated.pattern) and stated.pattern[offset] != found:
            expected = f"{attr.name} has {_text(stated.pattern[offset])} there"
            yield f"{name} is {_text(found)}, but {expected}"
    elif attr.allowed and found not in attr.allowed:
        yield _not_allowed(name, found, attr)


def _text(pattern: Any) -> str:
    try:
        return format_pattern(pattern)
    except (AssertionError, AttributeError, IndexError):
        return str(pattern)
