"""The parser of rules: recursive descent over tokens, with a limit on its depth.

    row     term ("<=>" | "=>" | "<=") term ["if" guard] ["losing" text]
            ["after" tag {"," tag}] {"@" tag}
    term    type ["[" [from] ":" [to] "]"] "(" [part {"," part}] ")" ["[" output "]"]
    part    [name "="] value | "*" name | "^" term
    value   "_" | name ["?"] | constant | "[" items "]" | term
            | lens "(" value {"," context} ")"
    context question "(" name ")" | name | constant
    guard   comparisons of contexts, joined by and, or, not and parentheses

Nothing is evaluated: rule files are data, and may come from anywhere.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any, Final, TypeVar

from amanda.errors import FormatError, LimitError
from amanda.mapping.rules.checks import check_rule
from amanda.mapping.rules.terms import (
    AllOf,
    AnyOf,
    Comparison,
    ConstantTerm,
    Equation,
    Guard,
    LensTerm,
    ListOf,
    Negation,
    OpTerm,
    Question,
    SourceLocation,
    TermPart,
    Var,
)
from amanda.mapping.rules.tokenizer import (
    NAME,
    RuleLines,
    Token,
    tokenize_block,
    tokenize_rules,
)
from amanda.mapping.side import QUESTIONS

__all__ = [
    "is_name",
    "parse_block",
    "parse_guard",
    "parse_head",
    "parse_part",
    "parse_rules",
]

_Any = TypeVar("_Any")
MAX_DEPTH: Final = 32
_ARROWS: Final = ("<=>", "=>", "<=")
_COMPARISONS: Final = ("==", "!=", "<=", ">=", "<", ">")
_LITERALS: Final[Mapping[str, Any]] = {
    "True": True, "true": True, "False": False, "false": False,
    "None": None, "none": None, "inf": float("inf"), "nan": float("nan"),
}  # fmt: skip
_RESERVED: Final = frozenset({"if", "and", "or", "not", "in", "losing", "after"})


def parse_rules(
    text: str, lenses: Collection[str], file: str = "<rules>", line: int = 1
) -> list[Equation]:
    """The rules of a text; FormatError with the location of every faulty one.

    >>> text = "Softmax[13:](x, axis=a) <=> softmax(x, axes=only(a))"
    >>> [row] = parse_rules(text, ["only"])
    >>> row.left.type, str(row.right), row.arrow
    ('Softmax', 'softmax(x, axes=only(a))', '<=>')
    """
    found: list[Equation] = []
    faults: list[FormatError] = []
    for tokens in tokenize_rules(text, file, line):
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
            problems=[_location_of(fault) for fault in faults],
        )
    return found


def parse_block(lines: RuleLines, lenses: Collection[str], file: str) -> Equation:
    """Parse one rule, of the numbered lines of a file."""
    return _Parser(tokenize_block(lines, file), lenses).row()


def parse_part(text: str, lenses: Collection[str], file: str, line: int) -> TermPart:
    """Parse one value of a rule: an input or an attribute."""
    parser = _parser_for(text, lenses, file, line)
    part = parser.variadic() if parser.next.text == "*" else parser.value()
    return parser.expect_end(part)


def parse_guard(text: str, lenses: Collection[str], file: str, line: int) -> Guard:
    """Parse a guard, the part behind `if`."""
    parser = _parser_for(text, lenses, file, line)
    return parser.expect_end(parser.guard())


def parse_head(text: str, file: str, line: int = 1) -> OpTerm:
    """Parse an op type with versions, without parentheses: `Gemm[7:]`."""
    if NAME.fullmatch(text):
        return OpTerm(text, None, None, (), {}, SourceLocation(file, line, 1))
    parser = _parser_for(text, (), file, line)
    token = parser.take()
    if token.kind != "name":
        raise parser.fault(token, "an op")
    low, high = parser.versions()
    return parser.expect_end(OpTerm(token.text, low, high, (), {}, token.spot))


def is_name(text: object) -> bool:
    """Whether rules allow this name for an op, an attribute or a tag."""
    return isinstance(text, str) and NAME.fullmatch(text) is not None


def _parser_for(text: str, lenses: Collection[str], file: str, line: int) -> _Parser:
    found = next(tokenize_rules(text, file, line), None)
    if found is None:
        raise FormatError(
            "an empty text where a part of a rule is expected", where=file
        )
    if isinstance(found, FormatError):
        raise found
    return _Parser(found, lenses)


def _location_of(fault: FormatError) -> str:
    details = [f"expected {fault.expected}"] if fault.expected else []
    details += [f"got {fault.got}"] if fault.got else []
    return "; ".join([f"{fault.where}: {fault.message}", *details])


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

    def consume_if(self, *texts: str) -> bool:
        """Consume the next token if it is one of these."""
        token = self.next
        if token.kind in ("sign", "name") and token.text in texts:
            self.at += 1
            return True
        return False

    def expect(self, *texts: str) -> Token:
        token = self.next
        if not self.consume_if(*texts):
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

    def expect_end(self, what: _Any) -> _Any:
        if self.next.kind != "end":
            raise self.fault(self.next, "nothing more")
        return what

    def nest(self, token: Token) -> None:
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
        if token.text in _RESERVED or token.text in _LITERALS:
            raise self.fault(token, f"{what}, which {token.text!r} is not")
        return token.text

    # -- rows ------------------------------------------------------------------

    def row(self) -> Equation:
        first = self.next
        left = self.term()
        arrow = self.expect(*_ARROWS).text
        right = self.term()
        guard = self.guard() if self.consume_if("if") else None
        loss = None
        if self.consume_if("losing"):
            token = self.take()
            if token.kind != "text":
                raise self.fault(token, "a string that states the loss")
            loss = token.value
        after = self.after()
        tags = self.tags()
        if self.next.kind != "end":
            raise self.fault(self.next, "if, losing, after, @ or the end of the rule")
        text = f"{left}  {arrow}  {right}" + ("" if guard is None else f"  if {guard}")
        row = Equation(left, right, arrow, guard, loss, text, first.spot, tags, after)
        check_rule(row)
        return row

    def after(self) -> tuple[str, ...]:
        """The tags behind `after`."""
        if not self.consume_if("after"):
            return ()
        found = [self.tag()]
        while self.consume_if(","):
            found.append(self.tag())
        return tuple(dict.fromkeys(found))

    def tags(self) -> tuple[str, ...]:
        found = []
        while self.consume_if("@"):
            found.append(self.tag())
        return tuple(dict.fromkeys(found))

    def tag(self) -> str:
        token = self.take()
        return self.plain_name(token, "a tag")

    def term(self) -> OpTerm:
        token = self.take()
        if token.kind != "name" or (
            token.text in _RESERVED and self.next.text not in ("(", "[")
        ):  # an op may be called `if`
            raise self.fault(token, "an op")
        self.nest(token)
        low, high = self.versions()
        self.expect("(")
        args: list[TermPart] = []
        attrs: dict[str, TermPart] = {}
        waits: list[OpTerm] = []
        while not self.consume_if(")"):
            if args or attrs or waits:
                self.expect(",")
                if self.consume_if(")"):
                    break
            if self.consume_if("^"):
                waits.append(self.term())
            else:
                self.part(args, attrs)
        self.depth -= 1
        output = self.output()
        return OpTerm(
            token.text, low, high, tuple(args), attrs, token.spot, output, tuple(waits)
        )

    def versions(self) -> tuple[int | None, int | None]:
        if not self.consume_if("["):
            return None, None
        first = self.next
        low = None if self.next.text == ":" else self.integer("a version")
        high = low
        if self.consume_if(":"):
            high = None if self.next.text == "]" else self.integer("a version")
        self.expect("]")
        if low is not None and high is not None and low > high:
            raise self.fault(first, "versions in order", hint="write [from:to]")
        return low, high

    def output(self) -> int:
        if not self.consume_if("["):
            return 0
        index = self.integer("the number of an output")
        self.expect("]")
        return index

    def integer(self, what: str) -> int:
        token = self.take()
        if type(token.value) is not int or not 0 <= token.value < 1 << 31:
            raise self.fault(token, what)
        return token.value

    def part(self, args: list[TermPart], attrs: dict[str, TermPart]) -> None:
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
        if self.next.text == "*":
            rest = next((a for a in args if isinstance(a, Var) and a.rest), None)
            if rest is not None:
                raise self.fault(token, f"one with *, and {rest} takes the rest")
            args.append(self.variadic())
        else:
            args.append(self.value())

    def variadic(self) -> Var:
        star = self.expect("*")
        return Var(self.plain_name(self.take(), "a variable"), star.spot, rest=True)

    # -- values ----------------------------------------------------------------

    def value(self, *, named: bool = False) -> TermPart:
        token = self.next
        if token.kind == "name" and token.text not in _LITERALS:
            follows = self.tokens[min(self.at + 1, len(self.tokens) - 1)].text
            if token.text in self.lenses and follows == "(":
                return self.lens_term()
            if follows in ("(", "["):
                if named:
                    raise self.no_lens(token)
                return self.term()
            self.take()
            name = self.plain_name(token, "a variable or a value")
            optional = not named and self.consume_if("?")
            return Var(name, token.spot, optional=optional)
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

    def lens_term(self) -> LensTerm:
        token = self.take()
        self.nest(token)
        self.expect("(")
        inner = self.value(named=True)
        context: list[Question | Var | ConstantTerm] = []
        while self.consume_if(","):
            context.append(self.operand())
        self.expect(")")
        self.depth -= 1
        return LensTerm(token.text, inner, tuple(context), token.spot)

    def items(self) -> TermPart:
        """Parse a list; one without variables is a constant."""
        token = self.expect("[")
        self.nest(token)
        items: list[TermPart] = []
        while not self.consume_if("]"):
            if items:
                self.expect(",")
            starred = self.next.text == "*"
            items.append(self.variadic() if starred else self.value(named=True))
        self.depth -= 1
        if all(isinstance(item, ConstantTerm) for item in items):
            return ConstantTerm(
                [i.value for i in items if isinstance(i, ConstantTerm)], token.spot
            )
        if sum(isinstance(item, Var) and item.rest for item in items) > 1:
            raise self.fault(token, "at most one variable with * in a list")
        return ListOf(tuple(items), token.spot)

    def constant(self) -> ConstantTerm:
        token = self.take()
        if token.kind in ("number", "text"):
            return ConstantTerm(token.value, token.spot)
        if token.kind == "name" and token.text in _LITERALS:
            return ConstantTerm(_LITERALS[token.text], token.spot)
        raise self.fault(token, "a variable or a value")

    def operand(self) -> Question | Var | ConstantTerm:
        """Parse an operand of comparisons, or the context of a lens."""
        token = self.next
        if token.kind == "name" and token.text not in _LITERALS:
            self.take()
            if self.next.text != "(":
                return Var(self.plain_name(token, "a variable"), token.spot)
            return self.question(token)
        if token.text == "[" and token.kind == "sign":
            items = self.items()
            if not isinstance(items, ConstantTerm):
                raise self.fault(token, "a list of constants")
            return items
        return self.constant()

    def question(self, token: Token) -> Question:
        if token.text not in QUESTIONS and token.text not in _OF_VARIABLES:
            known = [*QUESTIONS, *_OF_VARIABLES]
            raise self.fault(token, f"a question: one of {', '.join(known)}")
        self.expect("(")
        var = Var(self.plain_name(self.next, "a variable"), self.take().spot)
        self.expect(")")
        return Question(token.text, var)

    # -- guards ----------------------------------------------------------------

    def guard(self) -> Guard:
        self.nest(self.next)
        parts = [self.conjunction()]
        while self.consume_if("or"):
            parts.append(self.conjunction())
        self.depth -= 1
        return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))

    def conjunction(self) -> Guard:
        parts = [self.condition()]
        while self.consume_if("and"):
            parts.append(self.condition())
        return parts[0] if len(parts) == 1 else AllOf(tuple(parts))

    def condition(self) -> Guard:
        negations = 0
        while self.consume_if("not"):
            negations += 1
        if self.consume_if("("):
            guard = self.guard()
            self.expect(")")
        else:
            guard = self.comparison()
        return Negation(guard) if negations % 2 else guard

    def comparison(self) -> Guard:
        left = self.operand()
        sign = self.next.text
        if self.consume_if(*_COMPARISONS):
            return Comparison(sign, left, self.operand())
        if self.consume_if("not"):
            self.expect("in")
            return Comparison("not in", left, self.operand())
        if self.consume_if("in"):
            return Comparison("in", left, self.operand())
        return left


_OF_VARIABLES: Final = ("given", "length")
"""Questions about any variable, not only about values of the graph."""
