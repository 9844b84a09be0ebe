"""Names, numbers and lines of C source."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from amanda.graph import Op

__all__ = ["element_literals", "identifier", "integer_literal", "wrap_lines"]

_WIDTH: Final = 88


def identifier(kind: str, name: str | None, index: int) -> str:
    """An argument in C, which no keyword and no other argument is."""
    plain = re.sub(r"\W", "_", name or "", flags=re.ASCII)[:40]
    return f"{kind}{index}_{plain}" if plain else f"{kind}{index}"


def integer_literal(number: int) -> str:
    """An int64 literal; the lowest one is no literal in C."""
    return str(number) if number > -(2**63) else "INT64_MIN"


def element_literals(op: Op) -> Iterator[str]:
    """The elements of a constant as literals that are exact."""
    array = op.attrs["value"].numpy().reshape(-1)
    kind = str(op.attrs["value"].dtype)
    if kind == "float32":
        yield from map(_float, array.tolist())
    elif kind == "bool":
        yield from ("1" if item else "0" for item in array.tolist())
    else:
        lowest = "INT32_MIN" if kind == "int32" else "INT64_MIN"
        least = -(2**31) if kind == "int32" else -(2**63)
        yield from (lowest if n == least else str(n) for n in array.tolist())


def _float(number: float) -> str:
    """The shortest of decimal and hexadecimal that is exact for a float32."""
    if math.isnan(number):
        return "NAN"
    if math.isinf(number):
        return "INFINITY" if number > 0 else "-INFINITY"
    text = f"{number:.9g}"
    return f"{text}f" if "." in text or "e" in text else f"{text}.0f"


def wrap_lines(text: str, indent: str) -> Iterator[str]:
    """Lines of at most `_WIDTH` characters, broken after commas."""
    line = indent
    for part in text.split(", "):
        piece = part + ", "
        if len(line) + len(piece) > _WIDTH and line != indent:
            yield line.rstrip()
            line = indent
        line += piece
    yield line.rstrip().rstrip(",") if line.rstrip() != indent.rstrip() else indent
