"""Sets of rules between two frameworks, for all their versions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from amanda.dictionary import parse_name
from amanda.errors import UsageError
from amanda.mapping.lenses.builtin import LENSES
from amanda.mapping.lenses.lens import Draw, Lens, equivalent_values, make_table
from amanda.mapping.rules.functions import FunctionRule
from amanda.mapping.rules.parser import parse_head, parse_rules
from amanda.mapping.rules.rule_order import check_order, sort_rules
from amanda.mapping.rules.terms import Equation, OpTerm
from amanda.mapping.side import QUESTIONS

__all__ = ["AnyRule", "RuleSet"]

AnyRule: TypeAlias = Equation | FunctionRule
_Call = TypeVar("_Call", bound=Callable[..., Any])


_PARTS = ("rows", "functions", "lenses", "callables", "hints")


class RuleSet:
    """Equations, functions and lenses between a left and a right framework.

    >>> rules = RuleSet("toys", "acme/a", "acme/b")
    >>> rules.equations("Relu(x) <=> relu(x)")
    >>> [row.text for row in rules.rows]
    ['Relu(x)  <=>  relu(x)']
    """

    def __init__(self, name: str, left: str, right: str) -> None:
        self.name = name
        self.left = parse_name(left).path
        self.right = parse_name(right).path
        self.rows: list[Equation] = []
        self.functions: list[FunctionRule] = []
        self.lenses: dict[str, Lens] = dict(LENSES)
        self.callables: dict[str, Callable[..., Any]] = {}
        """Functions that rule files can refer to by name."""
        self.hints: dict[bool, frozenset[str]] = {True: frozenset(), False: frozenset()}
        """Attributes without need of a rule: of the left side (True) and the right."""
        self.preferred: frozenset[str] = frozenset()
        """Names of files whose rules are tried before all others."""
        self._index: dict[bool, dict[str, list[AnyRule]]] = {}

    def copy(self) -> RuleSet:
        """An independent copy."""
        made = copy(self)
        for name in _PARTS:
            setattr(made, name, copy(getattr(self, name)))
        made._index = {}
        return made

    # -- rules -----------------------------------------------------------------

    def equations(
        self,
        text: str,
        file: str | None = None,
        line: int = 1,
        *,
        tags: Iterable[str] = (),
        after: Iterable[str] = (),
    ) -> None:
        """Add the rules of a text; none of them if one is faulty.

        `tags` and `after` apply to all of them.
        """
        rows = parse_rules(text, self.lenses, file or self.name, line)
        self.add(rows, tags=tags, after=after)

    def add(
        self,
        rows: Iterable[Equation],
        *,
        tags: Iterable[str] = (),
        after: Iterable[str] = (),
    ) -> None:
        """Add parsed rules; none of them if one waits for an unknown tag."""
        more, firsts = tuple(tags), tuple(after)
        if more or firsts:
            rows = [
                replace(
                    row,
                    tags=tuple(dict.fromkeys((*row.tags, *more))),
                    after=tuple(dict.fromkeys((*row.after, *firsts))),
                )
                for row in rows
            ]
        found = [*self.rows, *rows]
        check_order(found)
        self.rows = found
        self._index.clear()

    def hint(self, *, left: Iterable[str] = (), right: Iterable[str] = ()) -> None:
        """Declare attributes that do not affect results; `cudnn_*` is a prefix."""
        self.hints[True] |= frozenset(left)
        self.hints[False] |= frozenset(right)

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """A context that removes what was added in it if it ends with an error."""
        before = {name: copy(getattr(self, name)) for name in _PARTS}
        try:
            yield
        except BaseException:
            for name, value in before.items():
                setattr(self, name, value)
            raise
        finally:
            self._index.clear()

    def read(self, *heads: str) -> Callable[[_Call], _Call]:
        """Declare a function from left to right, for `Type` or `Type[from:to]`."""
        return self._declare(heads, forward=True)

    def write(self, *heads: str) -> Callable[[_Call], _Call]:
        """Declare a function from right to left, for `type` or `type[from:to]`."""
        return self._declare(heads, forward=False)

    def _declare(
        self, heads: Iterable[str], *, forward: bool
    ) -> Callable[[_Call], _Call]:
        terms = [self._parse_head(head) for head in heads]

        def declare(call: _Call) -> _Call:
            for term in terms:
                self.attach(call, term, forward=forward)
            return call

        return declare

    def _parse_head(self, head: str) -> OpTerm:
        return parse_head(head, self.name)

    def attach(self, call: Callable[..., Any], term: OpTerm, *, forward: bool) -> None:
        """Add a function for the ops of a term without arguments."""
        name = call.__name__
        while self.callables.setdefault(name, call) is not call:
            name += "_"
        self.functions.append(FunctionRule(call, term, forward, self.name, name))
        self._index.clear()

    def function(self, call: _Call) -> _Call:
        """Declare a function that rule files can refer to by name."""
        if not isinstance(getattr(call, "__name__", None), str):
            raise UsageError("only a function with a name can be declared", got=call)
        self._expect_new(call.__name__, self.callables, "function")
        self.callables[call.__name__] = call
        return call

    # -- lenses ----------------------------------------------------------------

    def lens(
        self,
        name: str,
        do: Callable[..., Any],
        undo: Callable[..., Any],
        draw: Draw,
        doc: str,
        **more: Any,
    ) -> Lens:
        """Add a lens; it may replace one of the core."""
        return self.add_lens(Lens(name, do, undo, draw, doc, **more))

    def table(
        self,
        name: str,
        rows: Mapping[Any, Any] | Iterable[tuple[Any, Any]],
        doc: str = "",
    ) -> Lens:
        """Add a lens that is a table: left the variables, right what is written."""
        made = make_table(name, rows, doc)
        there = self.lenses.get(name)
        if (
            there is not None
            and there.rows is not None
            and equivalent_values(there.rows, made.rows)
        ):
            return there
        return self.add_lens(made)

    def add_lens(self, lens: Lens) -> Lens:
        """Add a lens; it may replace one of the core, but none of this set."""
        if not lens.name.isidentifier() or lens.name in QUESTIONS:
            raise UsageError(
                f"{lens.name!r} is not a valid name of a lens", who=self.name
            )
        if self.lenses.get(lens.name) is not LENSES.get(lens.name):
            self._expect_new(lens.name, self.lenses, "lens")
        self.lenses[lens.name] = lens
        return lens

    def _expect_new(self, name: str, known: Mapping[str, object], what: str) -> None:
        if name in known:
            raise UsageError(f"there is a {what} {name!r} already", who=self.name)

    # -- files and lookups -----------------------------------------------------

    def load(self, path: str | Path) -> None:
        """Add the rules of a file: plain text, YAML with a header, or protobuf."""
        from amanda.mapping.rules.rule_file import load

        load(self, Path(path))

    def rule(self, id: str) -> AnyRule | None:
        """The rule with this id in reports."""
        every: Iterable[AnyRule] = (*self.rows, *self.functions)
        return next((rule for rule in every if rule.id == id), None)

    def of_type(self, type: str, *, forward: bool) -> list[AnyRule]:
        """The rules for ops of a type, the most specific first."""
        if forward not in self._index:
            self._index[forward] = self._build_index(forward)
        return self._index[forward].get(type, [])

    def types(self, *, forward: bool) -> Iterable[str]:
        """The op types that have rules."""
        self.of_type("", forward=forward)
        return self._index[forward]

    def _build_index(self, forward: bool) -> dict[str, list[AnyRule]]:
        index: dict[str, list[AnyRule]] = {}
        rows_of: dict[str, list[Equation]] = {}
        for row in self.rows:
            if row.runs(forward):
                rows_of.setdefault(row.sides(forward)[0].type, []).append(row)
        for type, rows in rows_of.items():
            found = sort_rules(rows, forward=forward)
            if self.preferred:
                found.sort(key=lambda row: row.spot.file not in self.preferred)
            index[type] = list(found)
        for function in self.functions:
            if function.forward is forward:
                index.setdefault(function.term.type, []).append(function)
        return index
