"""Chains of ops along which values that are not finite spread."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from amanda.graph import Graph, Op, OutputPort
from amanda.types import TensorType
from amanda_std.backends import Trait, has_trait
from amanda_tools.analysis.selection import is_float_tensor

__all__ = ["chains"]


def chains(observed: Collection[Op], graph: Graph) -> dict[Op, list[Op]]:
    """The observed ops by the op whose values are not finite if theirs are not.

    These are the last ops of chains; an op that no other one shows is the last of its
    own. An op goes to the nearest of the chains that it is in, so that its values are
    kept no longer than needed."""
    found: dict[Op, list[Op]] = {}
    for part in graph.graphs():
        order = list(part)
        position = {op: index for index, op in enumerate(order)}
        last_of: dict[Op, Op | None] = {}
        for op in reversed(order):
            shown_by = [last_of[reader] for reader in _spreading_readers(op)]
            lasts = [last for last in shown_by if last is not None]
            if lasts:
                last_of[op] = min(lasts, key=position.__getitem__)
            else:
                last_of[op] = op if op in observed else None
        for op in order:
            last = last_of[op]
            if op in observed and last is not None:
                others = found.setdefault(last, [])
                if op is not last:
                    others.append(op)
    return found


def _spreading_readers(op: Op) -> Iterator[Op]:
    """Ops of the same graph whose only result is not finite if that of `op` is not."""
    if len(op.outputs) != 1:
        return
    for user in op.output.users:
        reader = user.op
        if (
            reader.graph is op.graph
            and has_trait(reader, Trait.SPREADS_NON_FINITE)
            and len(reader.outputs) == 1
            and is_float_tensor(reader.output)
            and _has_elements_if(reader.output, op.output)
        ):
            yield reader


def _has_elements_if(result: OutputPort, argument: OutputPort) -> bool:
    """Whether a result surely has elements if an argument has some."""
    if not isinstance(result.type, TensorType):
        return False
    dims = result.type.shape.key
    known = argument.type.shape.key if isinstance(argument.type, TensorType) else None
    return dims is not None and all(
        dim != 0 if isinstance(dim, int) else dim in (known or ()) for dim in dims
    )
