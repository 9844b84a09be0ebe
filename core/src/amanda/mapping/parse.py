"""The parser of rules: recursive descent over tokens, with a limit on its depth.

    row     term ("<=>" | "=>" | "<=") term ["if" guard] ["losing" text]
    term    type ["[" [from] ":" [to] "]"] "(" [part {"," part}] ")" ["[" output "]"]
    part    [name "="] value | "*" name
    value   "_" | name | constant | "[" items "]" | term
            | lens "(" value {"," context} ")"
    context question "(" name ")" | name | constant
    guard   comparisons of contexts, joined by and, or, not and parentheses

Nothing is evaluated: a rule file is data, whoever wrote it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final

from amanda.errors import FormatError, LimitError
from amanda.mapping.side import QUESTIONS
from amanda.mapping.terms import (
    ANYTHING,
    Ask,
    Both,
    Compared,
    Const,
    Either,
    Guard,
    Lensed,
    ListOf,
    Not,
    Part,
    Row,
    Term,
    Var,
    asked,
    variables,
)
from amanda.mapping.tokens import Token, rows

__all__ = ["parse"]

MAX_DEPTH: Final = 32
MAX_OPS: Final = 64
_ARROWS: Final = ("<=>", "=>", "<=")
_SIGNS: Final = ("==", "!=", "<=", ">=", "<", ">")
_WORDS: Final[Mapping[str, Any]] = {
    "True": True, "true": True, "False": False, "false": False,
    "None": None, "none": None, "inf": float("inf"), "nan": float("nan"),
}  # fmt: skip
_KEPT: Final = frozenset({"if", "and", "or", "not", "in", "losing"})


def parse(
    text: str, lenses: Collection[str], file: str = "<rules>", line: int = 1
) -> list[Row]:
    """The rules of a text; FormatError with the place of every one that is faulty.

    >>> [row] = parse("Softmax[13:](x, axis=a) <=> softmax(x, axes=only(a))", ["only"])
    >>> row.left.type, str(row.right), row.arrow
    ('Softmax', 'softmax(x, axes=only(a))', '<=>')
    """
    found: list[Row] = []
    faults: list[FormatError] = []
    for tokens in rows(text, file, line):
        try:
            if isinstance(tokens, FormatError):
                raise tokens
            found.append(_Parser(tokens, lenses).row())
        except FormatError as error:
            faults.append(error)
    if len(faults) == 1:
        raise faults[0]
    if faults:
        raise FormatError(
            f"{len(faults)} rules of {file} are faulty",
            where=faults[0].where,
            problems=[_line(fault) for fault in faults],
        )
    return found


def _line(fault: FormatError) -> str:
    told = [f"expected {fault.expected}"] if fault.expected else []
    told += [f"got {fault.got}"] if fault.got else []
    return "; ".join([f"{fault.where}: {fault.message}", *told])


class _Parser:
    def __init__(self, tokens: list[Token], lenses: Collection[str]) -> None:
        self.tokens = tokens
        self.lenses = lenses
        self.at = 0
        self.depth = 0

    # -- tokens ----------------------------------------------------------------

    @property
    def next(self) -> Token:
        return self.tokens[self.at]

    def take(self) -> Token:
        token = self.tokens[self.at]
        self.at += token.kind != "end"
        return token

    def took(self, *texts: str) -> bool:
        """Take the next token if it is one of these signs or words."""
        token = self.next
        if token.kind in ("sign", "name") and token.text in texts:
            self.at += 1
            return True
        return False

    def expect(self, *texts: str) -> Token:
        token = self.next
        if not self.took(*texts):
            raise self.fault(token, " or ".join(texts))
        return token

    def fault(self, token: Token, expected: str, **parts: Any) -> FormatError:
        return FormatError(
            "a rule that cannot be read",
            where=token.spot,
            expected=expected,
            got=str(token),
            **parts,
        )

    def deeper(self, token: Token) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise LimitError(
                "a rule is nested too deep",
                where=token.spot,
                expected=f"at most {MAX_DEPTH} levels",
            )

    def plain_name(self, token: Token, what: str) -> str:
        if token.kind != "name" or "." in token.text or "::" in token.text:
            raise self.fault(token, what)
        if token.text in _KEPT or token.text in _WORDS:
            raise self.fault(token, f"{what}, which {token.text!r} cannot be")
        return token.text

    # -- rows ------------------------------------------------------------------

    def row(self) -> Row:
        first = self.next
        left = self.term()
        arrow = self.expect(*_ARROWS).text
        right = self.term()
        guard = self.guard() if self.took("if") else None
        loss = None
        if self.took("losing"):
            token = self.take()
            if token.kind != "text":
                raise self.fault(token, "a text that says what is lost")
            loss = token.value
        if self.next.kind != "end":
            raise self.fault(self.next, "if, losing, or the end of the rule")
        text = f"{left}  {arrow}  {right}" + ("" if guard is None else f"  if {guard}")
        row = Row(left, right, arrow, guard, loss, text, first.spot)
        _check(row)
        return row

    def term(self) -> Term:
        token = self.take()
        if token.kind != "name" or (
            token.text in _KEPT and self.next.text not in ("(", "[")
        ):  # an op may be called `if`
            raise self.fault(token, "an op")
        self.deeper(token)
        low, high = self.versions()
        self.expect("(")
        args: list[Part] = []
        attrs: dict[str, Part] = {}
        while not self.took(")"):
            if args or attrs:
                self.expect(",")
                if self.took(")"):
                    break
            self.part(args, attrs)
        self.depth -= 1
        return Term(
            token.text, low, high, tuple(args), attrs, token.spot, self.output()
        )

    def versions(self) -> tuple[int | None, int | None]:
        if not self.took("["):
            return None, None
        first = self.next
        low = None if self.next.text == ":" else self.whole("a version")
        high = low
        if self.took(":"):
            high = None if self.next.text == "]" else self.whole("a version")
        self.expect("]")
        if low is not None and high is not None and low > high:
            raise self.fault(first, "versions in order", hint="write [from:to]")
        return low, high

    def output(self) -> int:
        if not self.took("["):
            return 0
        index = self.whole("the number of an output")
        self.expect("]")
        return index

    def whole(self, what: str) -> int:
        token = self.take()
        if type(token.value) is not int or not 0 <= token.value < 1 << 31:
            raise self.fault(token, what)
        return token.value

    def part(self, args: list[Part], attrs: dict[str, Part]) -> None:
        token = self.next
        follows = self.tokens[min(self.at + 1, len(self.tokens) - 1)]
        if token.kind == "name" and follows.text == "=" and follows.kind == "sign":
            name = self.take().text
            if "::" in name or name in attrs:
                what = "another name" if name in attrs else "the name of an attribute"
                raise self.fault(token, what)
            self.take()
            attrs[name] = self.value(named=True)
            return
        if attrs:
            raise self.fault(token, "an attribute: inputs come before attributes")
        if args and isinstance(args[-1], Var) and args[-1].rest:
            raise self.fault(token, f"nothing after {args[-1]}, which takes the rest")
        args.append(self.starred() if self.next.text == "*" else self.value())

    def starred(self) -> Var:
        star = self.expect("*")
        return Var(self.plain_name(self.take(), "a variable"), star.spot, rest=True)

    # -- values ----------------------------------------------------------------

    def value(self, *, named: bool = False) -> Part:
        token = self.next
        if token.kind == "name" and token.text not in _WORDS:
            follows = self.tokens[min(self.at + 1, len(self.tokens) - 1)].text
            if token.text in self.lenses and follows == "(":
                return self.lensed()
            if follows in ("(", "["):
                if named:
                    raise self.no_lens(token)
                return self.term()
            self.take()
            return Var(self.plain_name(token, "a variable or a value"), token.spot)
        if token.text == "[" and token.kind == "sign":
            return self.items()
        return self.constant()

    def no_lens(self, token: Token) -> FormatError:
        near = get_close_matches(token.text, self.lenses, n=1)
        return FormatError(
            f"no lens is called {token.text!r}",
            where=token.spot,
            hint=f"did you mean {near[0]!r}?" if near else "register it first",
        )

    def lensed(self) -> Lensed:
        token = self.take()
        self.deeper(token)
        self.expect("(")
        inner = self.value(named=True)
        context: list[Ask | Var | Const] = []
        while self.took(","):
            context.append(self.operand())
        self.expect(")")
        self.depth -= 1
        return Lensed(token.text, inner, tuple(context), token.spot)

    def items(self) -> Part:
        """A list: a constant where nothing in it varies."""
        token = self.expect("[")
        self.deeper(token)
        items: list[Part] = []
        while not self.took("]"):
            if items:
                self.expect(",")
            starred = self.next.text == "*"
            items.append(self.starred() if starred else self.value(named=True))
        self.depth -= 1
        if all(isinstance(item, Const) for item in items):
            return Const([i.value for i in items if isinstance(i, Const)], token.spot)
        if sum(isinstance(item, Var) and item.rest for item in items) > 1:
            raise self.fault(token, "at most one variable with * in a list")
        return ListOf(tuple(items), token.spot)

    def constant(self) -> Const:
        token = self.take()
        if token.kind in ("number", "text"):
            return Const(token.value, token.spot)
        if token.kind == "name" and token.text in _WORDS:
            return Const(_WORDS[token.text], token.spot)
        raise self.fault(token, "a variable or a value")

    def operand(self) -> Ask | Var | Const:
        """What may be compared, and what lenses take as context."""
        token = self.next
        if token.kind == "name" and token.text not in _WORDS:
            self.take()
            if self.next.text != "(":
                return Var(self.plain_name(token, "a variable"), token.spot)
            return self.question(token)
        if token.text == "[" and token.kind == "sign":
            items = self.items()
            if not isinstance(items, Const):
                raise self.fault(token, "a list of constants")
            return items
        return self.constant()

    def question(self, token: Token) -> Ask:
        if token.text not in QUESTIONS and token.text not in _OF_VARIABLES:
            known = [*QUESTIONS, *_OF_VARIABLES]
            raise self.fault(token, f"a question: one of {', '.join(known)}")
        self.expect("(")
        var = Var(self.plain_name(self.next, "a variable"), self.take().spot)
        self.expect(")")
        return Ask(token.text, var)

    # -- guards ----------------------------------------------------------------

    def guard(self) -> Guard:
        self.deeper(self.next)
        parts = [self.conjunction()]
        while self.took("or"):
            parts.append(self.conjunction())
        self.depth -= 1
        return parts[0] if len(parts) == 1 else Either(tuple(parts))

    def conjunction(self) -> Guard:
        parts = [self.condition()]
        while self.took("and"):
            parts.append(self.condition())
        return parts[0] if len(parts) == 1 else Both(tuple(parts))

    def condition(self) -> Guard:
        negations = 0
        while self.took("not"):
            negations += 1
        if self.took("("):
            guard = self.guard()
            self.expect(")")
        else:
            guard = self.compared()
        return Not(guard) if negations % 2 else guard

    def compared(self) -> Guard:
        left = self.operand()
        sign = self.next.text
        if self.took(*_SIGNS):
            return Compared(sign, left, self.operand())
        if self.took("not"):
            self.expect("in")
            return Compared("not in", left, self.operand())
        if self.took("in"):
            return Compared("in", left, self.operand())
        return left


_OF_VARIABLES: Final = ("given", "length")
"""Questions about what a variable holds, be it a value of the graph or not."""


def _check(row: Row) -> None:
    """Nothing may be lost, and nothing comes from nowhere."""
    for term in (row.left, row.right):
        if term.size > MAX_OPS:
            raise LimitError(
                "a pattern has too many ops",
                where=term.spot,
                expected=f"at most {MAX_OPS}",
                got=term.size,
            )
        if term.output:
            raise FormatError(
                "a whole side of a rule stands for all outputs of its op",
                where=term.spot,
                got=str(term),
            )
    sides = [{v.name: v for v in variables(t)} for t in (row.left, row.right)]
    read = {v.name: v for part in (row.left, row.right, row.guard) for v in asked(part)}
    if isinstance(row.guard, Var):
        read[row.guard.name] = row.guard
    for i, (here, there) in enumerate((sides, sides[::-1])):
        source_only = row.arrow == ("=>", "<=")[i]
        for name, var in here.items():
            if name not in there and not (source_only and name in read):
                raise _one_sided(row, var)
    _check_read(row, sides, read)
    for forward in (True, False):
        if row.runs(forward):
            _check_made(row, *row.sides(forward))


def _check_made(row: Row, here: Term, there: Term) -> None:
    """What is made is known, and many values stay many."""
    for part in _inside(there):
        if isinstance(part, ListOf | Lensed) and any(
            isinstance(p, Var) and p.name == ANYTHING for p in _inside(part)
        ):
            raise FormatError(
                f"{ANYTHING} says nothing about what is made",
                where=part.spot,
                got=str(part),
            )
    many = {a.name for a in _inputs(here) if a.rest}
    for arg in _inputs(there):
        if arg.name != ANYTHING and arg.rest != (arg.name in many):
            raise FormatError(
                f"{arg.name!r} stands for one value here and for many there",
                where=arg.spot,
                got=row.text,
            )


def _inside(part: Part) -> Iterator[Part]:
    """A part and all that it is made of."""
    yield part
    match part:
        case Lensed(inner=inner):
            yield from _inside(inner)
        case ListOf(items=items):
            for item in items:
                yield from _inside(item)
        case Term():
            for item in (*part.args, *part.attrs.values()):
                yield from _inside(item)


def _inputs(term: Term) -> Iterator[Var]:
    for part in _inside(term):
        if isinstance(part, Term):
            yield from (arg for arg in part.args if isinstance(arg, Var))


def _one_sided(row: Row, var: Var) -> FormatError:
    return FormatError(
        f"the variable {var.name!r} stands on one side only",
        where=var.spot,
        got=row.text,
        hint=f"write {ANYTHING} for what may be anything",
    )


def _check_read(row: Row, sides: list[dict[str, Var]], read: Mapping[str, Var]) -> None:
    matched = {"<=>": sides, "=>": sides[:1], "<=": sides[1:]}[row.arrow]
    for name, var in read.items():
        if any(name not in side for side in matched):
            raise FormatError(
                f"{name!r} is read, and no op of the rule has it",
                where=var.spot,
                got=row.text,
            )
    if row.loss is not None and row.arrow == "<=>":
        raise FormatError(
            "a rule that loses something runs one way",
            where=row.spot,
            expected="=> or <=",
            got=row.arrow,
        )
