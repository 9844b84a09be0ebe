"""Rules of installed files, parsed when an op of their type is met.

A conversion meets few of the op types that a mapping has rules for. The types of a rule
and its direction are found by one regular expression; the rest is parsed on first use.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from amanda.mapping.rules.parser import parse_block
from amanda.mapping.rules.terms import Equation
from amanda.mapping.rules.tokenizer import NAME, RuleLines, split_rules

__all__ = ["DeferredRule", "scan_rules"]

_HEADS: Final = re.compile(
    rf"""
    \s* (?P<left> {NAME.pattern} ) \s* [\[(]
    (?: [^"'<=\#] | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' | <(?!=) | =(?!>) )*
    (?P<arrow> <=> | => | <= ) \s* (?P<right> {NAME.pattern} ) \s* [\[(]
    """,
    re.VERBOSE,
)


class DeferredRule:
    """A rule whose types and direction are known, and whose text is yet to be parsed.

    >>> [rule] = scan_rules("Softmax[13:](x, axis=a) <=> softmax(x, axes=only(a))",
    ...                     ["only"])
    >>> rule.head(True), rule.head(False), rule.runs(False)
    ('Softmax', 'softmax', True)
    >>> str(rule.equation().right)
    'softmax(x, axes=only(a))'
    """

    __slots__ = ("_arrow", "_file", "_left", "_lenses", "_lines", "_right", "_row")

    def __init__(
        self,
        heads: re.Match[str],
        lines: RuleLines,
        lenses: Collection[str],
        file: str,
    ) -> None:
        self._left, self._arrow, self._right = heads.group("left", "arrow", "right")
        self._lines, self._lenses, self._file = lines, lenses, file
        self._row: Equation | None = None

    def runs(self, forward: bool) -> bool:
        return self._arrow in (("<=>", "=>") if forward else ("<=>", "<="))

    def head(self, forward: bool) -> str:
        """The type of the op that the rule is for."""
        return self._left if forward else self._right

    def equation(self) -> Equation:
        """The parsed rule; FormatError if it is faulty."""
        if self._row is None:
            self._row = parse_block(self._lines, self._lenses, self._file)
        return self._row


def scan_rules(
    text: str, lenses: Collection[str], file: str = "<rules>"
) -> list[Equation | DeferredRule]:
    """The rules of a text; those whose types are not evident are parsed at once."""
    found: list[Equation | DeferredRule] = []
    for lines in split_rules(text, file):
        heads = _HEADS.match("\n".join(line for _, line in lines))
        if heads is None:
            found.append(parse_block(lines, lenses, file))
        else:
            found.append(DeferredRule(heads, lines, lenses, file))
    return found
