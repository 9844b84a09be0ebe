"""Rules compiled to closures, for one direction and two sides.

A `CompiledRule` matches the structure of an op (`match`), evaluates lenses, guards and
constants (`steps`) and builds the ops of the other side (`build`). In between, values
are stored in slots, one for each variable and each computed value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from amanda.errors import AmandaError, Undecided
from amanda.graph import Graph, Op, OutputPort
from amanda.mapping.lenses.lens import equivalent_values
from amanda.mapping.rules.terms import (
    ANYTHING,
    AllOf,
    AnyOf,
    Comparison,
    ConstantTerm,
    Guard,
    Negation,
    Question,
    Var,
)
from amanda.mapping.side import Decline, Side, answer_question

if TYPE_CHECKING:
    from amanda.mapping.engine.neighbors import RequiredNeighbor

__all__ = [
    "AnswerQuestion",
    "BindPart",
    "Fetch",
    "InactiveRule",
    "EmitContext",
    "Slots",
    "RuleStep",
    "MatchOp",
    "CompiledRule",
    "RuleMatch",
    "decide_match",
    "describe_value",
    "compile_fetch",
    "compile_guard",
]

Slots: TypeAlias = "list[Any]"
MatchOp: TypeAlias = "Callable[[Op, Slots, list[Op]], str | None]"
"""Fills the slots from an op; returns the reason for a mismatch, or None."""
BindPart: TypeAlias = "Callable[[Any, Slots, list[Op]], str | None]"
AnswerQuestion: TypeAlias = Callable[[OutputPort, str], Any]
"""Answers a question about a value of the source graph, or raises Undecided."""
RuleStep: TypeAlias = "Callable[[Slots, AnswerQuestion], None]"
"""Raises Decline where it does not hold, Undecided where that is not known yet."""
Fetch: TypeAlias = "Callable[[Slots, AnswerQuestion], Any]"
_Result = TypeVar("_Result")


class InactiveRule(Exception):
    """A rule does not apply between two versions; the message is the reason."""


class EmitContext(Protocol):
    """What `build` needs of a conversion: values of the target graph, and its side."""

    target: Side
    made: dict[OutputPort, OutputPort]

    @property
    def build(self) -> Callable[..., Sequence[OutputPort]]:
        """`target.build`."""

    def value(self, value: Any) -> Any:
        """What a value or body of the source was mapped to; anything else as it is."""


@dataclass(slots=True, eq=False)
class CompiledRule:
    """A compiled rule.

    `build` is called with the conversion, the graph to build in, the slots, the matched
    op and a name for the result.
    """

    id: str
    text: str
    size: int
    width: int
    match: MatchOp
    steps: tuple[RuleStep, ...]
    build: Callable[
        [EmitContext, Graph, Slots, Op, str | None], Sequence[OutputPort | None]
    ]
    needs: tuple[RequiredNeighbor, ...] = ()
    """The ops that a pattern requires around its root."""
    is_line: bool = True
    """Whether each of them has at most one neighbor in turn."""
    loss: str | None = None
    is_function: bool = False
    edges: int = 0
    """The control edges inside a pattern."""
    orders: int | None = None
    """The slot of the input orders, if any op of the pattern is commutative."""

    def find(self, op: Op, after: RuleMatch | None = None) -> RuleMatch | str:
        """The first match with an op, or the next one after a match, since commutative
        ops may match in several input orders. Where there is none, the reason."""
        slots: Slots = [None] * self.width
        if after is not None:
            at = self.orders
            following = None if at is None else after.slots[at].next()
            if at is None or following is None:
                return "no other order of inputs matches"
            slots[at] = following
        ops: list[Op] = []
        why = self.match(op, slots, ops)
        return RuleMatch(self, slots, ops) if why is None else why

    def first_of(self, op: Op, use: Callable[[RuleMatch], _Result]) -> _Result:
        """What a function returns for the first match that it does not decline.

        Otherwise raises what it raised for the first match, or Decline."""
        first: AmandaError | None = None
        match = self.find(op)
        while not isinstance(match, str):
            try:
                return use(match)
            except AmandaError as why:
                first = first or why
            match = self.find(op, match)
        raise first or Decline(match)


class RuleMatch:
    """A rule that matches by structure, with its slots.

    `step` counts the steps that passed; `why` is the reason that the next is undecided.
    """

    __slots__ = ("ops", "rule", "slots", "step", "why")

    def __init__(self, rule: CompiledRule, slots: Slots, ops: list[Op]) -> None:
        self.rule = rule
        self.slots = slots
        self.ops = ops
        self.step = 0
        self.why = ""

    @property
    def is_decided(self) -> bool:
        return self.step == len(self.rule.steps)


def decide_match(match: RuleMatch, ask: AnswerQuestion) -> bool:
    """Run the steps of a rule; False where one is undecided. Raises Decline."""
    steps, slots, at = match.rule.steps, match.slots, match.step
    try:
        while at < len(steps):
            steps[at](slots, ask)
            at += 1
    except Undecided as why:
        match.why = why.message
        return False
    finally:
        match.step = at
    return True


def describe_value(value: Any) -> str:
    """A value as shown in messages."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


# -- values read by steps -------------------------------------------------------------


def compile_fetch(part: Question | Var | ConstantTerm, slots: dict[str, int]) -> Fetch:
    """A function that reads a constant, a variable, or the answer to a question."""
    if isinstance(part, ConstantTerm):
        value = part.value
        return lambda _slots, _ask: value
    if isinstance(part, Var):
        at = slots[part.name]
        return lambda slots, ask: plain_value(slots[at], ask)
    at, what, name = slots[part.var.name], part.what, part.var.name
    if what == "given":
        return lambda slots, _ask: slots[at] is not None
    if what == "length":
        return lambda slots, ask: _length_of(slots[at], ask)
    return lambda slots, ask: _answer_question(slots[at], what, name, ask)


def plain_value(value: Any, ask: AnswerQuestion) -> Any:
    """The content of a value of the graph; Undecided where it is not constant."""
    return ask(value, "content") if isinstance(value, OutputPort) else value


def _length_of(value: Any, ask: AnswerQuestion) -> int:
    value = plain_value(value, ask)
    return len(value) if isinstance(value, list | tuple | str) else 0


def _answer_question(value: Any, what: str, name: str, ask: AnswerQuestion) -> Any:
    if isinstance(value, OutputPort):
        return ask(value, what)
    if value is None:
        raise Decline(f"{name} is absent")
    if what == "content":
        return value
    if what == "is_constant":
        return True
    if what == "rank" and isinstance(value, int | float | list | tuple):
        return _nesting_depth(value)
    raise Undecided(f"{name} is not a value of the graph")


def _nesting_depth(value: Any) -> int:
    depth = 0
    while isinstance(value, list | tuple):
        depth += 1
        value = value[0] if value else None
    return depth


# -- guards -------------------------------------------------------------------------

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": lambda a, b: _is_equal(a, b),
    "!=": lambda a, b: not _is_equal(a, b),
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "in": lambda a, b: any(_is_equal(a, item) for item in b),
    "not in": lambda a, b: not any(_is_equal(a, item) for item in b),
}


def _is_equal(a: Any, b: Any) -> bool:
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(
            _is_equal(x, y) for x, y in zip(a, b, strict=True)
        )
    if isinstance(a, int | float | str | list | tuple | None):
        return (
            equivalent_values(a, b)
            if isinstance(b, int | float | str | None)
            else bool(a == b)
        )
    return bool(a == b)  # dims: true, false, or Undecided


def compile_guard(guard: Guard, slots: dict[str, int]) -> RuleStep:
    """A step that declines where the guard does not hold."""
    holds = _condition(guard, slots)
    why = f"not {guard}"

    def step(slots: Slots, ask: AnswerQuestion) -> None:
        if not holds(slots, ask):
            raise Decline(why)

    return step


def _condition(
    guard: Guard, slots: dict[str, int]
) -> Callable[[Slots, AnswerQuestion], bool]:
    match guard:
        case Comparison():
            return _comparison(guard, slots)
        case Negation(inner=inner):
            holds = _condition(inner, slots)
            return lambda slots, ask: not holds(slots, ask)
        case AllOf(parts=parts):
            return _combine_conditions(
                [_condition(p, slots) for p in parts], until=False
            )
        case AnyOf(parts=parts):
            return _combine_conditions(
                [_condition(p, slots) for p in parts], until=True
            )
        case Question() | Var() | ConstantTerm():
            fetch = compile_fetch(guard, slots)
            return lambda slots, ask: bool(fetch(slots, ask))


def _comparison(
    guard: Comparison, slots: dict[str, int]
) -> Callable[[Slots, AnswerQuestion], bool]:
    left, right = compile_fetch(guard.left, slots), compile_fetch(guard.right, slots)
    compare, text = _COMPARE[guard.sign], str(guard)

    def holds(slots: Slots, ask: AnswerQuestion) -> bool:
        a, b = left(slots, ask), right(slots, ask)
        try:
            return bool(compare(a, b))
        except TypeError:
            both = f"{describe_value(a)} and {describe_value(b)}"
            raise Decline(f"{text}: {both} cannot be compared") from None

    return holds


def _combine_conditions(
    parts: list[Callable[[Slots, AnswerQuestion], bool]], *, until: bool
) -> Callable[[Slots, AnswerQuestion], bool]:
    """`and` (until=False) or `or`; a deciding part outweighs undecided ones."""

    def holds(slots: Slots, ask: AnswerQuestion) -> bool:
        still_open: Undecided | None = None
        for part in parts:
            try:
                if part(slots, ask) is until:
                    return until
            except Undecided as error:
                still_open = error
        if still_open is not None:
            raise still_open
        return not until

    return holds


def is_variable(part: object) -> bool:
    """Whether it is a variable with a value, not `_`."""
    return isinstance(part, Var) and part.name != ANYTHING


def source_question(value: OutputPort, what: str) -> Any:
    """The answer to a question from the source graph alone."""
    return answer_question(value, what)
