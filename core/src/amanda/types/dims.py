"""Dims: integers, and exact expressions over symbols that stand for integers.

A symbol is an integer >= 0. Expressions are in canonical form, so expressions that are
equal by the laws of arithmetic have the same text. Comparisons return what can be
proved, and raise `Undecided` otherwise: a silent guess would hard-code one case.
"""

from __future__ import annotations

import os
import reprlib
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import Any, Final, TypeAlias

from amanda.errors import InvalidTypeError, Undecided
from amanda.types import polynomial
from amanda.types.bounds import is_zero, lower
from amanda.types.polynomial import ANONYMOUS, CALL, NAMED, Atom, Terms
from amanda.types.quotients import choose, floordiv, modulo, substitute
from amanda.types.quoting import check_text, format_name

__all__ = ["Dim", "Sym", "Symbols", "dim_key", "evaluate", "maximum", "minimum"]

_MAX_NUMBER: Final = 10**9


def _unique_numbers() -> count[int]:
    """Numbers unique to this process, so that pickles of several can be combined."""
    return count(int.from_bytes(os.urandom(6), "little") << 24)


_next_number = _unique_numbers()


def _reseed_after_fork() -> None:
    global _next_number
    _next_number = _unique_numbers()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reseed_after_fork)


class Sym:
    """A symbolic dim: an exact integer expression over symbols.

    >>> n = Sym.named("n")
    >>> (n + 1) * 2 - 2, (6 * n) // 3, n + 1 > n, n + 1 == 0
    (2*n, 2*n, True, False)
    >>> n == 4
    Traceback (most recent call last):
    ...
    amanda.errors.Undecided: cannot tell whether n == 4
      to do:    compare `.key` to ask whether two dims are written the same

    `a // b` implies that b is not zero: `(a * b) // b` is a. `hash` and `key` use the
    canonical form; dims with equal `key` are equal.
    """

    __slots__ = ("_hash", "terms")

    __array_ufunc__ = None  # numpy scalars defer to these operators

    terms: Terms
    _hash: int

    def __init__(self) -> None:
        raise TypeError("use Sym.named, Sym.unknown or arithmetic to create a Sym")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Sym cannot be changed ({name})")

    @staticmethod
    def named(name: str) -> Sym:
        """The symbol of a name; symbols of one name are equal."""
        if not name:
            raise InvalidTypeError("a symbol needs a name")
        check_text(name, "the name of a symbol")
        return _sym(polynomial.of_atom((NAMED, name)))

    @staticmethod
    def unknown() -> Sym:
        """A symbol without a name, equal only to itself."""
        return _sym(polynomial.of_atom((ANONYMOUS, next(_next_number), 0)))

    @property
    def key(self) -> Terms:
        """Hashable; equal for dims with the same text. Never raises."""
        return self.terms

    @property
    def name(self) -> str | None:
        """The name, if this is a single named symbol; None otherwise."""
        atom = _plain_atom(self.terms)
        return atom[1] if atom is not None and atom[0] == NAMED else None

    @property
    def is_anonymous(self) -> bool:
        """True if this is a single symbol without a name."""
        atom = _plain_atom(self.terms)
        return atom is not None and atom[0] == ANONYMOUS

    @property
    def free(self) -> frozenset[Sym]:
        """The symbols in this expression."""
        return frozenset(
            _sym(polynomial.of_atom(atom)) for atom in polynomial.atoms(self.terms)
        )

    def substitute(self, values: Values) -> Dim:
        """Replace symbols, given as names or Syms, by dims.

        >>> (Sym.named("n") // 2 + 1).substitute({"n": 7})
        4
        """
        return _dim(substitute(self.terms, _by_atom(values)))

    def text(self, symbols: Symbols | None = None) -> str:
        """The text; `symbols` numbers anonymous symbols."""
        return _format_terms(
            self.terms if symbols is None else symbols.number_symbols(self.terms)
        )

    def __repr__(self) -> str:
        return self.text()

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return (_sym, (self.terms,))

    def __copy__(self) -> Sym:
        return self

    def __deepcopy__(self, memo: object) -> Sym:
        return self

    def __add__(self, other: Dim) -> Dim:
        return _apply(polynomial.add, self, other)

    def __sub__(self, other: Dim) -> Dim:
        return _apply(polynomial.subtract, self, other)

    def __mul__(self, other: Dim) -> Dim:
        return _apply(polynomial.multiply, self, other)

    def __floordiv__(self, other: Dim) -> Dim:
        return _apply(floordiv, self, other)

    def __mod__(self, other: Dim) -> Dim:
        return _apply(modulo, self, other)

    def __radd__(self, other: Dim) -> Dim:
        return _apply(polynomial.add, other, self)

    def __rsub__(self, other: Dim) -> Dim:
        return _apply(polynomial.subtract, other, self)

    def __rmul__(self, other: Dim) -> Dim:
        return _apply(polynomial.multiply, other, self)

    def __rfloordiv__(self, other: Dim) -> Dim:
        return _apply(floordiv, other, self)

    def __rmod__(self, other: Dim) -> Dim:
        return _apply(modulo, other, self)

    def __neg__(self) -> Dim:
        return _dim(polynomial.negate(self.terms))

    def __pos__(self) -> Sym:
        return self

    def __eq__(self, other: object) -> bool:
        right = _terms(other)
        if right is None:
            return NotImplemented
        if self.terms == right:
            return True
        answer = is_zero(polynomial.subtract(self.terms, right))
        return _require_answer(answer, self, "==", other)

    def __ne__(self, other: object) -> bool:
        right = _terms(other)
        if right is None:
            return NotImplemented
        return not self == other

    def __lt__(self, other: Dim) -> bool:
        return _is_less(self, other, "<")

    def __le__(self, other: Dim) -> bool:
        return not _is_less(other, self, "<=", swapped=True)

    def __gt__(self, other: Dim) -> bool:
        return _is_less(other, self, ">", swapped=True)

    def __ge__(self, other: Dim) -> bool:
        return not _is_less(self, other, ">=")

    def __bool__(self) -> bool:
        return self != 0

    def __index__(self) -> int:
        raise Undecided(f"the value of {self} is not known")

    __int__ = __index__


Dim: TypeAlias = int | Sym

# Values of symbols, by name or Sym; mappings are invariant in keys.
Values: TypeAlias = (
    Mapping[str, Dim]
    | Mapping[Sym, Dim]
    | Mapping[str | Sym, Dim]
    | Mapping[str, int]
    | Mapping[Sym, int]
)


class Symbols:
    """The anonymous symbols of one document, by number.

    Written with it, they become `?1, ?2, ...` in order of appearance; parsed with it,
    one number is one symbol. Parsing and writing restores the text.

    >>> a, b = Sym.unknown(), Sym.unknown()
    >>> scope = Symbols()
    >>> b.text(scope), (a + b).text(scope)
    ('?1', '?1+?2')
    """

    def __init__(self, *, watching: bool = False) -> None:
        self._scope = next(_next_number)
        self._numbers: dict[Atom, int] = {}
        self._last = 0
        self._roles: dict[Atom, list[str]] | None = {} if watching else None
        self._seen = 0
        self.is_ambiguous = False  # True if the order of creation decided a number

    def read(self, number: int) -> Sym:
        """The symbol of a number in this document."""
        if not 0 < number <= _MAX_NUMBER:
            raise InvalidTypeError(
                "invalid number of a symbol", expected=f"1 to {_MAX_NUMBER}", got=number
            )
        # The number in the atom preserves the order, and so the text, of the document.
        atom = (ANONYMOUS, self._scope, number)
        self._numbers[atom] = number
        self._last = max(self._last, number)
        return _sym(polynomial.of_atom(atom))

    def number_symbols(self, terms: Terms) -> Terms:
        """Replace identities of anonymous symbols by numbers, and sort by them."""
        found = [a for a in polynomial.atoms(terms) if a[0] == ANONYMOUS]
        if not found:
            return terms
        if self._roles is not None:
            self._record_roles(terms, found)
        fresh = sorted(atom for atom in found if atom not in self._numbers)
        self.is_ambiguous |= len(fresh) > 1
        for atom in fresh:
            self._last += 1
            self._numbers[atom] = self._last
        names = {atom: (ANONYMOUS, 0, self._numbers[atom]) for atom in found}
        return polynomial.rename(terms, names)

    def _record_roles(self, terms: Terms, found: Iterable[Atom]) -> None:
        """Record the role of each symbol in this expression."""
        assert self._roles is not None
        self._seen += 1
        others = dict.fromkeys(found, (ANONYMOUS, 0, 2))
        for atom in others:
            alone = polynomial.rename(terms, {**others, atom: (ANONYMOUS, 0, 1)})
            role = f"{self._seen:12}{_format_terms(alone)}"
            self._roles.setdefault(atom, []).append(role)

    def by_role(self) -> Symbols:
        """A numbering by the recorded roles of the symbols, independent of identity.

        In `?+?` only the order of creation decides which symbol is first, and it may
        differ in a copy. Their roles elsewhere are the same in a document and its copy.
        """
        numbered = Symbols()
        roles = self._roles or {}
        for atom in sorted(roles, key=lambda atom: (roles[atom], atom)):
            numbered._last += 1
            numbered._numbers[atom] = numbered._last
        return numbered


def minimum(*dims: Dim) -> Dim:
    """The minimum of dims, as an expression if it is not decided.

    >>> minimum(Sym.named("n"), 4, 7)
    min(4, n)
    """
    return _dim(choose("min", map(_dim_terms, dims)))


def maximum(*dims: Dim) -> Dim:
    """The maximum of dims, as an expression if it is not decided."""
    return _dim(choose("max", map(_dim_terms, dims)))


def evaluate(dim: Dim, values: Values) -> int:
    """The value of a dim, given all its symbols; `Undecided` if one is missing."""
    found = dim.substitute(values) if isinstance(dim, Sym) else dim
    if isinstance(found, Sym):
        missing = ", ".join(sorted(str(symbol) for symbol in found.free))
        raise Undecided(f"{dim} cannot be evaluated", expected=f"values of {missing}")
    return found


def dim_key(dim: Dim) -> int | Terms:
    """Hashable; equal for dims with the same text."""
    return dim.terms if isinstance(dim, Sym) else dim


def _sym(terms: Terms) -> Sym:
    sym = object.__new__(Sym)
    object.__setattr__(sym, "terms", terms)
    object.__setattr__(sym, "_hash", hash(terms))
    return sym


def _dim(terms: Terms) -> Dim:
    value = polynomial.as_int(terms)
    return _sym(terms) if value is None else value


def _terms(value: object) -> Terms | None:
    """The polynomial of a dim; None if the value is not a dim."""
    if isinstance(value, Sym):
        return value.terms
    if not hasattr(value, "__index__"):
        return None
    return polynomial.constant(value.__index__())


def _dim_terms(value: object) -> Terms:
    terms = _terms(value)
    if terms is None:
        raise InvalidTypeError("a dim is an int or a Sym", got=reprlib.repr(value))
    return terms


def _apply(function: Callable[[Terms, Terms], Terms], a: object, b: object) -> Dim:
    left, right = _terms(a), _terms(b)
    if left is None or right is None:
        return NotImplemented  # type: ignore[no-any-return]
    return _dim(function(left, right))


def _is_less(a: object, b: object, sign: str, *, swapped: bool = False) -> bool:
    left, right = _terms(a), _terms(b)
    if left is None or right is None:
        raise TypeError(f"a dim cannot be compared with {a if left is None else b!r}")
    difference = polynomial.subtract(right, left)
    answer: bool | None = None
    if lower(difference) > 0:
        answer = True
    elif lower(polynomial.negate(difference)) >= 0:
        answer = False
    return _require_answer(answer, b if swapped else a, sign, a if swapped else b)


def _require_answer(
    answer: bool | None, left: object, sign: str, right: object
) -> bool:
    if answer is None:
        raise Undecided(
            f"cannot tell whether {left} {sign} {right}",
            hint="compare `.key` to ask whether two dims are written the same",
        )
    return answer


def _plain_atom(terms: Terms) -> Atom | None:
    """The atom of a polynomial that is a single symbol."""
    if len(terms) == 1 and terms[0][1] == 1 and len(terms[0][0]) == 1:
        atom = terms[0][0][0]
        return None if atom[0] == CALL else atom
    return None


def _by_atom(values: Values) -> dict[Atom, Terms]:
    result: dict[Atom, Terms] = {}
    for symbol, value in values.items():
        atom = (NAMED, symbol) if isinstance(symbol, str) else _plain_atom(symbol.terms)
        if atom is None:
            raise InvalidTypeError("only a plain symbol can be replaced", got=symbol)
        result[atom] = _dim_terms(value)
    return result


def _format_terms(terms: Terms) -> str:
    """The text: higher powers first, the constant last."""
    parts: list[str] = []
    for monomial, coefficient in sorted(terms, key=lambda term: -len(term[0])):
        parts.append("-" if coefficient < 0 else "+")
        if coefficient == 1 and len(monomial) == 1:
            parts.append(_format_atom(monomial[0], bare=True))
            continue
        factors = [_format_atom(atom) for atom in monomial]
        if abs(coefficient) != 1 or not factors:
            factors.insert(0, str(abs(coefficient)))
        parts.append("*".join(factors))
    return "".join(parts).removeprefix("+") or "0"


def _format_atom(atom: Atom, bare: bool = False) -> str:
    # -a//b parses as (-a)//b: a quotient has no parentheses only as a whole term.
    if atom[0] == NAMED:
        return format_name(atom[1])
    if atom[0] == ANONYMOUS:
        return "?" if atom[1] else f"?{atom[2]}"
    function, operands = atom[1], atom[4]
    if function != "//":
        return f"{function}({', '.join(map(_format_terms, operands))})"
    text = "//".join(map(_format_operand, operands))
    return text if bare else f"({text})"


def _format_operand(terms: Terms) -> str:
    plain = _plain_atom(terms) is not None or polynomial.as_int(terms) is not None
    text = _format_terms(terms)
    return text if plain and not text.startswith("-") else f"({text})"


def product(dims: Iterable[Dim]) -> Dim:
    """The product of dims; 1 for none."""
    result: Dim = 1
    for dim in dims:
        result = result * dim
    return result
