"""The ops that a pattern wants around the op it is rooted at."""

from __future__ import annotations

from typing import Final, NamedTuple

from amanda.mapping.engine.matcher import known
from amanda.mapping.rules.terms import Term, Var
from amanda.mapping.side import Side

__all__ = ["ANYWHERE", "BEFORE", "Need", "is_line", "needs_of"]

ANYWHERE: Final = -1
"""In place of the number of an input: it may be either of two."""
BEFORE: Final = -2
"""In place of the number of an input: at the other end of a control edge."""
_DEPTH: Final = 3
"""How far it is told. Each step may double the ops to look at, where either of two
inputs will do."""


class Need(NamedTuple):
    """One of them, and what it needs in turn."""

    at: int
    """Which input it makes, or one of the words above."""
    type: str
    needs: tuple[Need, ...] = ()


def needs_of(term: Term, side: Side, depth: int = _DEPTH) -> tuple[Need, ...]:
    """What must stand there for a term to match; it may be that more must."""
    if depth == 0:
        return ()
    signature = known(side, term)
    found = [(at, arg) for at, arg in enumerate(term.args) if isinstance(arg, Term)]
    rest = [at for at, arg in enumerate(term.args) if _is_rest(arg)]
    if signature.commutative and len(term.args) == 2 and not rest:
        found = [(ANYWHERE, arg) for _, arg in found]
    elif rest:  # what stands behind it is counted from the end
        found = [(at, arg) for at, arg in found if at < rest[0]]
    found += [(BEFORE, other) for other in term.waits]
    return tuple(
        Need(at, part.type, needs_of(part, side, depth - 1)) for at, part in found
    )


def is_line(needs: tuple[Need, ...]) -> bool:
    """Is each of them the only one that its op has?"""
    return len(needs) == 0 or (len(needs) == 1 and is_line(needs[0].needs))


def _is_rest(part: object) -> bool:
    return isinstance(part, Var) and part.rest
