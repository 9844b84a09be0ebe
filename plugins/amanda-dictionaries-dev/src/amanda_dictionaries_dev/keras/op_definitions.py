"""Op definitions of Keras layers and operations, from the rows of their classes.

Attributes are the arguments of the constructor. The sources do not list the arguments
of a layer's call, so inputs and outputs are `any`. The kind of an attribute is that of
the docstring if it is unambiguous and the default agrees, else `any`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from amanda.dictionary import Attr, OpDef, parse_signature

_LAYER = "layer"
_WRAPPERS = ("Wrapper", "TimeDistributed", "SpectralNormalization")
"""Layers that call another one, their argument `layer`: the body of the op."""
_SEVERAL = {
    "RMSNormalization": ("axis",), "Rescaling": ("scale", "offset"),
}  # fmt: skip
"""Arguments that may also be lists, though docstrings name a single value."""
_CALL = parse_signature("Layer(*inputs: any >= 0) -> (*outputs: any >= 0)")


def layer_definitions(
    rows: Mapping[str, Any], docs: Mapping[str, str]
) -> Iterator[OpDef]:
    """Definitions of all layers of a version."""
    for name, row in rows.items():
        arguments = find_constructor(row, rows)
        kinds = {
            key: kind
            for key, kind in _inherited_kinds(row, rows).items()
            if key not in _SEVERAL.get(name, ())
        }
        yield OpDef(
            name,
            _CALL.inputs,
            _CALL.outputs,
            tuple(
                Attr(arg[0], "graph")
                if arg[0] == _LAYER and name in _WRAPPERS
                else _attr(*arg, kind=kinds.get(arg[0], "any"))
                for arg in arguments
                if not arg[0].startswith("*")
            ),
            open=any(arg[0].startswith("*") for arg in arguments),
            doc=docs.get(name, ""),
        )


def find_constructor(
    row: Mapping[str, Any], rows: Mapping[str, Any]
) -> Sequence[Sequence[str]]:
    """The constructor arguments of a class, or of its nearest base that has any.

    Bases that are not exported are unknown, and accept anything.
    """
    while row["init"] is None:
        above = _rows_of_bases(row, rows)
        if "ops.Operation" in row["bases"]:
            return ()
        if not above:
            return (("**kwargs",),)
        row = above[0]
    found: Sequence[Sequence[str]] = row["init"]
    return found


def _rows_of_bases(
    row: Mapping[str, Any], rows: Mapping[str, Any]
) -> list[Mapping[str, Any]]:
    """The rows of the bases of a class, which sources may name with their module."""
    names = [b if b in rows else b.rpartition(".")[2] for b in row["bases"]]
    return [rows[name] for name in names if name in rows]


def _inherited_kinds(
    row: Mapping[str, Any], rows: Mapping[str, Any]
) -> Mapping[str, str]:
    """Kinds of arguments from the docstrings of a class and its bases."""
    found: dict[str, str] = {}
    for base in reversed(_rows_of_bases(row, rows)):
        if base is not row:
            found |= _inherited_kinds(base, rows)
    found |= row.get("kinds", {})
    return found


def _attr(name: str, *default_text: str, kind: str = "any") -> Attr:
    """
    >>> _attr("units", kind="int").required, _attr("use_bias", "True").kind
    (True, 'bool')
    >>> _attr("seed", "None", kind="int").kind, _attr("x", "'auto'", kind="bool").kind
    ('int?', 'any')
    """
    texts = [text for text in default_text if text != "*"]
    if not texts:
        return Attr(name, kind)
    default = _parse_default(texts[0])
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


def _parse_default(text: str) -> Any:
    """Parse a default; names of the Keras sources stay text."""
    try:
        return _tuples_to_lists(ast.literal_eval(text))
    except ValueError:
        return text


def _tuples_to_lists(value: Any) -> Any:
    return (
        [_tuples_to_lists(item) for item in value]
        if isinstance(value, tuple)
        else value
    )
