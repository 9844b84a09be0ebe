"""The ops that a pattern requires around its root."""

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
"""Instead of an input number: either of two inputs."""
CONTROL_INPUT: Final = -2
"""Instead of an input number: a control input."""
_DEPTH: Final = 3
"""The depth. Each level may double the number of ops to test, where ops are
commutative."""


class RequiredNeighbor(NamedTuple):
    """One neighbor, and the neighbors that it requires in turn."""

    at: int
    """The input that it produces, or one of the constants above."""
    type: str
    needs: tuple[RequiredNeighbor, ...] = ()


def required_neighbors(
    term: OpTerm, side: Side, depth: int = _DEPTH
) -> tuple[RequiredNeighbor, ...]:
    """Neighbors that are necessary for a term to match, though not sufficient."""
    if depth == 0:
        return ()
    signature = require_signature(side, term)
    found = [(at, arg) for at, arg in enumerate(term.args) if isinstance(arg, OpTerm)]
    rest = [at for at, arg in enumerate(term.args) if _is_rest(arg)]
    if signature.commutative and len(term.args) == 2 and not rest:
        found = [(EITHER_INPUT, arg) for _, arg in found]
    elif rest:  # positions behind it count from the end
        found = [(at, arg) for at, arg in found if at < rest[0]]
    found += [(CONTROL_INPUT, other) for other in term.waits]
    return tuple(
        RequiredNeighbor(at, part.type, required_neighbors(part, side, depth - 1))
        for at, part in found
    )


def is_chain(needs: tuple[RequiredNeighbor, ...]) -> bool:
    """Whether each of them has at most one neighbor in turn."""
    return len(needs) == 0 or (len(needs) == 1 and is_chain(needs[0].needs))


def _is_rest(part: object) -> bool:
    return isinstance(part, Var) and part.rest
