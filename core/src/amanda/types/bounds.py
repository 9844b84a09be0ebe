"""Bounds of polynomials whose symbols are >= 0.

`interval` bounds each term separately. Canonical forms may rely on it, since its proofs
are transitive (a >= b and b >= c proved implies a >= c proved), so that grouping does
not matter. `lower` finds tighter bounds, for comparisons only.
"""

from __future__ import annotations

from functools import lru_cache
from math import gcd, inf
from typing import TypeAlias

from amanda.types.polynomial import (
    CALL,
    Atom,
    Monomial,
    Terms,
    add,
    as_int,
    divide_monomial,
    negate,
    scale,
    subtract,
)

Bound: TypeAlias = int | float  # a float is an infinity
_STEPS = 64  # rewrites that one question may try


def interval(terms: Terms) -> tuple[Bound, Bound]:
    """Bounds of the sum, from the bounds of each term."""
    low: Bound = 0
    high: Bound = 0
    for monomial, coefficient in terms:
        ends: tuple[Bound, Bound] = (coefficient, coefficient)
        for atom in monomial:
            ends = _multiply_intervals(ends, _atom_interval(atom))
        low, high = _sum(low, ends[0]), _sum(high, ends[1])
    return low, high


def _atom_interval(atom: Atom) -> tuple[Bound, Bound]:
    return _call_interval(atom) if atom[0] == CALL else (0, inf)


@lru_cache(maxsize=4096)
def _call_interval(atom: Atom) -> tuple[Bound, Bound]:
    ends = [interval(operand) for operand in atom[4]]
    if atom[1] == "//":
        return _quotient(*ends)
    choose = min if atom[1] == "min" else max
    return choose(low for low, _ in ends), choose(high for _, high in ends)


def _quotient(
    top: tuple[Bound, Bound], bottom: tuple[Bound, Bound]
) -> tuple[Bound, Bound]:
    """Of floor(top / bottom), for a divisor that cannot be negative (nor, then, 0)."""
    if bottom[0] < 0:
        return -inf, inf
    least, most = max(bottom[0], 1), max(bottom[1], 1)
    low = _floor(top[0], most if top[0] >= 0 else least)
    high = _floor(top[1], least if top[1] >= 0 else most)
    return low, high


def _floor(top: Bound, bottom: Bound) -> Bound:
    if isinstance(top, float):
        return top
    if isinstance(bottom, float):
        return 0 if top >= 0 else -1
    return top // bottom


def _multiply_intervals(
    left: tuple[Bound, Bound], right: tuple[Bound, Bound]
) -> tuple[Bound, Bound]:
    products = [_product(a, b) for a in left for b in right]
    return min(products), max(products)


def _sum(a: Bound, b: Bound) -> Bound:
    """A sum that avoids overflow: an infinite float absorbs large ints."""
    if isinstance(a, float):
        return a
    return b if isinstance(b, float) else a + b


def _product(a: Bound, b: Bound) -> Bound:
    if not a or not b:
        return 0
    if isinstance(a, float) or isinstance(b, float):
        return inf if (a > 0) == (b > 0) else -inf
    return a * b


def lower(terms: Terms) -> Bound:
    """The best lower bound found in bounded time; -inf if there is none."""
    return _Search().lower(terms)


def upper(terms: Terms) -> Bound:
    return -lower(negate(terms))


class _Search:
    """Bounds a polynomial by simpler ones without calls, within a budget of steps."""

    def __init__(self) -> None:
        self.steps = _STEPS

    def lower(self, terms: Terms) -> Bound:
        best = interval(terms)[0]
        for monomial, coefficient in terms:
            for atom in set(monomial):
                if atom[0] != CALL or self.steps <= 0:
                    continue
                self.steps -= 1
                found = (
                    self._bound_quotient(terms, monomial, coefficient, atom)
                    if atom[1] == "//"
                    else self._bound_choice(terms, monomial, coefficient, atom)
                )
                best = max(best, found)
        return best

    def _bound_quotient(
        self, terms: Terms, monomial: Monomial, factor: int, atom: Atom
    ) -> Bound:
        """Uses b * (a // b) == a - r with 0 <= r <= b - 1."""
        top, bottom = atom[4]
        if len(bottom) != 1 or interval(bottom)[0] < 0:
            return -inf
        ((by, count),) = bottom
        if divide_monomial(monomial, (atom,)) != by:
            return -inf
        rest = tuple(term for term in terms if term[0] != monomial)
        value = top
        if factor > 0:
            value = add(subtract(top, bottom), (((), 1),))
        bound = self.lower(add(scale(rest, count), scale(value, factor)))
        return bound if isinstance(bound, float) else -(-bound // count)

    def _bound_choice(
        self, terms: Terms, monomial: Monomial, factor: int, atom: Atom
    ) -> Bound:
        """Uses that min or max is one of its operands, and bounds them all."""
        if monomial != (atom,):
            return -inf
        rest = tuple(term for term in terms if term[0] != monomial)
        bounds = (self.lower(add(rest, scale(x, factor))) for x in atom[4])
        any_suffices = (atom[1] == "max") == (factor > 0)
        return max(bounds) if any_suffices else min(bounds)


@lru_cache(maxsize=4096)
def is_zero(terms: Terms) -> bool | None:
    """True or False if it can be proved, else None.

    Cached, since ops after each other compare the same sizes."""
    value = as_int(terms)
    if value is not None:
        return value == 0
    if _is_never_zero(terms):
        return False
    low, high = lower(terms), upper(terms)
    if low > 0 or high < 0:
        return False
    return True if low == high == 0 else None


def _is_never_zero(terms: Terms) -> bool:
    """True if divisibility excludes zero, as for 2*n + 1."""
    rest = next((c for m, c in terms if not m), 0)
    return rest % gcd(*(c for m, c in terms if m)) != 0
