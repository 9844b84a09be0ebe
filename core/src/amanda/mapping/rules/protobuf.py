"""Rules in protobuf form: the messages of mapping.proto, encoded and decoded.

Decoded rules are written in the notation, parsed and checked like rule text, so that a
file cannot contain more than a text could.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from difflib import get_close_matches
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from amanda.errors import (
    AmandaError,
    FormatError,
    InvalidTypeError,
    LimitError,
    UsageError,
)
from amanda.files.binary import mapping_messages
from amanda.files.binary.mapping_messages import (
    MappingRule,
    RuleFile,
    RuleFunction,
    RulePart,
    RuleTable,
    RuleValue,
)
from amanda.mapping.rules.parser import (
    MAX_DEPTH,
    is_name,
    parse_guard,
    parse_head,
    parse_part,
    parse_rules,
)
from amanda.mapping.rules.rule_file import namespace_path
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
    TermPart,
    Var,
    format_value,
)
from amanda.mapping.rules.tokenizer import MAX_TEXT
from amanda.types import DType

if TYPE_CHECKING:
    from amanda.mapping.rules.rule_set import RuleSet

__all__ = ["dumps", "loads", "decode_file"]

MAGIC: Final = "amanda rules"
MAJOR: Final = 1
_INT64: Final = range(-(1 << 63), 1 << 63)


# -- writing ------------------------------------------------------------------------


def dumps(rules: RuleSet) -> bytes:
    """The rules of a set, its tables, and the names of its functions."""
    file = RuleFile(MAGIC, MAJOR, 0, rules.left, rules.right)
    file.source_hints, file.target_hints = (
        sorted(rules.hints[f]) for f in (True, False)
    )
    for name, lens in rules.lenses.items():
        if lens.rows is not None:
            left = [v for row in lens.rows for v in _value_messages(row[0])]
            right = [v for row in lens.rows for v in _value_messages(row[1])]
            file.tables.append(RuleTable(name, lens.doc, left, right))
    for function in rules.functions:
        head = function.term
        made = RuleFunction(
            head.type, head.low, head.high, not function.forward, function.name
        )
        file.functions.append(made)
    file.rules = [_rule_message(row) for row in rules.rows]
    return mapping_messages.write(file)


def _rule_message(row: Equation) -> MappingRule:
    parts = [*_part_messages(row.left), *_part_messages(row.right)]
    if row.guard is not None:
        parts += _guard_messages(row.guard)
    tags, after = list(row.tags), list(row.after)
    return MappingRule(
        row.arrow, parts, row.loss, tags, after, row.spot.file, row.spot.line
    )


def _part_messages(
    part: TermPart | Question, key: str = "", waits: bool = False
) -> Iterator[RulePart]:
    match part:
        case Var():
            form = "rest" if part.rest else "variable"
            yield RulePart(form, part.name, key=key, optional=part.optional)
        case ConstantTerm(value=value):
            yield RulePart("constant", key=key, value=list(_value_messages(value)))
        case ListOf(items=items):
            yield RulePart("list", parts=len(items), key=key)
            yield from chain.from_iterable(map(_part_messages, items))
        case Question(what=what, var=var):
            yield RulePart("question", what, parts=1, key=key)
            yield from _part_messages(var)
        case LensTerm(lens=lens, inner=inner, context=context):
            yield RulePart("lens", lens, parts=1 + len(context), key=key)
            yield from chain.from_iterable(map(_part_messages, (inner, *context)))
        case OpTerm():
            yield from _term_messages(part, key, waits)


def _term_messages(term: OpTerm, key: str, waits: bool) -> Iterator[RulePart]:
    count = len(term.parts)
    versions = (term.low, term.high)
    yield RulePart("op", term.type, count, key, waits, *versions, term.output)
    for arg in term.args:
        yield from _part_messages(arg)
    for name, part in term.attrs.items():
        yield from _part_messages(part, name)
    for other in term.waits:
        yield from _term_messages(other, "", True)


def _guard_messages(guard: Guard) -> Iterator[RulePart]:
    match guard:
        case Comparison(sign=sign, left=left, right=right):
            yield RulePart("compare", sign, 2)
            yield from chain(_part_messages(left), _part_messages(right))
        case Negation(inner=inner):
            yield RulePart("not", parts=1)
            yield from _guard_messages(inner)
        case AllOf(parts=parts) | AnyOf(parts=parts):
            yield RulePart(
                "and" if isinstance(guard, AllOf) else "or", parts=len(parts)
            )
            yield from chain.from_iterable(map(_guard_messages, parts))
        case _:
            yield from _part_messages(guard)


def _value_messages(value: Any) -> Iterator[RuleValue]:
    if value is None:
        yield RuleValue()
    elif isinstance(value, bool):
        yield RuleValue(boolean=value)
    elif isinstance(value, int):
        fits = value in _INT64
        yield RuleValue(integer=value) if fits else RuleValue(digits=str(value))
    elif isinstance(value, float):
        yield RuleValue(real=value)
    elif isinstance(value, str):
        yield RuleValue(text=value)
    elif isinstance(value, DType):
        yield RuleValue(dtype=str(value))
    else:
        yield RuleValue(list=len(value))
        yield from chain.from_iterable(map(_value_messages, value))


# -- reading ------------------------------------------------------------------------


def decode_file(data: bytes, file: str = "<bytes>") -> RuleFile:
    """Decode the messages of a file; FormatError where it has no rules."""
    if len(data) > MAX_TEXT:
        raise LimitError("the file of rules is absurdly long", where=file)
    try:
        made = mapping_messages.read(RuleFile, memoryview(data), 0, len(data))
    except AmandaError as error:
        error.who = error.who or file
        raise
    if made.magic != MAGIC:
        raise FormatError("no file of rules", where=file, got=repr(made.magic[:40]))
    if made.major != MAJOR:
        raise FormatError(
            "a file of rules of another major version",
            where=file,
            expected=str(MAJOR),
            got=str(made.major),
        )
    return made


def loads(rules: RuleSet, data: bytes, file: str = "<bytes>") -> None:
    """Add the rules of a file to a set; none of them if one is faulty."""
    decoded = decode_file(data, file)
    for namespace, end in ((decoded.source, rules.left), (decoded.target, rules.right)):
        if namespace_path(namespace) != end:
            got = repr(namespace[:80])
            raise FormatError("rules of another end", where=file, expected=end, got=got)
    with rules.all_or_nothing():
        for table in decoded.tables:
            _add_table(rules, table, file)
        for i, function in enumerate(decoded.functions):
            _attach_function(rules, function, f"{file}, function {i}")
        rules.hint(left=decoded.source_hints, right=decoded.target_hints)
        rows: list[Equation] = []
        for i, rule in enumerate(decoded.rules):
            text = _PartReader(rule, rules, f"{file}, rule {i}").text()
            name, line = rule.file or file, rule.line or i + 1
            rows += parse_rules(text, rules.lenses, name, line)
        rules.add(rows)


def _add_table(rules: RuleSet, table: RuleTable, file: str) -> None:
    where = f"{file}, table {table.name!r}"
    left, right = (
        list(_read_values(iter(side), where)) for side in (table.left, table.right)
    )
    if len(left) != len(right):
        raise FormatError(
            "a table has as many values on either side",
            where=where, got=f"{len(left)} and {len(right)}",
        )  # fmt: skip
    try:
        rules.table(table.name, list(zip(left, right, strict=True)), table.doc)
    except UsageError as error:
        raise FormatError(error.message, where=where) from error


def _attach_function(rules: RuleSet, function: RuleFunction, where: str) -> None:
    call = rules.callables.get(function.name)
    if call is None:
        near = get_close_matches(function.name, rules.callables, n=1)
        raise FormatError(
            f"no function {function.name!r} is registered",
            where=where,
            hint=f"did you mean {near[0]!r}?" if near else None,
        )
    head = f"{function.type}{_format_versions(function.low, function.high)}"
    rules.attach(call, parse_head(head, where), forward=not function.writes)


def _format_versions(low: int | None, high: int | None) -> str:
    if low is None and high is None:
        return ""
    return f"[{'' if low is None else low}:{'' if high is None else high}]"


def _read_values(values: Iterator[RuleValue], where: str) -> Iterator[Any]:
    for first in values:
        yield _read_value(chain([first], values), where, 0)


def _read_value(values: Iterator[RuleValue], where: str, depth: int) -> Any:
    one = next(values, None)
    if one is None:
        raise FormatError("a list of values ends too early", where=where)
    if depth > MAX_DEPTH:
        raise LimitError("a value is nested too deep", where=where)
    if one.list is not None:
        return [_read_value(values, where, depth + 1) for _ in range(one.list)]
    if one.digits is not None:
        digits = one.digits.removeprefix("-")
        if not digits.isdecimal() or not digits.isascii() or len(digits) > 80:
            raise FormatError("no whole number", where=where, got=repr(one.digits[:90]))
        return int(one.digits)
    if one.dtype is not None:
        return _read_dtype(one.dtype, where)
    found = (one.boolean, one.integer, one.real, one.text)
    return next((value for value in found if value is not None), None)


def _read_dtype(name: str, where: str) -> DType:
    try:
        return DType(name)
    except InvalidTypeError as error:
        error.where = where
        raise


class _PartReader:
    """Converts one rule to text; each part is checked before it is written."""

    def __init__(self, rule: MappingRule, rules: RuleSet, where: str) -> None:
        self.rule = rule
        self.lenses = rules.lenses
        self.where = where
        self.parts = iter(rule.parts)
        self.depth = 0

    def fault(self, message: str, **parts: Any) -> FormatError:
        return FormatError(message, where=self.where, **parts)

    def text(self) -> str:
        rule = self.rule
        if rule.arrow not in ("<=>", "=>", "<="):
            raise self.fault("a rule has an arrow", got=repr(rule.arrow))
        left, right = self.part(), self.part()
        made = f"{left}  {rule.arrow}  {right}"
        more = next(self.parts, None)
        if more is not None:
            self.parts = chain([more], self.parts)
            guard = parse_guard(self.guard(), self.lenses, self.where, 1)
            made += f"  if {guard}"
        if next(self.parts, None) is not None:
            raise self.fault("a rule goes on behind its guard")
        if rule.loss is not None:
            made += f"  losing {format_value(rule.loss)}"
        words = [*rule.after, *rule.tags]
        if not all(map(is_name, words)):
            raise self.fault("a tag is a word", got=repr(words))
        after = f"  after {', '.join(rule.after)}" if rule.after else ""
        return made + after + "".join(f"  @{tag}" for tag in rule.tags)

    def next(self) -> RulePart:
        part = next(self.parts, None)
        if part is None:
            raise self.fault("a rule ends too early")
        return part

    def inner(self, part: RulePart, read: Callable[[], str]) -> list[str]:
        """The parts inside a part, which follow it."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise LimitError("a rule is nested too deep", where=self.where)
        found = [read() for _ in range(part.parts)]
        self.depth -= 1
        return found

    def name(self, part: RulePart) -> str:
        if not is_name(part.name):
            raise self.fault(f"{part.form!r} has a name", got=repr(part.name[:80]))
        return part.name

    def part(self) -> str:
        part = self.next()
        made = self.plain_part(part)
        if part.form not in ("op", "variable", "rest"):
            made = str(parse_part(made, self.lenses, self.where, 1))
        if part.key:
            if not is_name(part.key):
                raise self.fault("an attribute is a name", got=repr(part.key[:80]))
            return f"{part.key}={made}"
        return f"^{made}" if part.waits else made

    def plain_part(self, part: RulePart) -> str:
        match part.form:
            case "variable":
                return self.name(part) + "?" * part.optional
            case "rest":
                return f"*{self.name(part)}"
            case "constant":
                values = iter(part.value)
                made = format_value(_read_value(values, self.where, 0))
                if next(values, None) is not None:
                    raise self.fault("a constant is one value")
                return made
            case "list":
                return f"[{', '.join(self.inner(part, self.part))}]"
            case "lens" | "question":
                inside = ", ".join(self.inner(part, self.operand))
                return f"{self.name(part)}({inside})"
            case "op":
                inside = ", ".join(self.inner(part, self.part))
                pick = f"[{part.output}]" if part.output else ""
                versions = _format_versions(part.low, part.high)
                return f"{self.name(part)}{versions}({inside}){pick}"
        raise self.fault("a rule has no such part", got=repr(part.form[:80]))

    def operand(self) -> str:
        """The inner value of a lens."""
        return self.plain_part(self.next())

    def guard(self) -> str:
        part = self.next()
        match part.form:
            case "compare":
                left, right = self.binary(part)
                if part.name not in ("==", "!=", "<", "<=", ">", ">=", "in", "not in"):
                    raise self.fault("no comparison", got=repr(part.name[:80]))
                return f"{left} {part.name} {right}"
            case "not":
                return f"not ({' and '.join(self.inner(part, self.guard))})"
            case "and" | "or":
                inside = self.inner(part, self.guard)
                return f"({f' {part.form} '.join(inside)})"
        return self.plain_part(part)

    def binary(self, part: RulePart) -> list[str]:
        if part.parts != 2:
            raise self.fault("a comparison has two sides", got=str(part.parts))
        return self.inner(part, self.operand)
