"""Inputs or outputs of two models that correspond: by name, order or type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from amanda.errors import UsageError
from amanda.types import TensorType, Type, accepts

__all__ = ["match_ports"]

Key: TypeAlias = str | int


def match_ports(
    wanted: Mapping[Key, Type | None], others: Mapping[Key, Type | None], what: str
) -> dict[Key, Key]:
    """The port of another model for each port of one, by key.

    Ports correspond by name if all names are there; else in order, if the types in that
    order allow it; else by type, if no two ports have one type. `what` names them in
    errors, as in "outputs". The other model may have more ports where names correspond.

    >>> from amanda.types import parse_type
    >>> image, length = parse_type("float32[n, 3]"), parse_type("int64[]")
    >>> wanted = {"image": image, "length": length}
    >>> match_ports(wanted, {"x": image, "n": length}, "inputs")
    {'image': 'x', 'length': 'n'}
    >>> match_ports(wanted, {"n": length, "x": image}, "inputs")
    {'image': 'x', 'length': 'n'}
    """
    if all(isinstance(key, str) and key in others for key in wanted):
        return {key: key for key in wanted}
    if len(wanted) == len(others):
        in_order = dict(zip(wanted, others, strict=True))
        if all(_allows(wanted[a], others[b]) for a, b in in_order.items()):
            return in_order
        by_type = {a: _of_type(type, others) for a, type in wanted.items()}
        found = {a: keys[0] for a, keys in by_type.items() if len(keys) == 1}
        if len(set(found.values())) == len(wanted):
            return found
    raise UsageError(
        f"the {what} of the models do not correspond by name, order or type",
        expected=_ports_text(wanted),
        got=_ports_text(others),
        hint=f"rename the {what} of one of them",
    )


def _allows(wanted: Type | None, got: Type | None) -> bool:
    """Whether a value may be of both types."""
    if isinstance(wanted, TensorType) and isinstance(got, TensorType):
        return accepts(wanted, got) is not False or accepts(got, wanted) is not False
    return wanted is None or got is None or type(wanted) is type(got)


def _of_type(type: Type | None, others: Mapping[Key, Type | None]) -> list[Key]:
    return [key for key, other in others.items() if _allows(type, other)]


def _ports_text(ports: Mapping[Key, Type | None]) -> str:
    return ", ".join(f"{key}: {type}" for key, type in ports.items()) or "none"
