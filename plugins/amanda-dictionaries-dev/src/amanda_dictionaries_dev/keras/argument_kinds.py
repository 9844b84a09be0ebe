"""Parse kinds of arguments from the docstrings of Keras layers.

    Args:
        units: Positive integer, dimensionality of the output space.
        use_bias: Boolean, whether the layer uses a bias vector.

Only unambiguous descriptions count: an argument that may also be a tuple, a function or
a Keras object has no kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_HEAD = re.compile(r"(?:#\s*)?(?:Args|Arguments)\s*:?\s*$")
_ARGUMENT = re.compile(r"(\s*)[`*]*([a-z_]\w*(?:\s*,\s*[a-z_]\w*)*)[`*]*\s*:\s*(.*)")
_START = r"^(?:optional,? )?(?:an? )?(?:single |python |optional )*"
_INT = (
    r"(?:(?:strictly )?positive |non-?negative )?(?:integer|int)(?: (?:>=?|<=?) \S+)?"
)
_KINDS = {
    "bool": re.compile(_START + r"(?:`?bool(?:ean)?`?\b|whether\b)", re.IGNORECASE),
    "int": re.compile(_START + _INT + r"(?=[.,:;]|$| (?:value|seed|axis|index|to use "
                      r"as|that|between|from|in|giving|the)\b)", re.IGNORECASE),
    "number": re.compile(_START + r"(?:(?:small |positive |non-?negative )*float"
                         r"(?:ing point)?)(?=[.,:;]|$| (?:value|number|that|between|"
                         r"from|in|(?:>=?|<=?|in the range|added|to)\b))",
                         re.IGNORECASE),
    "string": re.compile(_START + r"`?(?:string|str)`?(?=[.,:;]|$| (?:value|one of|"
                         r"that|specifying|name|the|either)\b)", re.IGNORECASE),
}  # fmt: skip
# A number for all axes, or a range: Keras accepts a tuple too, even if the docstring
# does not state it.
_TUPLE_ARGUMENTS = {
    "cropping", "dilation_rate", "factor", "kernel_size", "output_padding", "padding",
    "pool_size", "size", "strides",
}  # fmt: skip
# Text that shows that other types are accepted too.
_OTHER_TYPES = re.compile(
    r"\b(?:or|and) (?:an? )?(?:\w+ ){0,2}(?:tuple|list|integer|int|float|string|str|"
    r"dict|function|callable|instance|object|tensor|array|layer|`?tf\.|`?keras\.|"
    r"`none`|none)|tuple|list\b|callable|/tuple|instance of|`?\w*policy`? ",
    re.IGNORECASE,
)


def parse_kinds(doc: str) -> dict[str, str]:
    """Parse the kinds of arguments from a docstring.

    >>> parse_kinds("Dense.\\n\\nArgs:\\n    units: Positive integer, how many.\\n"
    ...       "    size: Integer or tuple of integers.\\n")
    {'units': 'int'}
    """
    found: dict[str, str] = {}
    for names, text in parse_arguments(doc):
        kind = parse_kind(text)
        if kind is not None:
            several = _TUPLE_ARGUMENTS if kind in ("int", "number") else set()
            found |= {name: kind for name in names if name not in several}
    return found


def parse_kind(text: str) -> str | None:
    """Parse the kind at the beginning of a description; None if it is ambiguous.

    >>> parse_kind("Optional Python integer to use as random seed.")
    'int'
    >>> parse_kind("Boolean, or a tensor") is parse_kind("Axis to use") is None
    True
    """
    text = " ".join(text.split())
    sentence = re.split(r"(?<=[a-z`\)])\.(?: |$)", text, maxsplit=1)[0]
    if _OTHER_TYPES.search(sentence):
        return None
    return next(
        (kind for kind, pattern in _KINDS.items() if pattern.match(sentence)), None
    )


def parse_arguments(doc: str) -> Iterator[tuple[list[str], str]]:
    """Names and descriptions in the list of arguments."""
    lines = iter(doc.splitlines())
    for line in lines:
        if _HEAD.match(line.strip()):
            break
    indent = -1
    names: list[str] = []
    text: list[str] = []
    for line in lines:
        here = len(line) - len(line.lstrip())
        if not line.strip():
            continue
        found = _ARGUMENT.match(line)
        if here == 0 or (indent >= 0 and here < indent):
            break
        if found and (indent < 0 or here == indent):
            if names:
                yield names, " ".join(text)
            indent = here
            names, text = re.split(r"\s*,\s*", found[2]), [found[3]]
        elif names:
            text.append(line.strip())
    if names:
        yield names, " ".join(text)
