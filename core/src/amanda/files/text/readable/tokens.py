"""Words of the readable form: what the printer may leave bare, and the tokens."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from amanda.errors import FormatError
from amanda.files.text.syntax.plain_data import Spot, place
from amanda.files.text.syntax.scalars import escaped

__all__ = ["Token", "Tokens", "bare", "key", "name", "type_end"]

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


def bare(text: str) -> bool:
    return _BARE.match(text) is not None and text != "_"


def key(text: str) -> str:
    """A name where only names stand: bare, or in quotes.

    >>> key("conv1.weight"), key("a b"), key("_")
    ('conv1.weight', '"a b"', '"_"')
    """
    return text if bare(text) else escaped(text)


def name(sign: str, text: str) -> str:
    """The name of an op or parameter with its sign; digits alone would be an index."""
    return sign + key(text)


class Token(NamedTuple):
    kind: str  # value, bytes, word, text, number, mark or end
    text: str
    start: int
    end: int


class Tokens:
    """The tokens of a text, one ahead."""

    def __init__(self, text: str, name: str) -> None:
        self.text, self.name = text, name
        self.here = self._at(0)

    def where(self, offset: Any) -> str:
        return place(self.name, Spot.at(self.text, offset))

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

    def take(self) -> Token:
        token = self.here
        self.here = self._at(token.end)
        return token

    def jump(self, offset: int) -> None:
        """Go on reading at an offset."""
        self.here = self._at(offset)

    def sees(self, text: str) -> bool:
        """Is a mark or bare word next?"""
        return self.here.text == text and self.here.kind in ("mark", "word")

    def skip(self, text: str) -> bool:
        if self.sees(text):
            self.take()
            return True
        return False

    def need(self, text: str) -> Token:
        if not self.sees(text):
            raise self.unexpected(f"`{text}`")
        return self.take()

    def unexpected(self, expected: str) -> FormatError:
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

    def unquoted(self, token: Token, start: int = 0) -> str:
        """The text in the quotes of a token."""

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
    """Where the type that starts in a text ends."""
    match = _HEAD.match(text, start)
    if match is None:
        return start
    end = match.end()
    if text.startswith("<", end):
        end = balanced(text, end)
    if not text.startswith("[", end):
        return end
    end = balanced(text, end)
    match = _IS.match(text, end)
    if match is None:
        return end
    end = match.end()
    if text.startswith("[", end):
        return balanced(text, end)
    while match := _EXPRESSION.match(text, end):
        end = balanced(text, end) if match[0] == "(" else match.end()
    return end


def balanced(text: str, start: int) -> int:
    """The end of what a bracket opens."""
    depth = 0
    for match in _PAIRS.finditer(text, start):
        if match[0] in "[(<":
            depth += 1
        elif match[0] in "])>":
            depth -= 1
            if depth == 0:
                return match.end()
    return len(text)
