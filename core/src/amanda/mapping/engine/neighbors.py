"""The ops that a pattern wants around the op it is rooted at."""

from __future__ import annotations

from typing import Final, NamedTuple

from amanda.mapping.engine.matcher import require_signature
from amanda.mapping.rules.terms import OpTerm, Var
from amanda.mapping.side import Side

__all__ = [
    "EITHER_INPUT",
    "CONTROL_INPUT",
    "RequiredNeighbor",
    "is_chain",
    "required_neighbors",
]

EITHER_INPUT: Final = -1
"""In place of the number of an input: it may be either of two."""
CONTROL_INPUT: Final = -2
"""In place of the number of an input: at the other end of a control edge."""
_DEPTH: Final = 3
"""How far it is told. Each step may double the ops to look at, where either of two
inputs will do."""


class RequiredNeighbor(NamedTuple):
    """One of them, and what it needs in turn."""

    at: int
    """Which input it makes, or one of the words above."""
    type: str
    needs: tuple[RequiredNeighbor, ...] = ()


def required_neighbors(
    term: OpTerm, side: Side, depth: int = _DEPTH
) -> tuple[RequiredNeighbor, ...]:
    """What must stand there for a term to match; it may be that more must."""
    if depth == 0:
        return ()
    signature = require_signature(side, term)
    found = [(at, arg) for at, arg in enumerate(term.args) if isinstance(arg, OpTerm)]
    rest = [at for at, arg in enumerate(term.args) if _is_rest(arg)]
    if signature.commutative and len(term.args) == 2 and not rest:
        found = [(EITHER_INPUT, arg) for _, arg in found]
    elif rest:  # what stands behind it is counted from the end
        found = [(at, arg) for at, arg in found if at < rest[0]]
    found += [(CONTROL_INPUT, other) for other in term.waits]
    return tuple(
        RequiredNeighbor(at, part.type, required_neighbors(part, side, depth - 1))
        for at, part in found
    )


def is_chain(needs: tuple[RequiredNeighbor, ...]) -> bool:
    """Is each of them the only one that its op has?"""
    return len(needs) == 0 or (len(needs) == 1 and is_chain(needs[0].needs))


def _is_rest(part: object) -> bool:
    return isinstance(part, Var) and part.rest
