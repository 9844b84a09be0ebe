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
from amanda.mapping.rules.deferred_rule import DeferredRule, scan_rules
from amanda.mapping.rules.functions import FunctionRule
from amanda.mapping.rules.parser import parse_head, parse_rules
from amanda.mapping.rules.rule_order import check_order, sort_rules
from amanda.mapping.rules.terms import Equation, OpTerm
from amanda.mapping.side import QUESTIONS

__all__ = ["AnyRule", "RuleSet"]

AnyRule: TypeAlias = Equation | FunctionRule
_Call = TypeVar("_Call", bound=Callable[..., Any])


_PARTS = ("_rows", "functions", "lenses", "callables", "hints")


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
        self._rows: list[Equation | DeferredRule] = []
        self.functions: list[FunctionRule] = []
        self.lenses: dict[str, Lens] = dict(LENSES)
        self.callables: dict[str, Callable[..., Any]] = {}
        """Functions that rule files can refer to by name."""
        self.hints: dict[bool, frozenset[str]] = {True: frozenset(), False: frozenset()}
        """Attributes without need of a rule: of the left side (True) and the right."""
        self.preferred: frozenset[str] = frozenset()
        """Names of files whose rules are tried before all others."""
        self._heads: dict[bool, dict[str, list[AnyRule | DeferredRule]]] = {}
        self._index: dict[tuple[str, bool], list[AnyRule]] = {}

    def copy(self) -> RuleSet:
        """An independent copy."""
        made = copy(self)
        for name in _PARTS:
            setattr(made, name, copy(getattr(self, name)))
        made._heads, made._index = {}, {}
        return made

    # -- rules -----------------------------------------------------------------

    @property
    def rows(self) -> list[Equation]:
        """The equations, in the order in which they were added."""
        rows = [_equation_of(row) for row in self._rows]
        if any(isinstance(row, DeferredRule) for row in self._rows):
            check_order(rows)
            self._rows = [*rows]
        return rows

    @rows.setter
    def rows(self, rows: Iterable[Equation]) -> None:
        self._rows = [*rows]
        self._forget_order()

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

    def defer(self, text: str, file: str) -> None:
        """Add the rules of a text that are each parsed when an op of its type is met.

        For the files of installed plug-ins, whose tests parse them all: a faulty rule
        is an error only where it is used, or where `rows` are read.
        """
        self._rows += scan_rules(text, self.lenses, file)
        self._forget_order()

    def _forget_order(self) -> None:
        self._heads.clear()
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
            self._forget_order()

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
        self._forget_order()

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
        found = self._index.get((type, forward))
        if found is None:
            found = self._index[type, forward] = self._sort(type, forward)
        return found

    def types(self, *, forward: bool) -> Iterable[str]:
        """The op types that have rules."""
        if forward not in self._heads:
            self._heads[forward] = self._group(forward)
        return self._heads[forward]

    def _group(self, forward: bool) -> dict[str, list[AnyRule | DeferredRule]]:
        """The rules of each type, functions last."""
        found: dict[str, list[AnyRule | DeferredRule]] = {}
        for row in self._rows:
            if row.runs(forward):
                found.setdefault(row.head(forward), []).append(row)
        for function in self.functions:
            if function.forward is forward:
                found.setdefault(function.term.type, []).append(function)
        return found

    def _sort(self, type: str, forward: bool) -> list[AnyRule]:
        if type not in self.types(forward=forward):
            return []
        every = self._heads[forward][type]
        functions = [rule for rule in every if isinstance(rule, FunctionRule)]
        rows = [_equation_of(r) for r in every if not isinstance(r, FunctionRule)]
        found = sort_rules(rows, forward=forward)
        if self.preferred:
            found.sort(key=lambda row: row.spot.file not in self.preferred)
        return [*found, *functions]


def _equation_of(rule: Equation | DeferredRule) -> Equation:
    return rule.equation() if isinstance(rule, DeferredRule) else rule
