"""Floor division, minimum and maximum of polynomials, simplified.

A divisor is taken to be nonzero: who writes `a // b` says that b is not 0. Hence
(a*b) // b is a. Every rule here gives the same result whatever the symbols are called,
because a text that is read again numbers anonymous symbols anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import gcd
from typing import Final

from amanda.errors import InvalidTypeError, LimitError
from amanda.types.bounds import interval
from amanda.types.polynomial import (
    CALL,
    ZERO,
    Atom,
    Monomial,
    Terms,
    add,
    as_int,
    call,
    common_factor,
    constant,
    divide,
    make,
    multiply,
    negate,
    of_atom,
    subtract,
    without,
)

_MAX_OPERANDS: Final = 64  # each is compared with each


def floordiv(top: Terms, bottom: Terms) -> Terms:
    """floor(top / bottom)."""
    if not bottom:
        raise InvalidTypeError("a dim is divided by zero")
    if all(coefficient < 0 for _, coefficient in bottom):
        top, bottom = negate(top), negate(bottom)
    if not top:
        return ZERO
    top, bottom = _reduced(top, bottom)
    if len(bottom) > 1:
        exact = divide(top, bottom)
        return _quotient_atom(top, bottom) if exact is None else exact
    whole, rest = _split(top, bottom[0])
    if whole:
        return add(whole, floordiv(rest, bottom))
    value = as_int(bottom)
    if value is not None:
        smaller, by = _without_common(rest, value)
        if by != value:
            return floordiv(smaller, constant(by))
    return _quotient_atom(rest, bottom)


def modulo(top: Terms, bottom: Terms) -> Terms:
    """top - bottom * (top // bottom): one kind of atom serves both."""
    return subtract(top, multiply(bottom, floordiv(top, bottom)))


def _reduced(top: Terms, bottom: Terms) -> tuple[Terms, Terms]:
    """Both without the factors they share."""
    shared, factor = common_factor((*top, *bottom))
    if not shared and factor == 1:
        return top, bottom
    small = [
        make({without(m, shared) or (): c // factor for m, c in terms})
        for terms in (top, bottom)
    ]
    return small[0], small[1]


def _split(top: Terms, by: tuple[Monomial, int]) -> tuple[Terms, Terms]:
    """top == whole * by + rest; what is divisible leaves less than `by` in rest.

    Coefficients are reduced to (-by/2, by/2], so that -n // 8 stays as it is, but the
    remainder of a plain number is not negative."""
    whole: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, coefficient in top:
        part = without(monomial, by[0])
        if part is None:
            rest[monomial] = coefficient
        else:
            shift = (by[1] - 1) // 2 if monomial else 0
            whole[part], remainder = divmod(coefficient + shift, by[1])
            rest[monomial] = remainder - shift
    return make(whole), make(rest)


def _without_common(top: Terms, by: int) -> tuple[Terms, int]:
    """(2*n + 1) // 4 is n // 2: the constant cannot reach the next multiple."""
    factor = gcd(by, *(c for m, c in top if m))
    return make({m: c // factor for m, c in top}), by // factor


def _quotient_atom(top: Terms, bottom: Terms) -> Terms:
    low, high = interval(top)
    least = interval(bottom)[0]
    value = as_int(bottom)
    if value is not None and not isinstance(low, float) and not isinstance(high, float):
        if low // value == high // value:
            return constant(low // value)
    elif low >= 0 and interval(subtract(bottom, top))[0] > 0:
        return ZERO
    if least >= 0:
        inner = [term for term in top if _is_quotient(term)]
        if len(inner) == 1:
            # floor((floor(x / y) + rest) / b) is floor((x + rest*y) / (y*b))
            x, y = inner[0][0][0][4]
            rest = tuple(term for term in top if term != inner[0])
            return floordiv(add(x, multiply(rest, y)), multiply(y, bottom))
    return call("//", (top, bottom))


def _is_quotient(term: tuple[Monomial, int]) -> bool:
    monomial, coefficient = term
    if coefficient != 1 or len(monomial) != 1:
        return False
    return bool(monomial[0][0] == CALL and monomial[0][1] == "//")


def choose(function: str, operands: Iterable[Terms]) -> Terms:
    """`min` or `max`: nested ones flattened, operands that cannot win dropped."""
    sign = 1 if function == "max" else -1
    flat: list[Terms] = []
    for operand in operands:
        flat.extend(_nested(function, operand))
    distinct = sorted(set(flat))
    if len(distinct) > _MAX_OPERANDS:
        raise LimitError(
            f"a {function} of absurdly many dims", expected=f"at most {_MAX_OPERANDS}"
        )
    kept: list[Terms] = []
    for operand in distinct:
        if not any(_at_least(other, operand, sign) for other in kept):
            kept = [o for o in kept if not _at_least(operand, o, sign)]
            kept.append(operand)
    if not kept:
        raise InvalidTypeError(f"{function} of no dims")
    return kept[0] if len(kept) == 1 else call(function, tuple(sorted(kept)))


def _nested(function: str, terms: Terms) -> tuple[Terms, ...]:
    if len(terms) == 1 and terms[0][1] == 1 and len(terms[0][0]) == 1:
        atom = terms[0][0][0]
        if atom[0] == CALL and atom[1] == function:
            return atom[4]  # type: ignore[no-any-return]
    return (terms,)


def _at_least(left: Terms, right: Terms, sign: int) -> bool:
    difference = subtract(left, right)
    return interval(difference if sign > 0 else negate(difference))[0] >= 0


def substitute(terms: Terms, values: Mapping[Atom, Terms]) -> Terms:
    """The polynomial with symbols replaced, simplified anew."""
    total: Terms = ZERO
    for monomial, coefficient in terms:
        product = constant(coefficient)
        for atom in monomial:
            product = multiply(product, _substituted(atom, values))
        total = add(total, product)
    return total


def _substituted(atom: Atom, values: Mapping[Atom, Terms]) -> Terms:
    if atom[0] != CALL:
        return values.get(atom) or (ZERO if atom in values else of_atom(atom))
    operands = [substitute(operand, values) for operand in atom[4]]
    if atom[1] == "//":
        return floordiv(operands[0], operands[1])
    return choose(atom[1], operands)
