"""Rules as data: the parts of a rule, independent of namespaces.

    Conv(x, w, pads=p, group=1)  <=>  conv(x, w, padding=pairs(p))  if rank(x) == 4
    `-- OpTerm: Vars, an attribute        `-- LensTerm          `-- Guard

Each part has its location in the text, for error messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

__all__ = [
    "ANYTHING",
    "Question",
    "AllOf",
    "Comparison",
    "ConstantTerm",
    "AnyOf",
    "Guard",
    "LensTerm",
    "ListOf",
    "Negation",
    "TermPart",
    "Equation",
    "SourceLocation",
    "OpTerm",
    "Var",
    "questioned_variables",
    "subterms",
    "variables",
    "format_value",
]

ANYTHING = "_"


class SourceLocation(NamedTuple):
    """A location in a rule text."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Var:
    """A variable: `rest` if variadic (`*xs`), `optional` if an input that may be absent
    (`x?`)."""

    name: str
    spot: SourceLocation
    rest: bool = False
    optional: bool = False

    def __str__(self) -> str:
        return f"*{self.name}" if self.rest else self.name + "?" * self.optional


@dataclass(frozen=True, slots=True)
class ConstantTerm:
    """A number, a string, none, true, false, or a list of these."""

    value: Any
    spot: SourceLocation

    def __str__(self) -> str:
        return format_value(self.value)


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list with variables among its items: `[1, *s, 1]`."""

    items: tuple[TermPart, ...]
    spot: SourceLocation

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.items))}]"


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a variable: `rank(x)`."""

    what: str
    var: Var

    def __str__(self) -> str:
        return f"{self.what}({self.var})"


@dataclass(frozen=True, slots=True)
class LensTerm:
    """A value computed by a lens, undone where this side is matched."""

    lens: str
    inner: TermPart
    context: tuple[Question | Var | ConstantTerm, ...]
    spot: SourceLocation

    def __str__(self) -> str:
        return f"{self.lens}({', '.join(map(str, (self.inner, *self.context)))})"


@dataclass(frozen=True, slots=True)
class OpTerm:
    """An op: inputs by position, attributes by name, and the versions it applies to.

    `output` is the index of the output that is used, where the term is an input itself.
    """

    type: str
    low: int | None
    high: int | None
    args: tuple[TermPart, ...]
    attrs: Mapping[str, TermPart]
    spot: SourceLocation
    output: int = 0
    waits: tuple[OpTerm, ...] = ()
    """Control inputs: `^Assert(c)`."""

    @property
    def parts(self) -> tuple[TermPart, ...]:
        """All parts between its parentheses."""
        return (*self.args, *self.attrs.values(), *self.waits)

    @property
    def size(self) -> int:
        """The number of ops."""
        return 1 + sum(a.size for a in self.parts if isinstance(a, OpTerm))

    @property
    def edges(self) -> int:
        """The number of control edges."""
        inner = sum(a.edges for a in self.parts if isinstance(a, OpTerm))
        return len(self.waits) + inner

    @property
    def constants(self) -> int:
        """The number of constraints besides structure."""
        parts = self.parts
        here = sum(isinstance(part, ConstantTerm | ListOf) for part in parts)
        return here + sum(p.constants for p in parts if isinstance(p, OpTerm))

    def serves(self, since: int) -> bool:
        """Whether the rule applies to this version of a definition."""
        return (self.low is None or since >= self.low) and (
            self.high is None or since <= self.high
        )

    @property
    def versions(self) -> str:
        if self.low is None and self.high is None:
            return ""
        low, high = ("" if v is None else v for v in (self.low, self.high))
        return f"[{low}:{high}]"

    def __str__(self) -> str:
        attrs = [f"{key}={value}" for key, value in self.attrs.items()]
        waits = [f"^{term}" for term in self.waits]
        inside = ", ".join([*map(str, self.args), *attrs, *waits])
        pick = f"[{self.output}]" if self.output else ""
        return f"{self.type}{self.versions}({inside}){pick}"


TermPart: TypeAlias = Var | ConstantTerm | ListOf | LensTerm | OpTerm


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of two operands."""

    sign: str
    left: Question | Var | ConstantTerm
    right: Question | Var | ConstantTerm

    def __str__(self) -> str:
        return f"{self.left} {self.sign} {self.right}"


@dataclass(frozen=True, slots=True)
class Negation:
    inner: Guard

    def __str__(self) -> str:
        return f"not {self.inner}"


@dataclass(frozen=True, slots=True)
class AllOf:
    parts: tuple[Guard, ...]

    def __str__(self) -> str:
        return " and ".join(map(str, self.parts))


@dataclass(frozen=True, slots=True)
class AnyOf:
    parts: tuple[Guard, ...]

    def __str__(self) -> str:
        return f"({' or '.join(map(str, self.parts))})"


Guard: TypeAlias = Comparison | Negation | AllOf | AnyOf | Question | Var | ConstantTerm


@dataclass(frozen=True, slots=True)
class Equation:
    """One rule: two terms and the arrow between them."""

    left: OpTerm
    right: OpTerm
    arrow: str
    guard: Guard | None
    loss: str | None
    text: str
    spot: SourceLocation
    tags: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    """Tags of rules that are tried before this one."""

    @property
    def full_text(self) -> str:
        """The complete text of the rule."""
        loss = "" if self.loss is None else f"  losing {format_value(self.loss)}"
        after = f"  after {', '.join(self.after)}" if self.after else ""
        return self.text + loss + after + "".join(f"  @{tag}" for tag in self.tags)

    @property
    def id(self) -> str:
        """Its name in reports: file and line."""
        return f"{self.spot.file}:{self.spot.line}"

    def runs(self, forward: bool) -> bool:
        return self.arrow in (("<=>", "=>") if forward else ("<=>", "<="))

    def head(self, forward: bool) -> str:
        """The type of the op that the rule is for."""
        return self.sides(forward)[0].type

    def sides(self, forward: bool) -> tuple[OpTerm, OpTerm]:
        """The side to be matched, and the side to be built."""
        return (self.left, self.right) if forward else (self.right, self.left)


def _escape_letter(letter: str) -> str:
    known = {"\\": "\\\\", "\n": "\\n", "\t": "\\t"}
    if letter in known or letter.isprintable():
        return known.get(letter, letter)
    return (
        f"\\x{ord(letter):02x}"
        if ord(letter) < 256
        else (
            f"\\u{ord(letter):04x}" if ord(letter) < 65536 else f"\\U{ord(letter):08x}"
        )
    )


def format_value(value: Any) -> str:
    """A constant in the notation of rules.

    >>> print(format_value(["it's", None, -2.5]))
    ["it's", None, -2.5]
    """
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(format_value, value))}]"
    if not isinstance(value, str):
        return repr(value)
    quote = '"' if "'" in value and '"' not in value else "'"
    inside = "".join(map(_escape_letter, value)).replace(quote, f"\\{quote}")
    return quote + inside + quote


def variables(part: TermPart | Guard | Question | None) -> Iterator[Var]:
    """All variables of a part, without those in contexts and questions."""
    match part:
        case Var():
            if part.name != ANYTHING:
                yield part
        case LensTerm():
            yield from variables(part.inner)
        case ListOf(items=parts):
            for item in parts:
                yield from variables(item)
        case OpTerm():
            for item in part.parts:
                yield from variables(item)


def subterms(part: TermPart) -> Iterator[TermPart]:
    """A part and all parts inside it."""
    yield part
    match part:
        case LensTerm(inner=inner):
            yield from subterms(inner)
        case ListOf(items=items):
            for item in items:
                yield from subterms(item)
        case OpTerm():
            for item in part.parts:
                yield from subterms(item)


def questioned_variables(part: TermPart | Guard | None) -> Iterator[Var]:
    """All variables in contexts, guards and questions, which are only read."""
    match part:
        case Question(var=var):
            yield var
        case LensTerm():
            for read in part.context:
                yield from (
                    (read,) if isinstance(read, Var) else questioned_variables(read)
                )
            yield from questioned_variables(part.inner)
        case ListOf(items=parts):
            for item in parts:
                yield from questioned_variables(item)
        case OpTerm():
            for item in part.parts:
                yield from questioned_variables(item)
        case Comparison():
            for operand in (part.left, part.right):
                yield from (
                    (operand,)
                    if isinstance(operand, Var)
                    else questioned_variables(operand)
                )
        case Negation(inner=inner):
            yield from (
                (inner,) if isinstance(inner, Var) else questioned_variables(inner)
            )
        case AllOf(parts=guards) | AnyOf(parts=guards):
            for guard in guards:
                yield from (
                    (guard,) if isinstance(guard, Var) else questioned_variables(guard)
                )
