"""Kinds of arguments, as the docstrings of Keras' layers say them.

    Args:
        units: Positive integer, dimensionality of the output space.
        use_bias: Boolean, whether the layer uses a bias vector.

Only plain words count: what may also be a tuple, a function or an object of Keras has
no kind, and neither has what is told in other words.
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
# Numbers that stand for one of each axis, or a range: Keras makes them a tuple, and
# takes one, whether the docstring says so or not.
_SEVERAL = {"cropping", "dilation_rate", "factor", "kernel_size", "output_padding",
            "padding", "pool_size", "size", "strides"}  # fmt: skip
# What shows that something else is taken too.
_ALSO = re.compile(
    r"\b(?:or|and) (?:an? )?(?:\w+ ){0,2}(?:tuple|list|integer|int|float|string|str|"
    r"dict|function|callable|instance|object|tensor|array|layer|`?tf\.|`?keras\.|"
    r"`none`|none)|tuple|list\b|callable|/tuple|instance of|`?\w*policy`? ",
    re.IGNORECASE,
)


def kinds(doc: str) -> dict[str, str]:
    """The kinds that a docstring says, by argument.

    >>> kinds("Dense.\\n\\nArgs:\\n    units: Positive integer, how many.\\n"
    ...       "    size: Integer or tuple of integers.\\n")
    {'units': 'int'}
    """
    found: dict[str, str] = {}
    for names, text in arguments(doc):
        kind = kind_of(text)
        if kind is not None:
            several = _SEVERAL if kind in ("int", "number") else set()
            found |= {name: kind for name in names if name not in several}
    return found


def kind_of(text: str) -> str | None:
    """The kind that a description begins with, if it is the only one.

    >>> kind_of("Optional Python integer to use as random seed.")
    'int'
    >>> kind_of("Boolean, or a tensor") is kind_of("Axis to use") is None
    True
    """
    text = " ".join(text.split())
    sentence = re.split(r"(?<=[a-z`\)])\.(?: |$)", text, maxsplit=1)[0]
    if _ALSO.search(sentence):
        return None
    return next((kind for kind, told in _KINDS.items() if told.match(sentence)), None)


def arguments(doc: str) -> Iterator[tuple[list[str], str]]:
    """The names in the list of arguments, and what is said of them."""
    lines = iter(doc.splitlines())
    for line in lines:
        if _HEAD.match(line.strip()):
            break
    indent = -1
    names: list[str] = []
    told: list[str] = []
    for line in lines:
        here = len(line) - len(line.lstrip())
        if not line.strip():
            continue
        found = _ARGUMENT.match(line)
        if here == 0 or (indent >= 0 and here < indent):
            break
        if found and (indent < 0 or here == indent):
            if names:
                yield names, " ".join(told)
            indent = here
            names, told = re.split(r"\s*,\s*", found[2]), [found[3]]
        elif names:
            told.append(line.strip())
    if names:
        yield names, " ".join(told)
