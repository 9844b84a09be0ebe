"""Patterns in linear time: the matches of `re`, whatever the pattern."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest

from amanda.errors import UsageError
from amanda_std import ops
from amanda_std.engine.linear_regex import LinearPattern, may_backtrack

CHARACTERS = [
    "a",
    "b",
    ".",
    "[ab]",
    "[^a]",
    r"\w",
    r"\d",
    r"\S",
    "[a-c1]",
    r"\b",
    "^",
    "$",
]
REPEATS = ["*", "+", "?", "*?", "+?", "??", "{1,3}", "{2}", "{0,2}?", "{2,}"]


def random_pattern(choose: random.Random, depth: int = 0) -> str:
    def inner() -> str:
        return random_pattern(choose, depth + 1)

    match choose.randrange(8 if depth < 3 else 2):
        case 0 | 1:
            return choose.choice(CHARACTERS)
        case 2:
            return ""
        case 3:
            return f"({inner()}|{inner()})"
        case 4:
            body = inner()
            if re.compile(body).fullmatch(""):  # engines differ in empty iterations
                return body
            return f"(?:{body}){choose.choice(REPEATS)}"
        case 5:
            return f"({inner()})"
    return inner() + inner()


@pytest.mark.parametrize("seed", range(40))
def test_matches_are_those_of_re(seed):
    choose, compared = random.Random(seed), 0
    for _ in range(60):
        pattern = random_pattern(choose)
        flags = choose.choice(["", "", "(?i)", "(?s)", "(?m)"])
        theirs, ours = re.compile(flags + pattern), LinearPattern(flags + pattern)
        for _ in range(4):
            text = "".join(choose.choices("abcA1 \n", k=choose.randrange(8)))
            assert ours.fullmatch(text) == bool(theirs.fullmatch(text)), (pattern, text)
            wanted, found = theirs.search(text), ours._search(text, 0)
            assert (found and found[:2]) == (wanted and wanted.span()), (pattern, text)
            compared += 1
    assert compared == 240


GROUPS = [(r"(\w+)@(\w+)\.(\w+)", r"\3.\2 of \1", "me@host.org, you@here.net"),
          (r"(a|b)(c)?", r"<\1\2\0>", "abcbd"), (r"(\d+)-(\d*)", r"\2\\\1", "1-22 3-"),
          (r"(x|y)+?z", r"[\1]", "xyz yxz")]  # fmt: skip


@pytest.mark.parametrize(("pattern", "rewrite", "text"), GROUPS)
@pytest.mark.parametrize("count", [0, 1])
def test_groups_are_replaced_as_by_re(pattern, rewrite, text, count):
    theirs = rewrite.replace(r"\0", r"\g<0>")
    ours = LinearPattern(pattern).sub(rewrite, text, count)
    assert ours == re.sub(pattern, theirs, text, count=count)


@pytest.mark.parametrize(
    "pattern",
    ["(a|a)*b", "(a*)*b", "(a+)+b", "(a?){60}a{60}b", "a?" * 60 + "a" * 60 + "b"],
)
def test_exponential_patterns_take_steps_in_proportion_to_the_text(
    pattern, monkeypatch
):
    assert may_backtrack(pattern)
    counts = []
    for size in (60, 120, 240):
        compiled, count = LinearPattern(pattern), 0
        own = compiled._successors

        def counted(i, text, at, own=own):
            nonlocal count
            count += 1
            return own(i, text, at)

        monkeypatch.setattr(compiled, "_successors", counted)
        compiled._next = _Forgetful()
        assert not compiled.fullmatch("a" * size)
        counts.append(count)
    assert counts[2] <= 5 * counts[0]


class _Forgetful(dict):
    """Keeps no transition, so that every character is counted."""

    def __setitem__(self, key, value):
        pass


def test_the_op_takes_them():
    x = np.array(["a" * 3000, "b"], object)
    assert ops.regex_full_match(x, pattern="(a|a)*b").tolist() == [False, True]
    made = ops.regex_replace(x, pattern="(a|a)*b", rewrite="c")
    assert made.tolist() == ["a" * 3000, "c"]


@pytest.mark.parametrize(
    "pattern", ["(a{1000}){1000}", "((a{300}){300}){300}", "(" * 5000]
)
def test_patterns_without_bound_are_refused(pattern):
    with pytest.raises(UsageError):
        ops.regex_full_match(np.array(["a"], object), pattern=pattern)


def test_simple_patterns_are_left_to_re():
    simple = ("abc", "a*", "[ab]+c", "a|b", r"\d{3}", "(a|b)c?")
    assert [pattern for pattern in simple if may_backtrack(pattern)] == []
    choices = ("a*b*", "(ab)*", "(ab|cd)e?", "(a|bc)*")
    assert [pattern for pattern in choices if not may_backtrack(pattern)] == []
