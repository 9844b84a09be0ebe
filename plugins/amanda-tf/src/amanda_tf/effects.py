"""Which ops have effects."""

from __future__ import annotations

from typing import Final

from amanda.graph import Op

__all__ = ["has_effects"]

_EFFECTS: Final = ("Assert", "PrintV2", "StatefulPartitionedCall", "If", "While")
_EFFECT_PREFIXES: Final = (
    "Assign", "ResourceApply", "ResourceSparseApply", "ResourceScatter",
    "ResourceStridedSliceAssign", "ResourceCountUpTo", "LookupTableInsert",
    "LookupTableImport", "LookupTableRemove",
)  # fmt: skip


def has_effects(op: Op) -> bool:
    """Whether an op of a function runs in every call: it assigns, checks or prints.

    TensorFlow prunes from functions what has no effect and what no result needs.
    """
    kind = op.type or ""
    if op.bodies:
        return any(has_effects(each) for body in op.bodies.values() for each in body)
    return kind in _EFFECTS or kind.startswith(_EFFECT_PREFIXES)
