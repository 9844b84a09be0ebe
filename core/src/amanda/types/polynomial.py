"""Integer polynomials over atoms, as tuples in canonical form.

A polynomial (`Terms`) is a sorted tuple of `(monomial, coefficient)` without zeros; a
monomial is a sorted tuple of atoms, repeated for powers; the empty monomial is that of
the constant. So equal polynomials are equal tuples. An atom is one of

    (NAMED, name)                                 a named symbol
    (ANONYMOUS, scope, number)                    an anonymous symbol
    (CALL, function, weight, depth, operands)     "//", "min" or "max" of polynomials

whose weight and depth are computed from the operands. Both are limited, since an
expression in a file must not grow without bound.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd
from typing import Any, TypeAlias

from amanda.errors import LimitError

Atom: TypeAlias = tuple[Any, ...]
Monomial: TypeAlias = tuple[Atom, ...]
Terms: TypeAlias = tuple[tuple[Monomial, int], ...]

NAMED, ANONYMOUS, CALL = 0, 1, 2

MAX_TERMS = 256
MAX_WEIGHT = 4096  # all atoms, also those inside calls
MAX_DEPTH = 32  # nested calls
MAX_BITS = 256  # of a coefficient
_MAX_PRODUCTS = 4096

ZERO: Terms = ()


def constant(value: int) -> Terms:
    check_bits(value)
    return (((), value),) if value else ZERO


def of_atom(atom: Atom) -> Terms:
    return (((atom,), 1),)


def as_int(terms: Terms) -> int | None:
    """The value of a constant polynomial; None if it is not constant."""
    if not terms:
        return 0
    return terms[0][1] if len(terms) == 1 and not terms[0][0] else None


def check_bits(value: int) -> None:
    if value.bit_length() > MAX_BITS:
        raise LimitError(
            "a number in a dim is absurdly large", expected=f"at most {MAX_BITS} bits"
        )


def weight(terms: Terms) -> int:
    """The number of atoms, also inside calls; at least one per term."""
    total = len(terms)
    for monomial, _ in terms:
        for atom in monomial:
            total += atom[2] if atom[0] == CALL else 1
    return total


def depth(terms: Terms) -> int:
    """The nesting depth of calls."""
    depths = (atom[3] for monomial, _ in terms for atom in monomial if atom[0] == CALL)
    return max(depths, default=0)


def make(terms: dict[Monomial, int]) -> Terms:
    """The canonical form of a sum."""
    result = tuple(sorted((m, c) for m, c in terms.items() if c))
    if len(result) > MAX_TERMS or weight(result) > MAX_WEIGHT:
        raise LimitError(
            "an expression over dims is absurdly large",
            expected=f"at most {MAX_TERMS} terms and {MAX_WEIGHT} symbols",
        )
    for _, coefficient in result:
        check_bits(coefficient)
    return result


def call(function: str, operands: tuple[Terms, ...]) -> Terms:
    """The atom of a call; the caller simplifies."""
    inner = 1 + max(map(depth, operands))
    if inner > MAX_DEPTH:
        raise LimitError(
            "an expression over dims is nested absurdly deep",
            expected=f"at most {MAX_DEPTH} levels",
        )
    size = 1 + sum(map(weight, operands))
    return make({((CALL, function, size, inner, operands),): 1})


def add(left: Terms, right: Terms) -> Terms:
    terms = dict(left)
    for monomial, coefficient in right:
        terms[monomial] = terms.get(monomial, 0) + coefficient
    return make(terms)


def scale(terms: Terms, by: int) -> Terms:
    return make({m: c * by for m, c in terms})


def negate(terms: Terms) -> Terms:
    return tuple((m, -c) for m, c in terms)


def subtract(left: Terms, right: Terms) -> Terms:
    return add(left, negate(right))


def multiply(left: Terms, right: Terms) -> Terms:
    if len(left) * len(right) > _MAX_PRODUCTS:
        raise LimitError("a product of dims has absurdly many terms")
    terms: dict[Monomial, int] = {}
    for m, a in left:
        for n, b in right:
            key = tuple(sorted(m + n)) if m and n else m or n
            terms[key] = terms.get(key, 0) + a * b
    return make(terms)


def divide_monomial(whole: Monomial, part: Monomial) -> Monomial | None:
    """`whole / part`, or None if that is not a monomial."""
    rest = list(whole)
    for atom in part:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


def divide(left: Terms, right: Terms) -> Terms | None:
    """The polynomial q with `q * right == left`, or None if there is none.

    Long division by leading terms in a monomial order, so q is found whenever it
    exists, independent of the names of symbols.
    """
    lead, factor = _leading(right)
    quotient: dict[Monomial, int] = {}
    rest = left
    for _ in range(MAX_TERMS + 1):
        if not rest:
            return make(quotient)
        monomial, coefficient = _leading(rest)
        part = divide_monomial(monomial, lead)
        if part is None or coefficient % factor:
            return None
        step = coefficient // factor
        quotient[part] = step
        rest = subtract(rest, multiply(((part, step),), right))
    return None


def _leading(terms: Terms) -> tuple[Monomial, int]:
    most = max(len(m) for m, _ in terms)
    return min((m, c) for m, c in terms if len(m) == most)


def common_factor(terms: Iterable[tuple[Monomial, int]]) -> tuple[Monomial, int]:
    """The largest monomial and the largest positive integer that divide every term."""
    factor = 0
    shared: list[Atom] | None = None
    for monomial, coefficient in terms:
        factor = gcd(factor, coefficient)
        if shared is None:
            shared = list(monomial)
            continue
        rest = list(monomial)
        common = []
        for atom in shared:
            if atom in rest:
                rest.remove(atom)
                common.append(atom)
        shared = common
    return tuple(shared or ()), factor


def atoms(terms: Terms) -> set[Atom]:
    """The symbols of a polynomial, also inside calls."""
    found: set[Atom] = set()
    stack = [terms]
    while stack:
        for monomial, _ in stack.pop():
            for atom in monomial:
                if atom[0] == CALL:
                    stack.extend(atom[4])
                else:
                    found.add(atom)
    return found


def rename(terms: Terms, names: dict[Atom, Atom]) -> Terms:
    """Rename symbols, and sort again."""
    return tuple(
        sorted(
            (tuple(sorted(_rename_atom(atom, names) for atom in monomial)), coefficient)
            for monomial, coefficient in terms
        )
    )


def _rename_atom(atom: Atom, names: dict[Atom, Atom]) -> Atom:
    if atom[0] != CALL:
        return names.get(atom, atom)
    operands = tuple(rename(operand, names) for operand in atom[4])
    if atom[1] != "//":
        operands = tuple(sorted(operands))
    return (*atom[:4], operands)
