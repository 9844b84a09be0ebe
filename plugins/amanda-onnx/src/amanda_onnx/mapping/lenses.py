"""Lenses of this mapping: attributes that old opsets do not have, at their defaults.

What an attribute means that is not there is told by `do`; `undo` leaves it out again,
so that an opset without it can take the op.
"""

from __future__ import annotations

from typing import Any

from amanda.mapping import Decline, RuleSet

__all__ = ["declare"]


def _switch(value: Any) -> bool:
    if value not in (None, 0, 1):
        raise Decline(f"{value!r} is neither 0 nor 1")
    return bool(value)


def _unswitch(value: Any) -> int | None:
    return 1 if _switch(value) else None


def _spread(value: Any) -> Any:
    return None if value is None or all(step == 1 for step in value) else list(value)


def _reduction(value: Any) -> Any:
    return "none" if value is None else value


def _unreduction(value: Any) -> Any:
    return None if value == "none" else value


_ROWS: tuple[tuple[Any, ...], ...] = (
    ("switch", _switch, _unswitch, lambda r: (r.choice([None, 0, 1]),),
     "1 to true, 0 or nothing to false"),
    ("spread", _spread, _spread, lambda r: (r.choice([None, [1, 1], [2, 1]]),),
     "steps; nothing where all are 1"),
    ("reduction", _reduction, _unreduction,
     lambda r: (r.choice([None, "none", "add"]),),
     "how updates are joined; nothing where they replace"),
)  # fmt: skip


def declare(rules: RuleSet) -> None:
    """Add them to a set of rules."""
    for name, do, undo, draw, doc in _ROWS:
        rules.lens(name, do, undo, draw, doc, exact=False, takes_none=True)
