"""Variables of a model: inputs and outputs that are the values of one around a run.

ONNX has no variables. A model that keeps state has an input for each, with the value
before a run, and an output with the value after it, which is fed to the next run. The
initial value is the input's initializer. Which they are is in the `metadata_props` of
the model, as JSON:

    amanda.state: {"w": {"input": "w", "output": "w.next"}}
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from amanda.graph import STATE_NOTE, VALUE_NOTE, Graph, OutputPort, Parameter
from amanda.tensors import Tensor

__all__ = [
    "STATE_KEY",
    "ModelState",
    "initial_value",
    "is_state_note",
    "read_state",
    "state_text",
]

STATE_KEY: Final = "amanda.state"


class ModelState(NamedTuple):
    """The keys of variables, by the names of inputs and of outputs."""

    inputs: Mapping[str, str]
    outputs: Mapping[str, str]


_NONE: Final = ModelState({}, {})


def is_model(graph: Graph) -> bool:
    """Whether a graph is the main graph of a model: no body, function or nested one."""
    return graph.holder is None and graph.owner is None and graph.graph is None


def initial_value(port: Parameter) -> Tensor | None:
    """The value of an input of the model that is not fed; its initializer in ONNX."""
    value = port.attrs.get(VALUE_NOTE) if port.has_attrs else None
    return value if isinstance(value, Tensor) else None


def is_state_note(graph: Graph, place: str, key: str) -> bool:
    """Whether an attribute of a port is written as an initializer, or in the metadata
    of the model."""
    if not is_model(graph):
        return False
    side = place.partition(" ")[0]
    if key == VALUE_NOTE:
        return side == "in"
    return key == STATE_NOTE and side in ("in", "out")


def state_text(
    inputs: Sequence[tuple[OutputPort, str]], outputs: Sequence[tuple[OutputPort, str]]
) -> str | None:
    """The metadata of the variables of a graph; None if there are none."""
    found: dict[str, dict[str, str]] = {}
    for side, ports in (("input", inputs), ("output", outputs)):
        for port, word in ports:
            key = port.attrs.get(STATE_NOTE) if port.has_attrs else None
            if isinstance(key, str):
                found.setdefault(key, {})[side] = word
    return json.dumps(found) if found else None


def read_state(
    text: object, inputs: Collection[str], outputs: Collection[str]
) -> ModelState:
    """The variables that the metadata of a model names; none where it is not valid."""
    if not isinstance(text, str):
        return _NONE
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError):
        return _NONE
    found: dict[str, tuple[dict[str, str], Collection[str]]]
    found = {"input": ({}, inputs), "output": ({}, outputs)}
    for key, row in rows.items() if isinstance(rows, dict) else [("", None)]:
        if not isinstance(row, dict) or "input" not in row:
            return _NONE
        for side, name in row.items():
            names, known = found.get(side, ({}, ()))
            if not isinstance(name, str) or name not in known or name in names:
                return _NONE
            names[name] = key
    return ModelState(found["input"][0], found["output"][0])
