"""Attributes of ports and edges, and free notes of ops, when ops are replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from amanda.graph._op import Op
    from amanda.graph._port import InputPort, OutputPort

__all__ = [
    "NOTE_PREFIX",
    "STATE_NOTE",
    "TRAINABLE_NOTE",
    "VALUE_NOTE",
    "HeldAttributes",
    "copy_input_attributes",
    "free_notes",
    "held_attributes",
    "is_note",
    "is_record",
]

NOTE_PREFIX: Final = "x-"
VALUE_NOTE: Final = "x-value"
"""The tensor that an op holds which is not constant: a variable, a parameter."""
TRAINABLE_NOTE: Final = "x-trainable"
"""Whether training changes a constant by default; where absent, its use decides."""
STATE_NOTE: Final = "x-state"
"""The key of the variable whose value an input or a result of a graph has.

The value of the result is that of the input in the next call."""


def is_note(key: str) -> bool:
    """Whether an attribute is a free note, which has no meaning for any framework.

    >>> is_note("x-origin"), is_note("axis")
    (True, False)
    """
    return key.startswith(NOTE_PREFIX)


def is_record(key: str) -> bool:
    """Whether an attribute is a record of a format, named `format:record`.

    >>> is_record("onnx:model"), is_record("axis")
    (True, False)
    """
    return ":" in key


def free_notes(op: Op) -> dict[str, Any]:
    """The free notes of an op: its attributes named `x-...`."""
    held = op._attrs
    if not held:
        return {}
    return {key: held[key] for key in held if key.startswith(NOTE_PREFIX)}


class HeldAttributes(NamedTuple):
    """Attributes of one place of an op: of the op itself, a port or an edge."""

    where: str
    attrs: dict[str, Any]


_PLACES: Final = {
    "in": "input {}",
    "out": "output {}",
    "edge": "the edge to input {}",
    "result": "the edge to result {}",
}


def held_attributes(op: Op) -> Iterator[HeldAttributes]:
    """The attributes that an op holds and that are no attributes of its definition.

    These are its free notes, for a graph all its attributes, and the attributes of its
    ports and of the edges that end at it.
    """
    side = op.side_record
    if side is None or not side.extras:
        if op.is_graph:
            return iter([HeldAttributes("", op._attrs)] if op._attrs else ())
        for key in op._attrs or ():
            if key.startswith(NOTE_PREFIX):
                return iter([HeldAttributes("", free_notes(op))])
        return iter(())  # most ops
    return _find_held(op, side.extras)


def _find_held(op: Op, extras: dict[Any, dict[str, Any]]) -> Iterator[HeldAttributes]:
    attrs = (op._attrs or {}) if op.is_graph else free_notes(op)
    if attrs:
        yield HeldAttributes("", attrs)
    for key, held in extras.items():
        if held and isinstance(key, tuple):
            yield HeldAttributes(_PLACES[key[0]].format(key[1]), held)
        elif held:
            yield HeldAttributes(f"the control edge from {key.short!r}", held)


def copy_input_attributes(
    ops: Sequence[Op],
    made: Sequence[Op],
    value_of: Callable[[OutputPort], OutputPort | None],
) -> None:
    """Copy attributes of inputs, and of the edges to them, to the ops made for `ops`.

    They go to the inputs that read the same value: to each in order where there are as
    many, else to all. `value_of` returns what a value was replaced by.
    """
    readers: dict[OutputPort, list[InputPort]] = {}
    for port in (port for op in made for port in op.input_ports):
        if port.source is not None:
            readers.setdefault(port.source, []).append(port)
    places: dict[OutputPort, list[InputPort]] = {}
    for port in (port for op in ops for port in op.input_ports):
        value = None if port.source is None else value_of(port.source)
        if value is not None:
            places.setdefault(value, []).append(port)
    for value, ports in places.items():
        found = readers.get(value, [])
        for i, port in enumerate(ports):
            for new in found[i : i + 1] if len(found) == len(ports) else found:
                _copy_place(port, new)


def _copy_place(old: InputPort, new: InputPort) -> None:
    if old.has_attrs:
        new.attrs.update({**old.attrs, **new.attrs})
    if old.has_edge_attrs:
        new.edge_attrs.update({**old.edge_attrs, **new.edge_attrs})
