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
        if may_backtrack(pattern):
            return LinearPattern(pattern)
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(
            f"invalid regular expression: {error}", got=pattern[:200]
        ) from None


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
