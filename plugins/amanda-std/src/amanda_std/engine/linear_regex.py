"""Regular expressions in time linear in the text, as RE2 has them.

Python's `re` backtracks, and takes exponential time for patterns such as `(a|a)*b`.
Here a pattern becomes a program of a nondeterministic automaton, all of whose states
advance together; captures are those of the leftmost match by priority, as in `re`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple

from amanda.errors import UsageError

__all__ = ["LinearPattern", "may_backtrack"]

_PARSER: Final[Any] = import_module("re._parser")
_SINGLE: Final = ("LITERAL", "NOT_LITERAL", "ANY", "IN")
_MOST_STEPS: Final = 20_000
"""Instructions of a program; counted repeats multiply."""
_MOST_SETS: Final = 4096
"""Transitions between sets of states that are kept."""

_CHAR, _SPLIT, _JUMP, _SAVE, _ASSERT, _MATCH = range(6)


class _Step(NamedTuple):
    """An instruction: a test of a character or a place, or where to go on."""

    kind: int
    test: Any = None
    first: int = 0
    second: int = 0


def may_backtrack(pattern: str) -> bool:
    """Whether `re` may try a text in more ways than it has characters: unless there is
    at most one choice, and what repeats is a single character."""
    choices, waiting = 0, [_PARSER.parse(pattern)]
    while waiting:
        node = waiting.pop()
        kind = str(node[0]) if isinstance(node, tuple) else ""
        if kind.endswith("_REPEAT"):
            body = list(node[1][2])
            choices += 1 if len(body) == 1 and str(body[0][0]) in _SINGLE else 2
        choices += kind == "BRANCH"
        if isinstance(node, tuple | list) or hasattr(node, "data"):
            waiting += list(node)
    return choices > 1


class LinearPattern:
    """A compiled pattern: `fullmatch` and `sub` as in `re`."""

    def __init__(self, pattern: str) -> None:
        tree = _PARSER.parse(pattern)
        self.steps: list[_Step] = []
        self._flags = tree.state.flags
        self._save(0, lambda: self._sequence(tree, self._flags))
        self._add(_Step(_MATCH))
        self.groups = tree.state.groups
        self._next: dict[tuple[frozenset[int], str], frozenset[int]] = {}
        self._places = any(step.kind == _ASSERT for step in self.steps)

    # -- compiling -----------------------------------------------------------------

    def _add(self, step: _Step) -> int:
        if len(self.steps) >= _MOST_STEPS:
            raise UsageError("the regular expression is too large")
        self.steps.append(step)
        return len(self.steps) - 1

    def _save(self, slot: int, inner: Callable[[], None]) -> None:
        self._add(_Step(_SAVE, first=slot))
        inner()
        self._add(_Step(_SAVE, first=slot + 1))

    def _sequence(self, items: Any, flags: int) -> None:
        for kind, value in items:
            self._node(str(kind), value, flags)

    def _node(self, kind: str, value: Any, flags: int) -> None:
        if kind in _SINGLE:
            self._add(_Step(_CHAR, _character_test(kind, value, flags)))
        elif kind == "BRANCH":
            self._branch(value[1], flags)
        elif kind == "SUBPATTERN":
            group, added, removed, inner = value
            own = (flags | added) & ~removed
            if group is None:
                self._sequence(inner, own)
            else:
                self._save(2 * group, lambda: self._sequence(inner, own))
        elif kind in ("MAX_REPEAT", "MIN_REPEAT"):
            self._repeat(*value, greedy=kind == "MAX_REPEAT", flags=flags)
        elif kind == "AT":
            self._add(_Step(_ASSERT, _place_test(str(value), flags)))
        else:
            raise UsageError("the regular expression is not supported", got=kind)

    def _branch(self, choices: Sequence[Any], flags: int) -> None:
        ends = []
        for i, choice in enumerate(choices):
            if i == len(choices) - 1:
                self._sequence(choice, flags)
                break
            split = self._add(_Step(_SPLIT))
            self._sequence(choice, flags)
            ends.append(self._add(_Step(_JUMP)))
            self.steps[split] = _Step(_SPLIT, None, split + 1, len(self.steps))
        for end in ends:
            self.steps[end] = _Step(_JUMP, None, len(self.steps))

    def _repeat(
        self, least: int, most: Any, inner: Any, *, greedy: bool, flags: int
    ) -> None:
        for _ in range(least):
            self._sequence(inner, flags)
        unbounded = most is _PARSER.MAXREPEAT
        splits = []
        for _ in range(1 if unbounded else most - least):
            splits.append(self._add(_Step(_SPLIT)))
            self._sequence(inner, flags)
            if unbounded:
                self._add(_Step(_JUMP, None, splits[0]))
        after = len(self.steps)
        for split in splits:
            ends = (split + 1, after) if greedy else (after, split + 1)
            self.steps[split] = _Step(_SPLIT, None, *ends)

    # -- matching ------------------------------------------------------------------

    def fullmatch(self, text: str) -> bool:
        """Whether the pattern matches all of a text."""
        states = self._closure([0], text, 0)
        for at, char in enumerate(text):
            key = (states, char)
            found = None if self._places else self._next.get(key)
            if found is None:
                steps = self.steps
                after = [i + 1 for i in states
                         if steps[i].kind == _CHAR and steps[i].test(char)]  # fmt: skip
                found = self._closure(after, text, at + 1)
                if len(self._next) >= _MOST_SETS:
                    self._next.clear()
                self._next[key] = found
            states = found
            if not states:
                return False
        return any(self.steps[i].kind == _MATCH for i in states)

    def _closure(self, starts: Sequence[int], text: str, at: int) -> frozenset[int]:
        """The states that are reached without a character."""
        seen: set[int] = set()
        waiting = list(starts)
        while waiting:
            i = waiting.pop()
            if i in seen:
                continue
            seen.add(i)
            waiting += self._successors(i, text, at)
        return frozenset(i for i in seen if self.steps[i].kind in (_CHAR, _MATCH))

    def _successors(self, i: int, text: str, at: int) -> tuple[int, ...]:
        kind, test, first, second = self.steps[i]
        if kind == _SPLIT:
            return first, second
        if kind == _JUMP:
            return (first,)
        if kind == _SAVE or (kind == _ASSERT and test(text, at)):
            return (i + 1,)
        return ()

    def sub(self, rewrite: str, text: str, count: int = 0) -> str:
        r"""Replace matches; \1 in `rewrite` is the first group, \0 the whole match.

        As in RE2, an empty match directly behind another one is left out."""
        parts: list[str] = []
        at = done = 0
        for spans in self._matches(text):
            parts += (text[at : spans[0]], *_expand(rewrite, text, spans))
            at, done = spans[1], done + 1
            if done == count:
                break
        return "".join([*parts, text[at:]])

    def _matches(self, text: str) -> Iterator[tuple[int, ...]]:
        """The groups of matches that do not overlap."""
        start, last = 0, -1
        while start <= len(text):
            spans = self._search(text, start)
            if spans is None:
                return
            if spans[1] == spans[0] == last:  # empty, directly behind a match
                start = spans[1] + 1
                continue
            yield spans
            last = spans[1]
            start = spans[1] if spans[1] > spans[0] else spans[1] + 1

    def _search(self, text: str, start: int) -> tuple[int, ...] | None:
        """The leftmost match from `start` on, by priority."""
        best: tuple[int, ...] | None = None
        empty = (-1,) * (2 * self.groups)
        threads: list[tuple[int, tuple[int, ...]]] = []
        for at in range(start, len(text) + 1):
            found = [*threads, (0, empty)] if best is None else threads
            ready = self._advance(found, text, at)
            threads = []
            for i, spans in ready:
                if self.steps[i].kind == _MATCH:
                    best = spans
                    break  # later threads have lower priority
                if at < len(text) and self.steps[i].test(text[at]):
                    threads.append((i + 1, spans))
            if not threads and best is not None:
                return best
        return best

    def _advance(
        self, threads: list[tuple[int, tuple[int, ...]]], text: str, at: int
    ) -> list[tuple[int, tuple[int, ...]]]:
        """Threads at a character or a match, in order of priority."""
        seen: set[int] = set()
        ready = []
        waiting = threads[::-1]
        while waiting:
            i, spans = waiting.pop()
            if i in seen:
                continue
            seen.add(i)
            step = self.steps[i]
            if step.kind in (_CHAR, _MATCH):
                ready.append((i, spans))
            if step.kind == _SAVE:
                spans = (*spans[: step.first], at, *spans[step.first + 1 :])
            after = self._successors(i, text, at)
            waiting += [(j, spans) for j in reversed(after)]
        return ready


def _expand(rewrite: str, text: str, spans: Sequence[int]) -> Iterator[str]:
    for part in re.findall(r"\\.|[^\\]+|\\", rewrite, re.DOTALL):
        if part[0] != "\\":
            yield part
        elif part[1:].isdecimal() and 2 * int(part[1:]) + 1 < len(spans):
            begin, end = spans[2 * int(part[1:]) :][:2]
            yield text[begin:end] if begin >= 0 <= end else ""
        elif part == r"\\":
            yield "\\"
        else:
            raise UsageError("the replacement is not supported by RE2", got=rewrite)


# -- tests of characters and places ------------------------------------------------

_CATEGORIES: Final[dict[str, Callable[[str], bool]]] = {
    "DIGIT": lambda char: char.isascii() and char.isdecimal(),
    "SPACE": lambda char: char in "\t\n\v\f\r ",
    "WORD": lambda char: char.isascii() and (char.isalnum() or char == "_"),
}


def _character_test(kind: str, value: Any, flags: int) -> Callable[[str], bool]:
    if kind == "ANY":
        return (lambda _: True) if flags & re.DOTALL else (lambda char: char != "\n")
    items = [("LITERAL", value)] if kind != "IN" else [(str(k), v) for k, v in value]
    negated = kind == "NOT_LITERAL" or ("NEGATE", None) in items
    parts = [_item_test(k, v) for k, v in items if k != "NEGATE"]

    def test(char: str) -> bool:
        forms = {char, char.lower(), char.upper()} if flags & re.IGNORECASE else (char,)
        return any(part(form) for form in forms for part in parts) != negated

    return test


def _item_test(kind: str, value: Any) -> Callable[[str], bool]:
    if kind == "LITERAL":
        return lambda char: char == chr(value)
    if kind == "RANGE":
        low, high = value
        return lambda char: low <= ord(char) <= high
    name = str(value).removeprefix("CATEGORY_")
    belongs = _CATEGORIES[name.removeprefix("NOT_")]
    if name.startswith("NOT_"):
        return lambda char: not belongs(char)
    return belongs


def _place_test(kind: str, flags: int) -> Callable[[str, int], bool]:
    many = bool(flags & re.MULTILINE)
    is_word = _CATEGORIES["WORD"]

    def at_boundary(text: str, at: int) -> bool:
        before = at > 0 and is_word(text[at - 1])
        return before != (at < len(text) and is_word(text[at]))

    tests: dict[str, Callable[[str, int], bool]] = {
        "AT_BEGINNING": lambda t, i: i == 0 or (many and t[i - 1] == "\n"),
        "AT_BEGINNING_STRING": lambda _, i: i == 0,
        "AT_END": lambda t, i: t[i:] in ("", "\n") or (many and t[i] == "\n"),
        "AT_END_STRING": lambda t, i: i == len(t),
        "AT_BOUNDARY": at_boundary,
        "AT_NON_BOUNDARY": lambda t, i: not at_boundary(t, i),
    }
    return tests[kind]
