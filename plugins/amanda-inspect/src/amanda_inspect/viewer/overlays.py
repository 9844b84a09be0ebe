"""Overlays: a number or a class for ops, which the page shows as colors.

Files have the form

    {"overlay": 1, "name": "time", "unit": "ms", "aggregate": "sum",
     "ops": {"conv1": 0.8, "relu1": 0.1}}

or, with classes, `"ops": {"conv1": "gpu"}`. Keys are names of ops, or labels such as
`exp #3` of ops without a name. `notes` may have a text for an op.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Final

from amanda.errors import FormatError
from amanda.graph import Graph, Op

__all__ = ["OVERLAY_SCHEMA", "Overlay", "ops_by_key", "place_overlay", "read_overlay"]

OVERLAY_SCHEMA: Final = 1
AGGREGATES: Final = ("sum", "max")
EXPECTED: Final = (
    'an overlay {"overlay": 1, "name": ..., "ops": {...}} or what '
    "`amanda bisect --json` prints"
)


@dataclass
class Overlay:
    """Numbers, or names of classes, for ops by name."""

    name: str
    ops: dict[Any, float | str]
    """By the name or label of an op, or by the op itself."""
    unit: str = ""
    aggregate: str = "sum"
    """How a group combines the numbers in it: `sum` or `max`."""
    notes: dict[Any, str] = field(default_factory=dict)
    is_number: bool = True
    """Whether it has numbers, not classes."""


def read_overlay(path: str | PathLike[str]) -> Overlay:
    """Read an overlay, or the errors that `amanda bisect --json` found, from a file."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise FormatError(
            f"{path} cannot be read as an overlay", expected=EXPECTED, got=str(error)
        ) from error
    if isinstance(data, Mapping) and data.get("verb") == "bisect":
        return _overlay_of_errors(path, data)
    if not isinstance(data, Mapping) or data.get("overlay") != OVERLAY_SCHEMA:
        raise FormatError(
            f"{path} is no overlay", expected=EXPECTED, got=_describe(data)
        )
    return _checked_overlay(path, data)


def _checked_overlay(path: object, data: Mapping[str, Any]) -> Overlay:
    ops: Any = data.get("ops")
    notes = data.get("notes", {})
    aggregate = data.get("aggregate", "sum")
    faults = list(_overlay_faults(ops, notes, aggregate))
    if faults:
        raise FormatError(
            f"{path} is no valid overlay", expected=EXPECTED, problems=faults
        )
    texts = {key: str(data.get(key, "")) for key in ("name", "unit")}
    return Overlay(
        texts["name"] or Path(str(path)).stem,
        dict(ops),
        texts["unit"],
        aggregate,
        dict(notes),
        is_number=not any(isinstance(value, str) for value in ops.values()),
    )


def _overlay_faults(ops: Any, notes: Any, aggregate: Any) -> Iterator[str]:
    if not isinstance(ops, Mapping):
        yield f"ops is no object but {_describe(ops)}"
        return
    if not isinstance(notes, Mapping):
        yield f"notes is no object but {_describe(notes)}"
    if aggregate not in AGGREGATES:
        yield f"aggregate is {aggregate!r}, not {' or '.join(AGGREGATES)}"
    kinds = {isinstance(value, str) for value in ops.values()}
    if len(kinds) > 1:
        yield "ops has both numbers and classes"
    for key, value in ops.items():
        if not isinstance(value, str) and not _is_finite(value):
            yield f"the value of {key!r} is {value!r}, neither a finite number nor text"
            return


def _is_finite(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value)


def _describe(data: object) -> str:
    if isinstance(data, Mapping):
        return f"an object with {', '.join(map(str, list(data)[:5])) or 'no keys'}"
    return type(data).__name__


def _overlay_of_errors(path: object, data: Mapping[str, Any]) -> Overlay:
    """The errors that ops make, by the op and the ops it was converted from."""
    found = Overlay("error", {}, "", "max")
    try:
        for error in data["errors"]:
            size = error["made"]["max_abs"]
            text = f"max abs {size}, max rel {error['made']['max_rel']}"
            for name in (error["op"] or error["label"], *error["sources"]):
                found.ops[name] = max(size or 0.0, found.ops.get(name, 0.0))
                found.notes[name] = f"{error['label']}: {text}"
    except (KeyError, TypeError) as error:
        raise FormatError(
            f"{path} is no answer of `amanda bisect --json`", expected=EXPECTED,
            got=f"an error entry without {error}",
        ) from error  # fmt: skip
    return found


def place_overlay(
    overlay: Overlay, graph: Graph, places: Mapping[object, int]
) -> dict[str, Any]:
    """The data of an overlay for the page, by the numbers of nodes."""
    ops = ops_by_key(graph)
    values: dict[int, float | str] = {}
    notes: dict[int, str] = {}
    unplaced = 0
    for key, value in overlay.ops.items():
        found = [key] if isinstance(key, Op) else ops.get(key, [])
        numbers = [places[op] for op in found if op in places]
        unplaced += not numbers
        values.update(dict.fromkeys(numbers, value))
        if key in overlay.notes:
            notes.update(dict.fromkeys(numbers, str(overlay.notes[key])))
    classes = [] if overlay.is_number else [str(v) for v in overlay.ops.values()]
    return {
        "name": overlay.name,
        "kind": "number" if overlay.is_number else "class",
        "unit": overlay.unit,
        "aggregate": overlay.aggregate,
        "classes": list(dict.fromkeys(classes)),
        "values": values,
        "notes": notes,
        "unplaced": unplaced,
    }


def ops_by_key(graph: Graph) -> dict[str, list[Op]]:
    """Ops by name; those without one by the label `type #position`."""
    found: dict[str, list[Op]] = defaultdict(list)
    counts: dict[Graph | None, int] = defaultdict(int)
    for op in graph.walk():
        position = counts[op.graph]
        counts[op.graph] += 1
        found[op.name or f"{op.type} #{position}"].append(op)
    return found
