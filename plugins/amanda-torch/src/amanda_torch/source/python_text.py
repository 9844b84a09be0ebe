"""Python text: expressions with precedence, and statements of 88 columns."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from keyword import iskeyword
from typing import Any, Final, NamedTuple

from amanda.errors import FormatError
from amanda.graph import OutputPort
from amanda.types import DType

__all__ = [
    "ADD", "AND", "ANY", "ATOM", "COMPARE", "MUL", "NAME", "OR", "SHIFT", "UNARY",
    "WIDTH", "XOR",
    "Code", "Expression", "Number", "Slot", "constant_text", "expression",
    "are_equal", "constant_key", "format_statement", "is_name", "join", "literal",
    "member_text",
]  # fmt: skip

ANY, COMPARE, OR, XOR, AND, SHIFT, ADD, MUL, UNARY, ATOM, NAME = range(11)
"""How tightly expressions bind; where a slot is `NAME`, a value must be a variable."""

WIDTH: Final = 88


class Code(str):
    """Text of Python as it is, in the place of a constant."""

    __slots__ = ()


class Slot(NamedTuple):
    """A place for a value in an expression, which has to bind at least so tightly."""

    value: OutputPort
    level: int = ANY


class Number:
    """A number in an expression: other modules of a class may have another."""

    __slots__ = ("name", "value")

    def __init__(self, value: float, name: str) -> None:
        self.value = value
        self.name = name


Part = str | Slot | Number


class Expression(NamedTuple):
    """Text with slots for values."""

    parts: tuple[Part, ...]
    level: int = ATOM

    def slots(self) -> Iterator[Slot]:
        return (part for part in self.parts if isinstance(part, Slot))

    def render(self, text: Callable[[Slot | Number], str]) -> str:
        return "".join(p if isinstance(p, str) else text(p) for p in self.parts)


def expression(*pieces: Part | Expression, level: int = ATOM) -> Expression:
    """An expression of pieces one after another."""
    parts: list[Part] = []
    for piece in pieces:
        parts += piece.parts if isinstance(piece, Expression) else [piece]
    return Expression(tuple(parts), level)


def join(items: Iterable[Expression], between: str = ", ") -> Expression:
    parts: list[Part] = []
    for item in items:
        parts += ([between] if parts else []) + list(item.parts)
    return Expression(tuple(parts))


def literal(value: Any, level: int = ANY, name: str = "size") -> Expression:
    """The expression of an argument: constants, lists of them, values."""
    if isinstance(value, OutputPort):
        return Expression((Slot(value, level),))
    if type(value) in (int, float):
        return Expression((Number(value, name),))
    if isinstance(value, list | tuple):
        items = join(literal(item, name=name) for item in value)
        return expression("[", items, "]")
    if isinstance(value, dict):
        pairs = [expression(f"{key!r}: ", literal(v)) for key, v in value.items()]
        return expression("{", join(pairs), "}")
    return Expression((constant_text(value),))


def constant_text(value: Any) -> str:
    """The text of a constant."""
    if isinstance(value, Code):
        return str(value)
    if isinstance(value, DType):
        return f"torch.{_DTYPES.get(str(value), value)}"
    if isinstance(value, float):
        if value in _EXTREMES:
            return _EXTREMES[value]
        return repr(value) if math.isfinite(value) else f'float("{value}")'
    if isinstance(value, complex):
        return f"complex({constant_text(value.real)}, {constant_text(value.imag)})"
    if isinstance(value, str):
        return '"' + repr('"' + value)[2:-1].replace('"', '\\"') + '"'
    if value is None or isinstance(value, int):
        return repr(value)
    raise FormatError(
        "an argument that Python source cannot have", got=f"{value!r:.60}",
        expected="numbers, strings, element types, and lists of these",
    )  # fmt: skip


def constant_key(value: Any) -> tuple[type, str]:
    """What equal constants have in common: NaN equals itself, 0.0 neither -0.0 nor 0.

    >>> constant_key(0.0) == constant_key(-0.0)
    False
    """
    return type(value), repr(value)


def are_equal(a: Any, b: Any) -> bool:
    """
    >>> are_equal(float("nan"), float("nan")), are_equal(1, 1.0)
    (True, False)
    """
    return constant_key(a) == constant_key(b)


def is_name(text: str) -> bool:
    """Whether an attribute can be written after a dot.

    >>> is_name("weight"), is_name("a-b"), is_name("0"), is_name("class")
    (True, False, False, False)
    """
    return text.isidentifier() and not iskeyword(text)


def member_text(owner: str, name: str) -> str:
    """A member of a module.

    >>> member_text("self", "head"), member_text("self", "a-b")
    ('self.head', 'getattr(self, "a-b")')
    """
    if is_name(name):
        return f"{owner}.{name}"
    return f"getattr({owner}, {constant_text(name)})"


_EXTREMES: Final = {
    -3.4028234663852886e38: "torch.finfo(torch.float32).min",
    3.4028234663852886e38: "torch.finfo(torch.float32).max",
    -65504.0: "torch.finfo(torch.float16).min",
}
_DTYPES: Final = {"float8_e4m3": "float8_e4m3fn"}


# -- formatting ----------------------------------------------------------------------


def format_statement(text: str, indent: int) -> list[str]:
    """The lines of a statement: one, or broken at its last brackets.

    >>> format_statement("f(a)", 4)
    ['    f(a)']
    """
    return _format(text, " " * indent, "")


def _format(text: str, margin: str, end: str) -> list[str]:
    line = f"{margin}{text}{end}"
    if len(line) <= WIDTH:
        return [line]
    operation = _operation(text)
    if operation is not None:
        return _format_operation(text, operation, margin, end)
    loop = _comprehension(text)
    if loop is not None:
        return [
            *_format(text[:loop], margin, ""),
            *_format(text[loop + 1 :], margin, end),
        ]
    found = _last_brackets(text, WIDTH - len(margin))
    start = _value_start(text)
    if start is not None and len(items := split_items(text[start:])) > 1:
        each = [row for item in items for row in _format(item, margin + "    ", ",")]
        return [f"{margin}{text[:start]}(", *each, f"{margin}){end}"]
    if start is not None and _is_whole(text, start, found, margin):
        return _format_chain(text, start, margin, end)
    if found is None:
        return [line]
    return _format_brackets(text, found, margin, end)


def _format_brackets(
    text: str, found: tuple[int, int], margin: str, end: str
) -> list[str]:
    """A text broken at a pair of brackets, with their items on lines of their own."""
    start, stop = found
    head, body, tail = text[: start + 1], text[start + 1 : stop], text[stop:]
    inner = margin + "    "
    is_subscript = text[start] == "[" and start and text[start - 1] not in " =(["
    if len(inner + body) <= WIDTH and not body.endswith(","):
        lines = [inner + body]
    else:
        comma = "" if is_subscript or _comprehension(body) is not None else ","
        lines = [
            each for item in split_items(body) for each in _format(item, inner, comma)
        ]
    return [margin + head, *lines, margin + tail + end]


def _comprehension(text: str) -> int | None:
    """Where ` for ` is outside of brackets."""
    places = [match.start() for match in re.finditer(" for _ in ", text)]
    return next((p for p in places if not _depth(text, p)), None)


def _depth(text: str, place: int) -> int:
    """In how many brackets a place of a text is."""
    inside = [char for at, char, _ in _brackets(text) if at < place and char != ","]
    return sum(1 if char in _OPEN else -1 for char in inside)


def _value_start(text: str) -> int | None:
    """Where the value of a statement begins, which is no part of a call."""
    start = re.match(r"(return |[\w.,\[\] ]+ = )", text)
    return None if start is None or not start.end() else start.end()


def _links(text: str, start: int) -> list[int]:
    """Where attributes of results of calls and subscripts begin."""
    return [
        match.start() for match in re.finditer(r"(?<=[)\]])\.\w", text)
        if match.start() > start and not _depth(text, match.start())
    ]  # fmt: skip


def _is_whole(
    text: str, start: int, found: tuple[int, int] | None, margin: str
) -> bool:
    """Whether a value has brackets of its own if it is too long for a line."""
    value = text[start:]
    if found is None or len(_links(text, start)) > 1:
        return True
    if len(margin) + found[0] + 1 > WIDTH and len(margin) + 4 + len(value) <= WIDTH:
        return not _links(text, start)
    return False


def _format_chain(text: str, start: int, margin: str, end: str) -> list[str]:
    """A value in brackets: whole, or with a call on each line."""
    inner = margin + "    "
    value = text[start:]
    lines = [inner + value]
    links = [place - start for place in _links(text, start)]
    if len(lines[0]) > WIDTH and links:
        ends = [*links[1:], len(value)]
        parts = [value[: links[0]]]
        parts += [value[a:b] for a, b in zip(links, ends, strict=True)]
        lines = [line for part in parts for line in _format(part, inner, "")]
    return [f"{margin}{text[:start]}(", *lines, f"{margin}){end}"]


def _format_operation(text: str, start: int, margin: str, end: str) -> list[str]:
    """An operation in brackets, if too long for a line with an operand on each."""
    inner = margin + "    "
    body = text[start:]
    lines = [inner + body]
    if len(lines[0]) > WIDTH:
        places = _operators(body, 0)
        ends = [*places[1:], len(body)] if places else []
        first = body[: places[0]] if places else body
        parts = [first, *(body[a:b] for a, b in zip(places, ends, strict=True))]
        lines = [inner + part.strip() for part in parts]
    return [f"{margin}{text[:start]}(", *lines, f"{margin}){end}"]


_LEVELS: Final = (r"[<>=!]=|[<>]", r"\|", r"\^", "&", "<<|>>", r"[-+]", r"[*/%@]|//")


def _operation(text: str) -> int | None:
    """Where an operation begins, which is all of a statement after its target."""
    start = re.match(r"(return |[\w.,() ]+ = )?", text)
    assert start is not None
    return start.end() if start.end() and _operators(text, start.end()) else None


def _operators(text: str, start: int) -> list[int]:
    """Where the operators outside of brackets are that bind least."""
    depths = {place: depth for place, char, depth in _brackets(text) if char != ","}
    depth, outer = 0, []
    for place in range(start, len(text)):
        if place in depths:
            depth = depths[place] + (text[place] in _OPEN)
        elif depth == 0 and text[place] == " ":
            outer.append(place)
    for level in _LEVELS:
        found = [p for p in outer if re.match(f" ({level}) ", text[p:])]
        if found:
            return found
    return []


_OPEN, _CLOSE = "([{", ")]}"


def _brackets(text: str) -> Iterator[tuple[int, str, int]]:
    """Position, character and depth of brackets and commas outside of strings."""
    depth, quoted = 0, False
    for place, char in enumerate(text):
        if char == '"' and (not place or text[place - 1] != "\\"):
            quoted = not quoted
        elif quoted:
            continue
        elif char in _OPEN:
            yield place, char, depth
            depth += 1
        elif char in _CLOSE:
            depth -= 1
            yield place, char, depth
        elif char == ",":
            yield place, char, depth


def _last_brackets(text: str, width: int) -> tuple[int, int] | None:
    """Where the last outermost brackets with content are that begin in a line."""
    outer = [(place, char) for place, char, depth in _brackets(text) if depth == 0]
    outer = [(place, char) for place, char in outer if char != ","]
    if text.startswith("def "):  # its parameters, not the type of its result
        return outer[0][0], outer[1][0]
    found: tuple[int, int] | None = None
    for i in range(len(outer) - 1, 0, -2):
        start, stop = outer[i - 1][0], outer[i][0]
        rest = text[found[1] :] if found is not None else text[stop:]
        if stop - start > 1 and re.fullmatch(r"[)\]}\w.\[\(:]*", rest):
            found = start, stop
            if start < width:
                break
    return found


def split_items(text: str) -> list[str]:
    """The items of a list, without those in brackets.

    >>> split_items("a, f(b, c), [d]")
    ['a', 'f(b, c)', '[d]']
    """
    commas = [
        place for place, char, depth in _brackets(text) if (char, depth) == (",", 0)
    ]
    ends = [*commas, len(text)]
    starts = [0, *(place + 1 for place in commas)]
    items = [text[a:b].strip() for a, b in zip(starts, ends, strict=True)]
    return [item for item in items if item]
