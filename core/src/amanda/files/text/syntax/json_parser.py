"""JSON text to plain data.

The standard library's parser is tried first. What it refuses, or nests too deeply for
it, is parsed by a slower scanner that does not recurse and reports positions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from amanda.errors import FormatError
from amanda.files.text.syntax.locate import DocumentEvent, find_mark
from amanda.files.text.syntax.plain_data import (
    MAX_NESTING,
    Path,
    Plain,
    Tagged,
    TextPosition,
    format_position,
    quote_short,
    too_deep,
)
from amanda.files.text.syntax.scalars import (
    holds_surrogate,
    may_hold_surrogates,
    parse_number,
)

__all__ = ["locate", "parse"]


class _FastParserError(ValueError):
    """The fast parser refuses a text; the slow one reports why."""


def parse(text: str, name: str) -> Plain:
    """The value of `text`; `name` is its name in errors."""
    if may_hold_surrogates(text):  # which the fast parser accepts
        return _compose(text, name)
    try:
        return _FAST.decode(text)
    except (ValueError, RecursionError):
        return _compose(text, name)


def locate(text: str, path: Path | None) -> TextPosition:
    """The position of the value at `path`, in a valid text."""
    return TextPosition.at(text, find_mark(_steps(text), path) or 0)


def _pairs(pairs: list[tuple[str, Any]]) -> Plain:
    """A map; a single key `$kind` makes it a tagged value; `$$x` is the key `$x`."""
    made = dict(pairs)
    if len(made) != len(pairs):
        raise _FastParserError
    for key in made:
        if key[:1] == "$":
            return _with_tags(made)
    return made


def _with_tags(made: dict[str, Any]) -> Plain:
    first = next(iter(made))
    if len(made) == 1 and first[:2] != "$$":
        if not first[1:].isidentifier():
            raise _FastParserError
        return Tagged(first[1:], made[first])
    plain = {}
    for key, value in made.items():
        if key[:1] == "$":
            if key[:2] != "$$":
                raise _FastParserError
            key = key[1:]
        plain[key] = value
    return plain


def _number(text: str) -> int | float:
    value = parse_number(text)
    assert value is not None
    return value


def _float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise _FastParserError
    return value


def _constant(text: str) -> Any:
    raise _FastParserError(text)


_FAST = json.JSONDecoder(
    object_pairs_hook=_pairs, parse_float=_float, parse_constant=_constant
)

# -- the slow parser -------------------------------------------------------------------

_TOKEN = re.compile(
    r"""[ \t\n\r]*+(?:
        (?P<mark>[\[\]{},:])
      | (?P<text>"[^"\\\x00-\x1f]*+(?:\\.[^"\\\x00-\x1f]*+)*+")
      | (?P<number>-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?)(?![\w.])
      | (?P<word>true|false|null)(?!\w)
      | (?P<end>\Z)
    )""",
    re.VERBOSE | re.ASCII,
)
_WORDS = {"true": True, "false": False, "null": None}


class _JsonEvent(NamedTuple):
    kind: str  # map, list, end, key, scalar
    value: Any
    offset: int


class _JsonScanner:
    """The events of one JSON text."""

    def __init__(self, text: str, name: str) -> None:
        self.text, self.name = text, name
        self.offset = self.start = 0

    def error(self, message: str, offset: int, **parts: Any) -> FormatError:
        where = format_position(self.name, TextPosition.at(self.text, offset))
        return FormatError(message, where=where, **parts)

    def next_token(self) -> tuple[str, str]:
        match = _TOKEN.match(self.text, self.offset)
        if match is None:
            raise self._invalid_token_error()
        kind = match.lastgroup
        assert kind is not None
        self.start, self.offset = match.start(kind), match.end()
        return kind, match[kind]

    def _invalid_token_error(self) -> FormatError:
        blank = re.compile(r"[ \t\n\r]*").match(self.text, self.offset)
        at = blank.end() if blank else self.offset
        got = self.text[at : at + 20]
        if got.startswith('"'):
            return self.error("a text has no end, or holds a raw control", at)
        hint = None
        if re.match(r"-?(nan|inf)", got, re.IGNORECASE):
            hint = 'write {"$float": "nan"}, "inf" or "-inf"'
        return self.error("the text is not JSON", at, got=repr(got), hint=hint)

    def events(self) -> Iterator[_JsonEvent]:
        """All values in text order, with an explicit stack."""
        open_maps: list[bool] = []
        while True:
            kind, word = self.next_token()
            at = self.start
            if word in ("{", "[") and kind == "mark":
                if len(open_maps) >= MAX_NESTING:
                    raise too_deep(
                        format_position(self.name, TextPosition.at(self.text, at))
                    )
                yield _JsonEvent("map" if word == "{" else "list", None, at)
                open_maps.append(word == "{")
                if not self._empty(word):
                    if word == "{":
                        yield self._key()
                    continue
            else:
                yield _JsonEvent("scalar", self._scalar(kind, word), at)
            yield from self._after(open_maps)
            if not open_maps:
                return

    def _empty(self, opener: str) -> bool:
        before = self.offset
        _, word = self.next_token()
        self.offset = before
        return word == ("}" if opener == "{" else "]")

    def _after(self, open_maps: list[bool]) -> Iterator[_JsonEvent]:
        """What may follow a value: closing brackets, a comma, the end of the text."""
        while open_maps:
            kind, word = self.next_token()
            if kind == "mark" and word == ",":
                if open_maps[-1]:
                    yield self._key()
                return
            if word != ("}" if open_maps[-1] else "]") or kind != "mark":
                raise self._unexpected_error(
                    "`,` or " + ("`}`" if open_maps[-1] else "`]`")
                )
            yield _JsonEvent("end", None, self.start)
            open_maps.pop()
        if self.next_token()[0] != "end":
            raise self._unexpected_error("the end of the text")

    def _unexpected_error(self, expected: str) -> FormatError:
        got = self.text[self.start : self.offset][:40]
        return self.error(
            "the text is not JSON",
            self.start,
            expected=expected,
            got=f"`{got}`" if got else "the end of the text",
        )

    def _key(self) -> _JsonEvent:
        kind, word = self.next_token()
        if kind != "text":
            raise self._unexpected_error("a key in double quotes")
        at = self.start
        key = self._decode_string(word)
        if self.next_token()[1] != ":":
            raise self._unexpected_error("`:`")
        return _JsonEvent("key", key, at)

    def _decode_string(self, word: str) -> str:
        try:
            text = json.loads(word)
        except ValueError as error:
            raise self.error("a wrong escape in a text", self.start) from error
        assert isinstance(text, str)
        if holds_surrogate(text):
            raise self.error("a text holds half of a surrogate pair", self.start)
        return text

    def _scalar(self, kind: str, word: str) -> Any:
        if kind == "text":
            return self._decode_string(word)
        if kind == "word":
            return _WORDS[word]
        if kind != "number":
            raise self._unexpected_error("a value")
        try:
            return _number(word)
        except OverflowError as error:
            hint = 'infinity is written {"$float": "inf"}'
            raise self.error(
                "a number out of range", self.start, got=error, hint=hint
            ) from error


def _steps(text: str) -> Iterator[DocumentEvent[int]]:
    for kind, value, offset in _JsonScanner(text, "").events():
        key = ""
        if kind == "key":
            key = value
            if key[:2] == "$$":
                key = key[1:]
            elif key[:1] == "$":
                kind = "tag"
        yield DocumentEvent(kind, key, offset)  # type: ignore[arg-type]


def _compose(text: str, name: str) -> Plain:
    scanner = _JsonScanner(text, name)
    stack: list[tuple[Any, int]] = []
    waiting: list[dict[str, int]] = []  # keys of the open maps, and their positions
    keys: list[str] = []
    top: Plain = None
    for kind, value, at in scanner.events():
        if kind == "key":
            if value in waiting[-1]:
                first = format_position(name, TextPosition.at(text, waiting[-1][value]))
                raise scanner.error(
                    f"the key {quote_short(value)} stands twice in one map",
                    at,
                    got=f"the first at {first}",
                )
            waiting[-1][value] = at
            keys[-1] = value
            continue
        if kind in ("map", "list"):
            stack.append(({} if kind == "map" else [], at))
            waiting.append({})
            keys.append("")
            continue
        if kind == "end":
            value, at = stack.pop()
            waiting.pop()
            keys.pop()
            if type(value) is dict:
                value = _tagged_value(scanner, value, at)
        if not stack:
            top = value  # the scanner checks that the text ends here
            continue
        holder = stack[-1][0]
        if type(holder) is list:
            holder.append(value)
        else:
            holder[keys[-1]] = value
    return top


def _tagged_value(scanner: _JsonScanner, made: dict[str, Any], at: int) -> Plain:
    try:
        return _pairs(list(made.items()))
    except _FastParserError as error:
        raise scanner.error(
            "a key that starts with $ names a kind of value, and stands alone",
            at,
            hint="write $$ for the first $ of such a key",
        ) from error
