"""Tokens of the readable form, and names that need no quotes."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from amanda.errors import FormatError
from amanda.files.text.syntax.plain_data import TextPosition, format_position
from amanda.files.text.syntax.scalars import escape_text

__all__ = ["Token", "Tokens", "is_bare_name", "format_key", "format_name", "type_end"]

_WORD = r"[A-Za-z_][A-Za-z0-9_]*+(?:(?:::|[./\-])[A-Za-z0-9_]++)*+"
_BARE = re.compile(_WORD + r"\Z")
_NUMBER = r"[0-9]++(?:\.[0-9]*+)?(?:[eE][-+]?[0-9]++)?"
_TEXT = r'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"'
_TOKEN = re.compile(
    rf"""(?:[ \t\r\n]++|//[^\n]*+)*+(?:
      (?P<value>[%$](?:{_WORD}|[0-9]++|{_TEXT}))
    | (?P<bytes>b{_TEXT})
    | (?P<word>{_WORD})
    | (?P<text>{_TEXT})
    | (?P<number>-?(?:{_NUMBER}|inf\b))
    | (?P<mark>->|\.\.\.|\^++|[(){{}}\[\],:=\#@<>$?])
    | (?P<end>\Z)
    )""",
    re.VERBOSE,
)
_ESCAPE = re.compile(
    r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8})|(.))", re.IGNORECASE
)
_SHORT = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "/": "/"}

_HEAD = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*|\?")
_PAIRS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[(<]|[\])>]')
_IS = re.compile(r"[ \t]*=[ \t]*")
_EXPRESSION = re.compile(r'[A-Za-z0-9_.?*/%+\-]++|"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"|\(')


def is_bare_name(text: str) -> bool:
    return _BARE.match(text) is not None and text != "_"


def format_key(text: str) -> str:
    """A name where only names can be: unquoted if possible.

    >>> format_key("conv1.weight"), format_key("a b"), format_key("_")
    ('conv1.weight', '"a b"', '"_"')
    """
    return text if is_bare_name(text) else escape_text(text)


def format_name(sign: str, text: str) -> str:
    """The name of an op or parameter with its sign; digits would be an index."""
    return sign + format_key(text)


class Token(NamedTuple):
    kind: str  # value, bytes, word, text, number, mark or end
    text: str
    start: int
    end: int


class Tokens:
    """The tokens of a text, with one token of lookahead."""

    def __init__(self, text: str, name: str) -> None:
        self.text, self.name = text, name
        self.here = self._at(0)

    def where(self, offset: Any) -> str:
        return format_position(self.name, TextPosition.at(self.text, offset))

    def error(self, message: str, offset: int, **parts: Any) -> FormatError:
        return FormatError(message, where=self.where(offset), **parts)

    def _at(self, offset: int) -> Token:
        match = _TOKEN.match(self.text, offset)
        if match is None or match.lastgroup is None:
            blank = re.compile(r"(?:[ \t\r\n]+|//[^\n]*)*").match(self.text, offset)
            at = blank.end() if blank else offset
            raise self.error(
                "these characters mean nothing here",
                at,
                got=repr(self.text[at : at + 20]),
                hint="a quote without an end?" if self.text[at] in '"%$b' else None,
            )
        kind = match.lastgroup
        return Token(kind, match[kind], match.start(kind), match.end())

    def next(self) -> Token:
        token = self.here
        self.here = self._at(token.end)
        return token

    def move_to(self, offset: int) -> None:
        """Continue at an offset."""
        self.here = self._at(offset)

    def at(self, text: str) -> bool:
        """Whether the next token is this mark or word."""
        return self.here.text == text and self.here.kind in ("mark", "word")

    def consume_if(self, text: str) -> bool:
        """Consume the next token if it is this mark or word."""
        if self.at(text):
            self.next()
            return True
        return False

    def expect(self, text: str) -> Token:
        if not self.at(text):
            raise self.unexpected_error(f"`{text}`")
        return self.next()

    def unexpected_error(self, expected: str) -> FormatError:
        token = self.here
        got = "the end of the text" if token.kind == "end" else f"`{token.text[:40]}`"
        hint = None
        if token.text == "...":
            hint = "this text was shortened for reading and cannot be loaded"
        return self.error(
            "the text cannot be read",
            token.start,
            expected=expected,
            got=got,
            hint=hint,
        )

    def unquote(self, token: Token, start: int = 0) -> str:
        """The text of a quoted token."""

        def one(match: re.Match[str]) -> str:
            digits = match[1] or match[2] or match[3]
            if digits is None:
                char = _SHORT.get(match[4])
            else:
                code = int(digits, 16)
                fits = code < 0x110000 and not 0xD800 <= code < 0xE000
                char = chr(code) if fits else None
            if char is None:
                raise self.error(
                    f"no character is written {match[0]}", token.start + match.start()
                )
            return char

        inner = token.text[start + 1 : -1]
        return _ESCAPE.sub(one, inner) if "\\" in inner else inner


def type_end(text: str, start: int) -> int:
    """The end of a type that starts at a position."""
    match = _HEAD.match(text, start)
    if match is None:
        return start
    end = match.end()
    if text.startswith("<", end):
        end = matching_bracket(text, end)
    if not text.startswith("[", end):
        return end
    end = matching_bracket(text, end)
    match = _IS.match(text, end)
    if match is None:
        return end
    end = match.end()
    if text.startswith("[", end):
        return matching_bracket(text, end)
    while match := _EXPRESSION.match(text, end):
        end = matching_bracket(text, end) if match[0] == "(" else match.end()
    return end


def matching_bracket(text: str, start: int) -> int:
    """The position after the matching bracket."""
    depth = 0
    for match in _PAIRS.finditer(text, start):
        if match[0] in "[(<":
            depth += 1
        elif match[0] in "])>":
            depth -= 1
            if depth == 0:
                return match.end()
    return len(text)
