"""Validity of an op by the dictionary of its domain, before any rule is tried.

Rules and mapping functions read an op only if its inputs, outputs and attributes have
the number and the kinds that its definition states.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any, Final

from amanda import namespace
from amanda.dictionary import Attr, OpDef, attribute_fault, bind_ports
from amanda.errors import NamespaceError
from amanda.graph import Op
from amanda_onnx.mapping.attribute_checks import attribute_fault_of

__all__ = ["bounds_fault", "find_definition", "op_fault"]

_NONE: Final[Mapping[str, Any]] = {}


def op_fault(op: Op, space: str) -> str | None:
    """What is invalid about an op of the namespace `space`; None if it is valid, or
    unknown there."""
    type = op.type or ""
    inputs = tuple([value is not None for value in op.inputs])
    if not op.has_attrs:
        return _ports_fault(type, space, inputs, len(op.outputs))
    op_def, known = find_definition(type, space)
    if op_def is None:
        return None
    return (
        attribute_fault_of(op, known)
        or _ports_fault(type, space, inputs, len(op.outputs))
        or _place_fault(op_def, op.attrs)
    )


def bounds_fault(op: Op) -> str | None:
    """Which attribute of an op is out of its bounds; runtimes die of some that are."""
    _, known = find_definition(op.type or "", op.namespace or "")
    for key, value in op.attrs.items() if op.has_attrs else ():
        attr = known.get(key)
        fault = attribute_fault(attr, value) if attr and attr.bounds else None
        if fault is not None:
            return fault
    return None


@cache
def find_definition(type: str, space: str) -> tuple[OpDef | None, Mapping[str, Attr]]:
    """The definition of an op, and its attributes in all versions: files mix them."""
    try:
        own: Any = namespace(space, assume=True)
    except NamespaceError:
        return None, _NONE
    history = own.history
    found: dict[str, Attr] = {}
    for each in (*map(history.at, history.versions()), own):
        entry = each.get(type)
        found |= {attr.name: attr for attr in entry.attrs} if entry else {}
    return own.get(type), found


@lru_cache(4096)
def _ports_fault(
    type: str, space: str, inputs: tuple[bool, ...], outputs: int
) -> str | None:
    """What is invalid about the number of ports; `inputs` are those that are present.
    None for an unknown op.

    No attribute of ONNX is the number of ports, so ops of one type differ in these."""
    op_def, _ = find_definition(type, space)
    if op_def is None:
        return None
    bound = bind_ports(op_def.inputs, len(inputs), op_def, _NONE)
    if bound.fault:
        return f"inputs: {bound.fault}"
    for binding, is_present in zip(bound.bindings or (), inputs, strict=False):
        if not is_present and not binding.is_optional:
            return f"input {binding.name} is missing"
    bound = bind_ports(op_def.outputs, outputs, op_def, _NONE)
    return f"outputs: {bound.fault}" if bound.fault else None


def _place_fault(op_def: OpDef, attrs: Mapping[str, Any]) -> str | None:
    """An attribute that is an input in this version."""
    inputs = {port.name for port in op_def.inputs}
    found = next((key for key in attrs if key in inputs), None)
    if found is None:
        return None
    return f"{found} is an input in this version, not an attribute"
