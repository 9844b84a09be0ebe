"""Regular expressions: the syntax of RE2, in linear time.

Python's `re` is used where a pattern has at most one choice, so that it is linear too.
"""

from __future__ import annotations

import re
from functools import lru_cache

from amanda.errors import UsageError
from amanda_std.engine.annotations import Logical, Text
from amanda_std.engine.linear_regex import LinearPattern, may_backtrack
from amanda_std.engine.operation import primitive
from amanda_std.engine.samples import Samples
from amanda_std.inference import shapes
from amanda_std.ops.text.strings import map_strings, word_samples

_NOT_IN_RE2 = re.compile(r"\\[1-9]|\(\?(?:=|!|<=|<!|>|\(|P=)|[*+?}]\+")


_LONGEST = 1 << 16

_CLASSES = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": r"\x00-\x7f", "blank": r"\t ",
    "cntrl": r"\x00-\x1f\x7f", "digit": "0-9", "graph": "!-~", "lower": "a-z",
    "print": " -~", "punct": r"!-/:-@\[-`{-~", "space": r"\t\n\v\f\r ",
    "upper": "A-Z", "word": "0-9A-Za-z_", "xdigit": "0-9A-Fa-f",
}  # fmt: skip
"""The characters of `[[:name:]]`."""
_CLASS_NAME = re.compile(r"\[:(\w+):\]")
_MULTILINE = re.compile(r"\(\?[a-zA-Z]*m")
_IGNORES_CASE = re.compile(r"\(\?[a-zA-Z]*i")


@primitive(numpy_only=True, shape=shapes.same_as_first)
def regex_full_match(x: Text, *, pattern: str) -> Logical:
    """Whether the whole string matches a regular expression"""
    fits = _compile_pattern(pattern).fullmatch
    return map_strings(lambda item: bool(fits(item)), x, "bool")


@primitive(numpy_only=True, shape=shapes.same_as_first)
def regex_replace(
    x: Text, *, pattern: str, rewrite: str, everywhere: bool = True
) -> Text:
    r"""Replace matches of a regular expression; \1 refers to the first group"""
    replace, count = _compile_pattern(pattern).sub, 0 if everywhere else 1
    try:
        return map_strings(lambda item: replace(rewrite, item, count=count), x)
    except re.error as error:
        raise UsageError(
            f"the replacement does not fit the regular expression: {error}", got=rewrite
        ) from None


@lru_cache(64)
def _compile_pattern(pattern: str) -> re.Pattern[str] | LinearPattern:
    """Compile a pattern that means the same in RE2; reject what only one supports."""
    result = _NOT_IN_RE2.search(pattern)
    if result is not None or len(pattern) > _LONGEST:
        raise UsageError(
            "the regular expression is not supported by RE2",
            got=pattern[:200],
            expected="no backreference, look-around, atomic or possessive group",
        )
    try:
        translated = _as_python(pattern)
        if may_backtrack(translated):
            return LinearPattern(translated)
        # case is that of Unicode in RE2, while digits, words and spaces are ASCII
        return re.compile(
            translated, re.NOFLAG if _IGNORES_CASE.search(pattern) else re.ASCII
        )
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(
            f"invalid regular expression: {error}", got=pattern[:200]
        ) from None


def _as_python(pattern: str) -> str:
    """A pattern of RE2 in the syntax of `re`: `$` and `\\z` are the end of the text,
    and a set may have `[:name:]`."""
    parts, at, is_in_set = [], 0, False
    end = "$" if _MULTILINE.search(pattern) else r"\Z"
    while at < len(pattern):
        piece = pattern[at : at + 2] if pattern[at] == "\\" else pattern[at]
        name = _CLASS_NAME.match(pattern, at) if is_in_set else None
        if name is not None and name[1] in _CLASSES:
            piece = name[0]
            parts.append(_CLASSES[name[1]])
        elif not is_in_set and piece in ("$", r"\z"):
            parts.append(end if piece == "$" else r"\Z")
        elif not is_in_set and piece == "[":
            is_in_set = True
            opening = re.compile(r"\[\^?\]?").match(pattern, at)
            piece = opening[0] if opening else piece
            parts.append(piece.replace("]", r"\]"))
        else:
            is_in_set = is_in_set and piece != "]"
            parts.append(piece)
        at += len(piece)
    return "".join(parts)


regex_full_match.samples(
    word_samples([[True, True], [False, False]], pattern="[^ ].*[a-zC]")
)


for _op in (regex_full_match, regex_replace):
    _op.not_differentiable("strings have no gradient")


@regex_replace.samples
def _() -> Samples:
    given = {"pattern": "([eg])", "rewrite": r"<\1>"}
    yield from word_samples([["Är<g><e>r", "b C"], ["", " x\t"]], **given)()
    given = {"pattern": "(e|g)(.|x)?", "rewrite": r"<\2\1>"}
    yield from word_samples([["Är<eg>r", "b C"], ["", " x\t"]], **given)()
    given = {"pattern": "([eg])", "rewrite": r"<\1>"}
    first = {**given, "everywhere": False}
    yield from word_samples([["Är<g>er", "b C"], ["", " x\t"]], **first)()
