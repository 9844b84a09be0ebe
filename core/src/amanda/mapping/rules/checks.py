"""Checks of every rule: no variable is lost, none comes from nowhere."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from amanda.errors import FormatError, LimitError
from amanda.mapping.rules.terms import (
    ANYTHING,
    ConstantTerm,
    Equation,
    LensTerm,
    ListOf,
    OpTerm,
    TermPart,
    Var,
    questioned_variables,
    subterms,
    variables,
)

if TYPE_CHECKING:
    from amanda.mapping.rules.functions import FunctionRule
    from amanda.mapping.side import Signature

__all__ = ["check_rule", "is_recursive", "unread_inputs"]

MAX_OPS: Final = 64


def check_rule(row: Equation) -> None:
    """Check a rule; FormatError where a variable is lost or undefined."""
    for term in (row.left, row.right):
        _check_term(term)
    sides = [{v.name: v for v in variables(t)} for t in (row.left, row.right)]
    read = {
        v.name: v
        for part in (row.left, row.right, row.guard)
        for v in questioned_variables(part)
    }
    if isinstance(row.guard, Var):
        read[row.guard.name] = row.guard
    for i, (here, there) in enumerate((sides, sides[::-1])):
        source_only = row.arrow == ("=>", "<=")[i]
        for name, var in here.items():
            if name not in there and not (source_only and name in read):
                raise _one_sided_error(row, var)
    _check_read(row, sides, read)
    for forward in (True, False):
        if row.runs(forward):
            _check_built_side(row, *row.sides(forward))


def _check_term(term: OpTerm) -> None:
    if term.size > MAX_OPS:
        raise LimitError(
            "a pattern has too many ops",
            where=term.spot,
            expected=f"at most {MAX_OPS}",
            got=term.size,
        )
    waiting = [w for t in subterms(term) if isinstance(t, OpTerm) for w in t.waits]
    for one in (term, *waiting):
        if one.output:
            raise FormatError(
                "a whole side of a rule stands for all outputs of its op"
                if one is term
                else "a control edge comes from an op, not from one of its outputs",
                where=one.spot,
                got=str(one),
            )


def _check_built_side(row: Equation, here: OpTerm, there: OpTerm) -> None:
    """Check that the built side is defined, and variadic values stay variadic."""
    for part in subterms(there):
        if isinstance(part, ListOf | LensTerm) and any(
            isinstance(p, Var) and p.name == ANYTHING for p in subterms(part)
        ):
            raise FormatError(
                f"{ANYTHING} does not define what is built",
                where=part.spot,
                got=str(part),
            )
    many = {a.name for a in _inputs(here) if a.rest}
    for arg in _inputs(there):
        if arg.name != ANYTHING and arg.rest != (arg.name in many):
            raise FormatError(
                f"{arg.name!r} is one value on one side and many on the other",
                where=arg.spot,
                got=row.text,
            )


def _inputs(term: OpTerm) -> Iterator[Var]:
    for part in subterms(term):
        if isinstance(part, OpTerm):
            yield from (arg for arg in part.args if isinstance(arg, Var))


def _one_sided_error(row: Equation, var: Var) -> FormatError:
    return FormatError(
        f"the variable {var.name!r} is on one side only",
        where=var.spot,
        got=row.text,
        hint=f"write {ANYTHING} for a part that may be anything",
    )


def _check_read(
    row: Equation, sides: list[dict[str, Var]], read: Mapping[str, Var]
) -> None:
    matched = {"<=>": sides, "=>": sides[:1], "<=": sides[1:]}[row.arrow]
    for name, var in read.items():
        if any(name not in side for side in matched):
            raise FormatError(
                f"{name!r} is read, but no op of the rule has it",
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


# -- rules within one namespace -----------------------------------------------------


def is_recursive(row: Equation, *, forward: bool = True) -> bool:
    """Whether a rule matches its own result, so that rewriting would never end.

    >>> from amanda.mapping.rules.parser import parse_rules
    >>> rows = parse_rules("f(x) => f(f(x))\\nf(f(x)) => f(x)", ())
    >>> [is_recursive(row) for row in rows]
    [True, False]
    """
    here, there = row.sides(forward)
    if row.guard is not None:
        return False
    terms = [part for part in subterms(there) if isinstance(part, OpTerm)]
    return any(_may_match(here, term, {}) for term in terms)


def _may_match(want: TermPart, have: TermPart, bound: dict[str, str]) -> bool:
    """Whether `want` matches `have` for any values of its variables."""
    if isinstance(want, Var):
        if want.name == ANYTHING:
            return True
        return bound.setdefault(want.name, str(have)) == str(have)
    if isinstance(want, ConstantTerm):
        return isinstance(have, ConstantTerm) and want.value == have.value
    if not isinstance(want, OpTerm) or not isinstance(have, OpTerm):
        return False
    if (want.type, want.output) != (have.type, have.output) or want.waits:
        return False
    if (want.low, want.high) != (have.low, have.high):
        return False
    if len(want.args) != len(have.args) or want.attrs.keys() != have.attrs.keys():
        return False
    pairs = [*zip(want.args, have.args, strict=True)]
    pairs += [(part, have.attrs[key]) for key, part in want.attrs.items()]
    return all(_may_match(a, b, bound) for a, b in pairs)


# -- functions ----------------------------------------------------------------------


def unread_inputs(function: FunctionRule, signature: Signature) -> frozenset[str]:
    """Attributes that a function accepts and never reads, so that it drops them.

    This is read from its compiled code. For a function with an unused `**attrs`, these
    are all attributes that it does not name.
    """
    call: Any = inspect.unwrap(function.call)
    code = call.__code__
    read = set(code.co_cellvars)
    for step in dis.get_instructions(code):
        if step.opname.startswith("LOAD_"):
            found = step.argval
            read.update(found if isinstance(found, tuple) else (found,))
    parameters = inspect.signature(call).parameters.values()
    named = {p.name for p in parameters}
    dropped = {p.name for p in parameters if p.name not in read}
    rest = [p.name for p in parameters if p.kind is p.VAR_KEYWORD]
    if dropped.intersection(rest):
        dropped |= set(signature.attrs) - named
    return frozenset(dropped & {*signature.attrs})
