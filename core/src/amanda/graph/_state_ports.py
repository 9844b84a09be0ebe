"""Inputs and results of a graph that are the values of variables around a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from amanda.graph._attributes import STATE_NOTE, VALUE_NOTE

if TYPE_CHECKING:
    from amanda.graph._graph import Graph

__all__ = ["StatePort", "state_ports", "without_state_notes"]


class StatePort(NamedTuple):
    """A variable as an input, with its value before a call, and a result, with that
    after it."""

    key: str
    input: int
    """The index of the input."""
    result: int | None
    """The index of the result; None for a variable that no call writes."""
    input_name: str | None
    result_name: str | None
    initial: Any
    """The value before the first call, as a Tensor; None if there is none."""

    def __str__(self) -> str:
        text = f"variable {self.key!r}: input {_label(self.input, self.input_name)}"
        if self.result is None:
            return text
        return f"{text}, result {_label(self.result, self.result_name)}"


def _label(index: int, name: str | None) -> str:
    return str(index) if name is None else repr(name)


def state_ports(graph: Graph) -> tuple[StatePort, ...]:
    """The variables of a graph that are inputs and results, by the note `x-state`."""
    results = {
        port.attrs.get(STATE_NOTE): port for port in graph.outputs if port.has_attrs
    }
    found = []
    for port in graph.parameters:
        key = port.attrs.get(STATE_NOTE) if port.has_attrs else None
        if key is not None:
            after = results.get(key)
            row = (None, None) if after is None else (after.index, after.name)
            initial = port.attrs.get(VALUE_NOTE)
            found.append(StatePort(key, port.index, row[0], port.name, row[1], initial))
    return tuple(found)


def without_state_notes(graph: Graph) -> Graph:
    """A copy whose inputs and results are plain ones, without initial values."""
    copy = graph.clone()
    for port in (*copy.parameters, *copy.outputs):
        if port.has_attrs and port.attrs.pop(STATE_NOTE, None) is not None:
            port.attrs.pop(VALUE_NOTE, None)
    return copy
