"""Attributes that ONNX has no field for: of graphs, ports and edges, and free notes.

They are written as JSON, under one key of the `metadata_props` of the node or the graph
that holds them, and read back from there:

    {"": {"x-origin": "layer 3"}, "edge 0": {"delay": 2}, "output 0": {"unit": "m"}}

Those of an initializer are in the entry of its graph, as `initializer NAME`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from amanda.errors import FormatError
from amanda.graph import UNCHECKED_DIM_NAMES, Graph, Op, is_note
from amanda_onnx.format.model_metadata import string_pairs
from amanda_onnx.format.state_metadata import is_state_note

__all__ = [
    "_KEY",
    "metadata_of_graph",
    "metadata_of_node",
    "restore_attributes",
]

_KEY: Final = "amanda.attributes"
_READ: Final = UNCHECKED_DIM_NAMES  # the reader sets it
_INITIALIZER: Final = "initializer "
_Places: TypeAlias = dict[str, Any]
_Pairs: TypeAlias = list[tuple[str, str]]
_SIDES: Final = ("in", "out", "edge", "result")


def metadata_of_node(op: Op, recorded: object) -> _Pairs:
    """The properties of a node: those of the file, and the attributes of its places."""
    return _with_attributes(recorded, _places_of(op), op.label)


def metadata_of_graph(
    graph: Graph, initializers: Iterable[tuple[Op, str]], recorded: object
) -> _Pairs:
    """The properties of a graph, with the attributes of its initializers."""
    places = _places_of(graph)
    for op, word in initializers:
        found = _places_of(op)
        if found:
            places[_INITIALIZER + word] = found
    return _with_attributes(recorded, places, graph.label)


def _with_attributes(recorded: object, places: _Places, who: str) -> _Pairs:
    pairs = string_pairs(recorded)
    if not places:
        return pairs
    try:
        return [*pairs, (_KEY, json.dumps(places))]
    except (TypeError, ValueError, RecursionError) as error:
        raise FormatError(
            "attributes of ports, edges and graphs, and free notes, are written to "
            "ONNX as JSON",
            who=who,
            expected="text, numbers, truth values, lists and maps of these",
            got=str(error),
        ) from error


def _places_of(op: Op) -> _Places:
    """The attributes of an op and its ports, by place, without records of formats."""
    is_function = isinstance(op, Graph) and op.owner is not None
    keeps_all = op.is_graph and not is_function
    own = op.attrs if op.has_attrs else {}
    places = {"": {k: v for k, v in own.items() if keeps_all or is_note(k)}}
    extras = None if op.side_record is None else op.side_record.extras
    for key, attrs in (extras or {}).items():
        if isinstance(key, tuple):
            places[f"{key[0]} {key[1]}"] = attrs
    kept = {
        place: {key: attrs[key] for key in attrs if ":" not in key and key != _READ}
        for place, attrs in places.items()
    }
    if isinstance(op, Graph):
        kept = {
            place: {k: attrs[k] for k in attrs if not is_state_note(op, place, k)}
            for place, attrs in kept.items()
        }
    return {place: attrs for place, attrs in kept.items() if attrs}


# -- reading -------------------------------------------------------------------


def restore_attributes(op: Op, recorded: object) -> object:
    """Set the attributes that the properties of a node or a graph have.

    Returns the other properties. An entry that was not written by this module stays.
    """
    if not isinstance(recorded, Mapping) or _KEY not in recorded:
        return recorded
    try:
        places = json.loads(recorded[_KEY])
    except (ValueError, RecursionError):
        return recorded
    found = list(_attributes_by_place(op, places))
    if not found or any(target is None for target, _ in found):
        return recorded
    for target, attrs in found:
        assert target is not None
        target.update(attrs)
    return {key: text for key, text in recorded.items() if key != _KEY}


def _attributes_by_place(op: Op, places: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Where attributes belong, and what they are; None for what is not valid."""
    for place, attrs in places.items() if isinstance(places, dict) else ():
        if place.startswith(_INITIALIZER) and isinstance(op, Graph):
            weight = _initializer(op, place.removeprefix(_INITIALIZER))
            yield from ([(None, {})] if weight is None else
                        _attributes_by_place(weight, attrs))  # fmt: skip
        elif not isinstance(attrs, dict) or any(":" in key for key in attrs):
            yield None, {}
        elif place == "":
            is_valid = op.is_graph or all(map(is_note, attrs))
            yield (op.attrs if is_valid else None), attrs
        else:
            yield _attributes_at(op, place), attrs


def _attributes_at(op: Op, place: str) -> dict[str, Any] | None:
    """The attributes of a port or an edge; None for a place that the op lacks."""
    side, _, digits = place.partition(" ")
    if side not in _SIDES or not digits.isdecimal() or len(digits) > 9:
        return None
    i, is_graph = int(digits), isinstance(op, Graph)
    count = len(op.outputs) if side in ("out", "result") else len(op.inputs)
    if isinstance(op, Graph) and side == "in":
        count = len(op.parameters)
    if i >= count or (side == "result" and not is_graph):
        return None
    if side == "out":
        return op.outputs[i].attrs
    if isinstance(op, Graph):
        port = op.result_ports[i] if side == "result" else None
        return op.parameters[i].attrs if port is None else port.edge_attrs
    held = op.input_ports[i]
    return held.attrs if side == "in" else held.edge_attrs


def _initializer(graph: Graph, word: str) -> Op | None:
    for op in graph:
        if op.outputs and op.outputs[0].name == word:
            return op
    return None
