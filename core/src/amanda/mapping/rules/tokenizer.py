"""Tokenizer of rule text; every token has its location."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, TypeAlias

from amanda.errors import FormatError, LimitError
from amanda.mapping.rules.terms import SourceLocation

__all__ = [
    "MAX_TEXT",
    "NAME",
    "RuleLines",
    "Token",
    "split_rules",
    "tokenize_block",
    "tokenize_rules",
]

RuleLines: TypeAlias = list[tuple[int, str]]
"""The lines of one rule with their numbers."""

MAX_TEXT: Final = 8 << 20
_MAX_DIGITS: Final = 80

_NAME = r"[A-Za-z_][A-Za-z0-9_]* (?: (?: (?:::|\.) | -(?=[A-Za-z]) ) [A-Za-z0-9_]+ )*"
NAME = re.compile(_NAME, re.VERBOSE)
_TOKEN = re.compile(
    rf"""
    (?P<name>   {_NAME} )
  | (?P<number> -? (?: [0-9]+ (?:\.[0-9]*)? | \.[0-9]+ ) (?:[eE][+-]?[0-9]+)? | -inf )
  | (?P<text>   "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' )
  | (?P<sign>   <=> | => | <= | >= | == | != | [()\[\],:=*<>?^@] )
  | (?P<space>  [ \t\r]+ | \#[^\n]* )
    """,
    re.VERBOSE,
)
_ESCAPE = re.compile(
    r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL
)
_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", '"': '"', "'": "'"}


class Token(NamedTuple):
    """A token; `kind` is name, number, text, sign or end."""

    kind: str
    text: str
    value: Any
    spot: SourceLocation

    def __str__(self) -> str:
        return "the end of the rule" if self.kind == "end" else repr(self.text)


def tokenize_rules(
    text: str, file: str, line: int = 1
) -> Iterator[list[Token] | FormatError]:
    """The tokens of each rule with an end token, or the error of a faulty rule.

    A rule begins at the left margin; indented lines continue it. `line` is the number
    of the text's first line in the file.
    """
    for block in split_rules(text, file, line):
        try:
            yield tokenize_block(block, file)
        except FormatError as error:
            yield error


def split_rules(text: str, file: str, first: int = 1) -> Iterator[RuleLines]:
    """The numbered lines of each rule."""
    if len(text) > MAX_TEXT:
        raise LimitError(
            "the rules are absurdly long",
            where=file,
            expected=f"at most {MAX_TEXT} characters",
            got=len(text),
        )
    held = [
        (number, line)
        for number, line in enumerate(text.split("\n"), first)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    margin = min((_indent(line) for _, line in held), default=0)
    block: RuleLines = []
    for number, line in held:
        if block and _indent(line) == margin:
            yield block
            block = []
        block.append((number, line))
    if block:
        yield block


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def tokenize_block(block: RuleLines, file: str) -> list[Token]:
    """The tokens of one rule, with an end token."""
    found: list[Token] = []
    for number, line in block:
        at = 0
        while at < len(line):
            spot = SourceLocation(file, number, at + 1)
            match = _TOKEN.match(line, at)
            if match is None:
                raise FormatError(
                    "a character that no rule has",
                    where=spot,
                    got=_show_text(line[at:]),
                )
            at = match.end()
            if match.lastgroup != "space":
                found.append(_make_token(match, spot))
    number, line = block[-1]
    found.append(
        Token("end", "", None, SourceLocation(file, number, len(line.rstrip()) + 1))
    )
    return found


def _make_token(match: re.Match[str], spot: SourceLocation) -> Token:
    kind, text = str(match.lastgroup), match[0]
    value: Any = text
    if kind == "number":
        if len(text) > _MAX_DIGITS:
            raise LimitError("a number is absurdly long", where=spot)
        value = float(text) if re.search(r"[.eEi]", text) else int(text)
    elif kind == "text":
        value = _ESCAPE.sub(lambda e: _unescape(e[1], spot), text[1:-1])
    return Token(kind, text, value, spot)


def _unescape(letter: str, spot: SourceLocation) -> str:
    if len(letter) > 1:
        code = int(letter[1:], 16)
        if code > 0x10FFFF or 0xD800 <= code < 0xE000:
            raise FormatError("an escape for no character", where=spot, got=letter)
        return chr(code)
    if letter not in _ESCAPES:
        raise FormatError(
            "an escape that texts do not have",
            where=spot,
            expected=r"one of \n \t \\ \" \' \x41 \u0041 \U00000041",
            got=repr(f"\\{letter}")[1:-1].replace("\\\\", "\\"),
        )
    return _ESCAPES[letter]


def _show_text(text: str) -> str:
    if text[0] in "\"'":
        return f"{text[:20]}: a string that does not end on its line"
    return repr(text[0])
