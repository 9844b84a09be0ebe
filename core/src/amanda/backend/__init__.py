"""Backends: what they have to be, and what the core does around each call of one.

A backend takes a graph of its own namespace and makes it something that can be called.
Around that, for every backend alike, `Compiled` checks what is fed, names what comes
out, and sees to it that a call is a function: nothing that it returns is part of what
went in, or of another result.
"""

from __future__ import annotations

from amanda.backend._compiled import Compiled
from amanda.backend._executable_cache import Kept, kept_key
from amanda.backend._fallback import Party, Placement, Split, split, untaken
from amanda.backend._feeds import misfits
from amanda.backend._lowering import Lowered, lower_for_backend
from amanda.backend._partition import Piece, extracted, pieces
from amanda.backend._protocols import (
    Backend,
    Executable,
    Key,
    Slot,
    consumes,
    refusals,
)
from amanda.backend._targets import target_of
from amanda.backend._value_lookup import Handles

__all__ = [
    "Backend",
    "Compiled",
    "Executable",
    "Handles",
    "Kept",
    "Key",
    "Lowered",
    "Party",
    "Piece",
    "Placement",
    "Slot",
    "Split",
    "consumes",
    "extracted",
    "kept_key",
    "lower_for_backend",
    "misfits",
    "pieces",
    "refusals",
    "split",
    "untaken",
    "target_of",
]
