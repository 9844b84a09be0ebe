"""Floor division, minimum and maximum of polynomials, simplified.

A divisor is assumed to be nonzero: `a // b` implies that b is not 0. Hence (a*b) // b
is a. The result of every rule is independent of the names of symbols, because parsing a
text renumbers anonymous symbols.
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
    divide_monomial,
    make,
    multiply,
    negate,
    of_atom,
    subtract,
)

_MAX_OPERANDS: Final = 64  # compared pairwise


def floordiv(top: Terms, bottom: Terms) -> Terms:
    """floor(top / bottom)."""
    if not bottom:
        raise InvalidTypeError("a dim is divided by zero")
    if all(coefficient < 0 for _, coefficient in bottom):
        top, bottom = negate(top), negate(bottom)
    if not top:
        return ZERO
    top, bottom = _cancel_common_factor(top, bottom)
    if len(bottom) > 1:
        exact = divide(top, bottom)
        return _quotient_atom(top, bottom) if exact is None else exact
    whole, rest = _divide_by_term(top, bottom[0])
    if whole:
        return add(whole, floordiv(rest, bottom))
    value = as_int(bottom)
    if value is not None:
        smaller, by = _reduce_by_gcd(rest, value)
        if by != value:
            return floordiv(smaller, constant(by))
    return _quotient_atom(rest, bottom)


def modulo(top: Terms, bottom: Terms) -> Terms:
    """top - bottom * (top // bottom), so that quotients are the only atoms."""
    return subtract(top, multiply(bottom, floordiv(top, bottom)))


def _cancel_common_factor(top: Terms, bottom: Terms) -> tuple[Terms, Terms]:
    """Cancel the factors that both share."""
    shared, factor = common_factor((*top, *bottom))
    if not shared and factor == 1:
        return top, bottom
    small = [
        make({divide_monomial(m, shared) or (): c // factor for m, c in terms})
        for terms in (top, bottom)
    ]
    return small[0], small[1]


def _divide_by_term(top: Terms, by: tuple[Monomial, int]) -> tuple[Terms, Terms]:
    """Divide so that top == whole * by + rest, with smaller coefficients in rest.

    Coefficients are reduced to (-by/2, by/2], so that -n // 8 is unchanged, but the
    remainder of the constant is not negative.
    """
    whole: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, coefficient in top:
        part = divide_monomial(monomial, by[0])
        if part is None:
            rest[monomial] = coefficient
        else:
            shift = (by[1] - 1) // 2 if monomial else 0
            whole[part], remainder = divmod(coefficient + shift, by[1])
            rest[monomial] = remainder - shift
    return make(whole), make(rest)


def _reduce_by_gcd(top: Terms, by: int) -> tuple[Terms, int]:
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
    """`min` or `max`: nested calls are flattened, dominated operands dropped."""
    sign = 1 if function == "max" else -1
    flat: list[Terms] = []
    for operand in operands:
        flat.extend(_flatten_call(function, operand))
    distinct = sorted(set(flat))
    if len(distinct) > _MAX_OPERANDS:
        raise LimitError(
            f"a {function} of absurdly many dims", expected=f"at most {_MAX_OPERANDS}"
        )
    best: list[Terms] = []
    for operand in distinct:
        if not any(_is_at_least(other, operand, sign) for other in best):
            best = [o for o in best if not _is_at_least(operand, o, sign)]
            best.append(operand)
    if not best:
        raise InvalidTypeError(f"{function} of no dims")
    return best[0] if len(best) == 1 else call(function, tuple(sorted(best)))


def _flatten_call(function: str, terms: Terms) -> tuple[Terms, ...]:
    if len(terms) == 1 and terms[0][1] == 1 and len(terms[0][0]) == 1:
        atom = terms[0][0][0]
        if atom[0] == CALL and atom[1] == function:
            return atom[4]  # type: ignore[no-any-return]
    return (terms,)


def _is_at_least(left: Terms, right: Terms, sign: int) -> bool:
    difference = subtract(left, right)
    return interval(difference if sign > 0 else negate(difference))[0] >= 0


def substitute(terms: Terms, values: Mapping[Atom, Terms]) -> Terms:
    """Replace symbols, and simplify."""
    total: Terms = ZERO
    for monomial, coefficient in terms:
        product = constant(coefficient)
        for atom in monomial:
            product = multiply(product, _substitute_atom(atom, values))
        total = add(total, product)
    return total


def _substitute_atom(atom: Atom, values: Mapping[Atom, Terms]) -> Terms:
    if atom[0] != CALL:
        return values.get(atom) or (ZERO if atom in values else of_atom(atom))
    operands = [substitute(operand, values) for operand in atom[4]]
    if atom[1] == "//":
        return floordiv(operands[0], operands[1])
    return choose(atom[1], operands)
