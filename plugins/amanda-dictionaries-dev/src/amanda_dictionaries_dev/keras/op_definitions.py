"""Layers of Keras as entries, of the rows of their classes.

An entry says what the constructor takes. What a layer is called with is in no list, so
its inputs and outputs are any. What an argument may be is said in docstrings alone: it
is an int, a number, a string or a bool where they plainly say so and the default is
one, or none; else it is any.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from amanda.dictionary import Attr, OpDef, parse_signature

_CALLED = parse_signature("Layer(*inputs: any >= 0) -> (*outputs: any >= 0)")


def entries(rows: Mapping[str, Any], docs: Mapping[str, str]) -> Iterator[OpDef]:
    """Every layer of a version."""
    for name, row in rows.items():
        arguments = constructor(row, rows)
        told = _kinds(row, rows)
        yield OpDef(
            name,
            _CALLED.inputs,
            _CALLED.outputs,
            tuple(
                _attr(*arg, kind=told.get(arg[0], "any"))
                for arg in arguments
                if not arg[0].startswith("*")
            ),
            open=any(arg[0].startswith("*") for arg in arguments),
            doc=docs.get(name, ""),
        )


def constructor(
    row: Mapping[str, Any], rows: Mapping[str, Any]
) -> Sequence[Sequence[str]]:
    """The arguments of a class, or of the nearest one above that has any.

    A class that is no layer itself is in no list; it may take anything.
    """
    while row["init"] is None:
        bases = [base.rpartition(".")[2] for base in row["bases"]]
        above = [rows[base] for base in bases if base in rows]
        if not above:
            return (("**kwargs",),)
        row = above[0]
    found: Sequence[Sequence[str]] = row["init"]
    return found


def _kinds(row: Mapping[str, Any], rows: Mapping[str, Any]) -> Mapping[str, str]:
    """What the docstring of a class says of arguments, and those of classes above."""
    above = [base.rpartition(".")[2] for base in row["bases"]]
    found: dict[str, str] = {}
    for base in reversed(above):
        if base in rows and rows[base] is not row:
            found |= _kinds(rows[base], rows)
    found |= row.get("kinds", {})
    return found


def _attr(name: str, *told: str, kind: str = "any") -> Attr:
    """
    >>> _attr("units", kind="int").required, _attr("use_bias", "True").kind
    (True, 'bool')
    >>> _attr("seed", "None", kind="int").kind, _attr("x", "'auto'", kind="bool").kind
    ('int?', 'any')
    """
    texts = [text for text in told if text != "*"]
    if not texts:
        return Attr(name, kind)
    default = _value(texts[0])
    if default is None:
        return Attr(name, "any" if kind == "any" else f"{kind}?", required=False)
    if isinstance(default, bool):
        kind = "bool"
    elif not isinstance(default, _TYPES.get(kind, (object,))):
        kind = "any"
    return Attr(name, kind, required=False, default=default)


_TYPES: Mapping[str, tuple[type, ...]] = {
    "bool": (bool,),
    "int": (int,),
    "number": (int, float),
    "string": (str,),
}


def _value(text: str) -> Any:
    """A default as JSON can have it; a name in the sources of Keras stands as text."""
    try:
        return _listed(ast.literal_eval(text))
    except ValueError:
        return text


def _listed(value: Any) -> Any:
    return [_listed(item) for item in value] if isinstance(value, tuple) else value
