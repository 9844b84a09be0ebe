"""Rules as data: what the text of a rule says, before anybody knows the namespaces.

    Conv(x, w, pads=p, group=1)  <=>  conv(x, w, padding=pairs(p))  if rank(x) == 4
    `-- Term: Vars, an attribute          `-- Lensed            `-- Guard

Each part knows its place in the text, for errors that name it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

__all__ = [
    "ANYTHING",
    "Ask",
    "Both",
    "Compared",
    "Const",
    "Either",
    "Guard",
    "Lensed",
    "ListOf",
    "Not",
    "Part",
    "Row",
    "Spot",
    "Term",
    "Var",
    "asked",
    "inside",
    "variables",
    "written",
]

ANYTHING = "_"


class Spot(NamedTuple):
    """A place in a rule text."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Var:
    """A variable; `rest` stands for all that is left (`*xs`), `optional` for an input
    that may be absent (`x?`)."""

    name: str
    spot: Spot
    rest: bool = False
    optional: bool = False

    def __str__(self) -> str:
        return f"*{self.name}" if self.rest else self.name + "?" * self.optional


@dataclass(frozen=True, slots=True)
class Const:
    """A number, a text, none, true, false, or a list of these."""

    value: Any
    spot: Spot

    def __str__(self) -> str:
        return written(self.value)


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list some items of which are variables: `[1, *s, 1]`."""

    items: tuple[Part, ...]
    spot: Spot

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.items))}]"


@dataclass(frozen=True, slots=True)
class Ask:
    """A question about a variable: `rank(x)`."""

    what: str
    var: Var

    def __str__(self) -> str:
        return f"{self.what}({self.var})"


@dataclass(frozen=True, slots=True)
class Lensed:
    """A value computed from another, and undone where this side is matched."""

    lens: str
    inner: Part
    context: tuple[Ask | Var | Const, ...]
    spot: Spot

    def __str__(self) -> str:
        return f"{self.lens}({', '.join(map(str, (self.inner, *self.context)))})"


@dataclass(frozen=True, slots=True)
class Term:
    """An op: inputs by position, attributes by name, the versions that are meant.

    `output` says which value of the op is meant, where the term is an input itself.
    """

    type: str
    low: int | None
    high: int | None
    args: tuple[Part, ...]
    attrs: Mapping[str, Part]
    spot: Spot
    output: int = 0
    waits: tuple[Term, ...] = ()
    """The ops that it waits for, by control edges: `^Assert(c)`."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """All that stands between its parentheses."""
        return (*self.args, *self.attrs.values(), *self.waits)

    @property
    def size(self) -> int:
        """The number of ops."""
        return 1 + sum(a.size for a in self.parts if isinstance(a, Term))

    @property
    def edges(self) -> int:
        """The number of control edges."""
        inner = sum(a.edges for a in self.parts if isinstance(a, Term))
        return len(self.waits) + inner

    @property
    def constants(self) -> int:
        """How much it demands besides structure."""
        parts = self.parts
        here = sum(isinstance(part, Const | ListOf) for part in parts)
        return here + sum(p.constants for p in parts if isinstance(p, Term))

    def serves(self, since: int) -> bool:
        """Is the version of a definition among those meant?"""
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


Part: TypeAlias = Var | Const | ListOf | Lensed | Term


@dataclass(frozen=True, slots=True)
class Compared:
    """Two operands and how they compare."""

    sign: str
    left: Ask | Var | Const
    right: Ask | Var | Const

    def __str__(self) -> str:
        return f"{self.left} {self.sign} {self.right}"


@dataclass(frozen=True, slots=True)
class Not:
    inner: Guard

    def __str__(self) -> str:
        return f"not {self.inner}"


@dataclass(frozen=True, slots=True)
class Both:
    parts: tuple[Guard, ...]

    def __str__(self) -> str:
        return " and ".join(map(str, self.parts))


@dataclass(frozen=True, slots=True)
class Either:
    parts: tuple[Guard, ...]

    def __str__(self) -> str:
        return f"({' or '.join(map(str, self.parts))})"


Guard: TypeAlias = Compared | Not | Both | Either | Ask | Var | Const


@dataclass(frozen=True, slots=True)
class Row:
    """One rule: two terms and the arrow between them."""

    left: Term
    right: Term
    arrow: str
    guard: Guard | None
    loss: str | None
    text: str
    spot: Spot
    tags: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    """Tags of the rules that are tried before this one."""

    @property
    def whole(self) -> str:
        """The rule as it is written, with all that stands behind it."""
        loss = "" if self.loss is None else f"  losing {written(self.loss)}"
        after = f"  after {', '.join(self.after)}" if self.after else ""
        return self.text + loss + after + "".join(f"  @{tag}" for tag in self.tags)

    @property
    def id(self) -> str:
        """What reports call it: file and line."""
        return f"{self.spot.file}:{self.spot.line}"

    def runs(self, forward: bool) -> bool:
        return self.arrow in (("<=>", "=>") if forward else ("<=>", "<="))

    def sides(self, forward: bool) -> tuple[Term, Term]:
        """What is matched, and what is made of it."""
        return (self.left, self.right) if forward else (self.right, self.left)


def _escaped(letter: str) -> str:
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


def written(value: Any) -> str:
    """A constant as rules write it.

    >>> print(written(["it's", None, -2.5]))
    ["it's", None, -2.5]
    """
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(written, value))}]"
    if not isinstance(value, str):
        return repr(value)
    quote = '"' if "'" in value and '"' not in value else "'"
    inside = "".join(map(_escaped, value)).replace(quote, f"\\{quote}")
    return quote + inside + quote


def variables(part: Part | Guard | Ask | None) -> Iterator[Var]:
    """Every variable that a part names, context and questions left out."""
    match part:
        case Var():
            if part.name != ANYTHING:
                yield part
        case Lensed():
            yield from variables(part.inner)
        case ListOf(items=parts):
            for item in parts:
                yield from variables(item)
        case Term():
            for item in part.parts:
                yield from variables(item)


def inside(part: Part) -> Iterator[Part]:
    """A part and all that it is made of."""
    yield part
    match part:
        case Lensed(inner=inner):
            yield from inside(inner)
        case ListOf(items=items):
            for item in items:
                yield from inside(item)
        case Term():
            for item in part.parts:
                yield from inside(item)


def asked(part: Part | Guard | None) -> Iterator[Var]:
    """Every variable that is only read: in context, in guards, in questions."""
    match part:
        case Ask(var=var):
            yield var
        case Lensed():
            for read in part.context:
                yield from (read,) if isinstance(read, Var) else asked(read)
            yield from asked(part.inner)
        case ListOf(items=parts):
            for item in parts:
                yield from asked(item)
        case Term():
            for item in part.parts:
                yield from asked(item)
        case Compared():
            for operand in (part.left, part.right):
                yield from (operand,) if isinstance(operand, Var) else asked(operand)
        case Not(inner=inner):
            yield from (inner,) if isinstance(inner, Var) else asked(inner)
        case Both(parts=guards) | Either(parts=guards):
            for guard in guards:
                yield from (guard,) if isinstance(guard, Var) else asked(guard)
