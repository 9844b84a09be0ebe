"""Documentation of inputs, attributes and outputs, from the docstrings of `raw_ops`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from amanda_dictionaries_dev import first_sentence

__all__ = ["docs_of_arguments"]

_REST = r"(?:[^.`]|`[^`]*`)*\.(?= |$)\s*"
_TYPE = re.compile(rf"An? [^.`]*`[^`]*`{_REST}")
_CONSTRAINT = re.compile(
    rf"(?:Must be one of the following types:|Must have the same type as|"
    rf"Has the same type as|Defaults to){_REST}"
)
_RANK = re.compile(r"\d-D[^.]{0,20}\.$")


def docs_of_arguments(docstring: str, row: Mapping[str, Any]) -> dict[str, str]:
    """The documentation of an op, by the keys of `OpDef.docs`.

    `row` has the names. Types, which the definition has as well, are left out.

    >>> text = '''Adds.
    ...
    ...   Args:
    ...     x: A `Tensor`. Must be one of the following types: `half`, `int32`.
    ...       1-D.  The first
    ...       summand.
    ...     fast: An optional `bool`. Defaults to `False`.
    ...
    ...   Returns:
    ...     A tuple of `Tensor` objects (y, z).
    ...
    ...     y: A `Tensor`. Has the same type as `x`. The sum.
    ...     z: A `Tensor`.
    ... '''
    >>> row = {"inputs": [{"name": "x"}], "outputs": [{"name": "y"}, {"name": "z"}]}
    >>> docs_of_arguments(text, row)
    {'in x': '1-D. The first summand.', 'out y': 'The sum.'}
    """
    arguments, _, results = docstring.partition("\n  Returns:\n")
    arguments = arguments.partition("\n  Args:\n")[2]
    given, returned = dict(_entries(arguments)), dict(_entries(results))
    names = {
        "in": [port["name"] for port in row.get("inputs", ())],
        "attr": [name for name, _ in row.get("attrs", ())],
        "out": [port["name"] for port in row.get("outputs", ())],
    }
    found = {
        f"{kind} {name}": _sentence(texts.get(name, ""))
        for kind, texts in (("in", given), ("attr", given), ("out", returned))
        for name in names[kind]
    }
    return {key: doc for key, doc in found.items() if doc}


def _entries(section: str) -> Iterator[tuple[str, str]]:
    """Each `name: text` of a section, whose further lines are indented more."""
    for entry in re.split(r"\n(?=    \w)", "\n" + section):
        found = re.match(r"\s*(\w+): (.*)", entry, re.DOTALL)
        if found:
            yield found[1], found[2].partition("\n\n")[0]


def _sentence(text: str) -> str:
    """The first sentence after those about the type."""
    text = _TYPE.sub("", " ".join(text.split()), count=1)
    text = _CONSTRAINT.sub("", text).strip()
    line = first_sentence(text)
    if _RANK.fullmatch(line) and len(line) < len(text):
        rest = first_sentence(text.replace("`", "")[len(line) :])
        line = f"{line} {rest}".strip()
    return line
