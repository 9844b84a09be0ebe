"""Where the ops of a converted graph come from: ops of the model's own namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from amanda.graph import Graph, Op

__all__ = ["SourceOp", "Sources"]


class SourceOp(NamedTuple):
    """An op of the model that an op of the instrumented graph was converted from."""

    name: str
    type: str
    """Its type in the namespace of the model; empty if the model has no such op."""


class Sources:
    """Source ops and scopes, by the names that provenance has."""

    def __init__(self, model: Graph, converted: Graph) -> None:
        from amanda.graph import ScopeTable

        self._types = {
            op.name: op.type or "" for op in model.walk() if op.name is not None
        }
        self._scopes = ScopeTable.of(converted) or ScopeTable.of(model)

    def of(self, op: Op) -> tuple[SourceOp, ...]:
        """The source ops of an op; the op itself where nothing was converted."""
        made = op.provenance
        names = list(made.sources) if made is not None else []
        if op.name is not None and (not names or op.name in self._types):
            names.append(op.name)
        return tuple(
            SourceOp(name, self._types.get(name, "")) for name in dict.fromkeys(names)
        )

    def scope_of(self, op: Op) -> str:
        """The path of the innermost module in which an op was written, or ''."""
        scope = None if self._scopes is None else self._scopes.scope_of(op)
        return "" if scope is None or not scope.modules else scope.modules[-1]
