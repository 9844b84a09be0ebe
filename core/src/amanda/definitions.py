"""From an op to the entry in its dictionary: what `op.definition` asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amanda.api import namespace
from amanda.errors import NamespaceError

if TYPE_CHECKING:
    from amanda.graph import Op
    from amanda.host import Host

__all__ = ["definition"]


def definition(op: Op, *, host: Host | None = None) -> Any:
    """The entry of an op in the dictionary of its namespace; None where there is none.

    `op.definition` is the same, by the default host.
    """
    if op.type is None or op.namespace is None:
        return None
    try:
        known = namespace(op.namespace, host=host)
    except NamespaceError:
        return None
    if op.type not in known:
        return None
    return known[op.type]
