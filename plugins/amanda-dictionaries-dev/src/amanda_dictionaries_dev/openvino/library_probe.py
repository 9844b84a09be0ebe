"""Asks the OpenVINO library what attributes its ops have. Run as a program.

    python -m ...openvino.library_probe opset16 Assign ReadValue    # all but these two

Writes a line of JSON for each op of the opset: first `["begin", op]`, then
`["found", op, attributes]` or `["declined", op, why]`. Two ops end the process when
they are made without a variable, so whoever reads goes on behind the one begun last.

Ops and words come in through standard input, `{"TopK": ["min", "max", ...], ...}`:
those words that the library takes are the values of an attribute. What a list holds is
found in the same way, with a list of an int, of a float and of a text.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

_NO_WORD = "no_word_of_any_enumeration"
_LISTS: tuple[tuple[str, Any], ...] = (("int", 1), ("float", 1.5), ("string", "a"))


def _taken(factory: Any, op: str, name: str, value: Any) -> tuple[Any, str]:
    """What an attribute is after it was set, or None and why it cannot be that."""
    node = factory.create(op)
    try:
        node.set_attribute(name, value)
    except RuntimeError as error:
        return None, str(error)
    return node.get_attributes()[name], ""


def _text(factory: Any, op: str, name: str, words: Iterable[str]) -> dict[str, Any]:
    """The kind of an attribute that is a text: free, an element type or one of some."""
    _, why = _taken(factory, op, name, _NO_WORD)
    if not why:
        return {"kind": "string"}
    if "element::Type_t" in why:
        return {"kind": "dtype"}
    taken = [_taken(factory, op, name, word)[0] for word in words]
    return {"kind": "string", "allowed": list(dict.fromkeys(filter(None, taken)))}


def _list(factory: Any, op: str, name: str) -> dict[str, Any]:
    # an int is taken for a float too, but then it comes back as one
    for kind, item in _LISTS:
        found, _ = _taken(factory, op, name, [item])
        if found and found[0].__class__ is item.__class__:
            return {"kind": f"{kind}[]"}
    return {"kind": "shape"}


def attribute(
    factory: Any, op: str, name: str, default: Any, words: Iterable[str]
) -> dict[str, Any]:
    """One attribute: kind, default, allowed values."""
    if isinstance(default, bool | int | float):
        found: dict[str, Any] = {"kind": default.__class__.__name__}
    elif isinstance(default, str):
        found = _text(factory, op, name, words)
    else:
        found = _list(factory, op, name)
    return {**found, "default": default}


def _say(*row: Any) -> None:
    sys.stdout.write(f"{json.dumps(row)}\n")
    sys.stdout.flush()  # before an op that may end the process


def main(opset: str, *passed: str) -> None:
    # to ask what ops there are is no use of the library that it should report
    sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]
    from openvino.utils.node_factory import NodeFactory

    factory = NodeFactory(opset)
    for op, words in json.load(sys.stdin).items():
        if op in passed:
            continue
        _say("begin", op)
        try:
            node = factory.create(op)
        except RuntimeError as error:
            _say("declined", op, str(error))
            continue
        found = {
            name: attribute(factory, op, name, default, words)
            for name, default in node.get_attributes().items()
        }
        _say("found", op, found)


if __name__ == "__main__":
    main(*sys.argv[1:])
