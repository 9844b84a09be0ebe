"""Ops whose results have other element types after a conversion, at any depth."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from amanda.types import TensorType

if TYPE_CHECKING:
    from amanda.backend import PrecisionChange
    from amanda.graph import Graph, Op

__all__ = ["changed_ops"]

_FAMILIES: Final = {"float": "real", "complex": "real", "int": "int", "uint": "int"}
"""Kinds of element types that take the place of each other."""
_SHOWN: Final = 5
"""Ops of a body that are named."""


def changed_ops(
    before: Graph, after: Graph, typed: Graph | None = None
) -> Iterator[PrecisionChange]:
    """Ops of which nothing that was made from them has the element type, by place.

    The place is the body or function that an op is in. `typed` has types that `before`
    lacks: those of ops with the names of its ops.
    """
    from amanda.backend import PrecisionChange
    from amanda.dictionary import location_of

    made = _types_by_source(after)
    known = {} if typed is None else _types_by_name(typed)
    found: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for op in before.walk():
        key = op.name or op.short
        if op.is_constant or not made.get(key):
            continue
        for dtype, family in (_own_types(op) or known.get(key, {})).items():
            others = [name for name, kind in made[key].items() if kind == family]
            if others and dtype not in others:
                text = ", ".join(sorted(others))
                found[location_of(op), dtype, text].append(op.label)
    for (place, dtype, text), labels in found.items():
        yield PrecisionChange(dtype, text, _ops_text(labels, place))


def _types_by_source(graph: Graph) -> dict[str, dict[str, str]]:
    """The element types of what was made from each op, with their families."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for op in graph.walk():
        if not op.is_constant and op.provenance is not None:
            for source in op.provenance.sources:
                found[source] |= _own_types(op)
    return found


def _types_by_name(graph: Graph) -> dict[str, dict[str, str]]:
    return {op.name: _own_types(op) for op in graph.walk() if op.name is not None}


def _own_types(op: Op) -> dict[str, str]:
    """The element types of an op's results that are numbers, with their families."""
    kinds = (port.type for port in op.outputs)
    dtypes = {kind.dtype for kind in kinds if isinstance(kind, TensorType)}
    return {str(d): _FAMILIES[d.kind] for d in dtypes if d.kind in _FAMILIES}


def _ops_text(labels: list[str], place: str) -> str:
    shown = ", ".join(labels[:_SHOWN])
    more = f" and {len(labels) - _SHOWN} more" if len(labels) > _SHOWN else ""
    return f"{shown}{more}{f', {place}' if place else ''}"
