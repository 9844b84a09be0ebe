"""Query the attributes of ops from the OpenVINO library. Run as a program.

    python -m ...openvino.library_probe opset16 Assign ReadValue    # skips these two

Writes a line of JSON for each op of the opset: first `["begin", op]`, then
`["found", op, attributes]` or `["declined", op, why]`. Two ops end the process when
they are created without a variable, so the caller restarts it after the last one begun.

Standard input has ops and candidate values, `{"TopK": ["min", "max", ...], ...}`: those
that the library accepts are the allowed values of an attribute. The kind of a list is
found in the same way, with a list of an int, a float and a string.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

_INVALID = "no_word_of_any_enumeration"
_LISTS: tuple[tuple[str, Any], ...] = (("int", 1), ("float", 1.5), ("string", "a"))


def _try_value(factory: Any, op: str, name: str, value: Any) -> tuple[Any, str]:
    """The value of an attribute after setting it, or None and the error."""
    node = factory.create(op)
    try:
        node.set_attribute(name, value)
    except RuntimeError as error:
        return None, str(error)
    return node.get_attributes()[name], ""


def _string_attribute(
    factory: Any, op: str, name: str, words: Iterable[str]
) -> dict[str, Any]:
    """The kind of a string attribute: string, element type or enumeration."""
    _, why = _try_value(factory, op, name, _INVALID)
    if not why:
        return {"kind": "string"}
    if "element::Type_t" in why:
        return {"kind": "dtype"}
    accepted = [_try_value(factory, op, name, word)[0] for word in words]
    return {"kind": "string", "allowed": list(dict.fromkeys(filter(None, accepted)))}


def _list_attribute(factory: Any, op: str, name: str) -> dict[str, Any]:
    # an int is accepted for a float too, but is returned as a float
    for kind, item in _LISTS:
        found, _ = _try_value(factory, op, name, [item])
        if found and found[0].__class__ is item.__class__:
            return {"kind": f"{kind}[]"}
    return {"kind": "shape"}


def describe_attribute(
    factory: Any, op: str, name: str, default: Any, words: Iterable[str]
) -> dict[str, Any]:
    """Kind, default and allowed values of an attribute."""
    if isinstance(default, bool | int | float):
        found: dict[str, Any] = {"kind": default.__class__.__name__}
    elif isinstance(default, str):
        found = _string_attribute(factory, op, name, words)
    else:
        found = _list_attribute(factory, op, name)
    return {**found, "default": default}


def _write_row(*row: Any) -> None:
    sys.stdout.write(f"{json.dumps(row)}\n")
    sys.stdout.flush()  # before an op that may end the process


def main(opset: str, *passed: str) -> None:
    # no telemetry for this use of the library
    sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]
    from openvino.utils.node_factory import NodeFactory

    factory = NodeFactory(opset)
    for op, words in json.load(sys.stdin).items():
        if op in passed:
            continue
        _write_row("begin", op)
        try:
            node = factory.create(op)
        except RuntimeError as error:
            _write_row("declined", op, str(error))
            continue
        found = {
            name: describe_attribute(factory, op, name, default, words)
            for name, default in node.get_attributes().items()
        }
        _write_row("found", op, found)


if __name__ == "__main__":
    main(*sys.argv[1:])
