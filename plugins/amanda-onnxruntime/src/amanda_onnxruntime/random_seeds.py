"""Seeds for the random ops of a graph that have none of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from zlib import crc32

from amanda.graph import Graph, Op
from amanda.host import host_in_use

__all__ = ["random_ops", "with_seeds"]

_SEED, _TRAINING = "seed", "training_mode"
_EXACT = 1 << 24
"""Up to here all integers are numbers of float32, the type of the attribute."""


def random_ops(graph: Graph) -> list[Op]:
    """The ops that draw random numbers, in bodies and functions too."""
    return list(_random_ops(graph))


def _random_ops(graph: Graph) -> Iterator[Op]:
    host, known = host_in_use(), {}
    for part in graph.graphs():
        for op in part:
            key = (op.namespace, op.type)
            if key not in known:
                entry = None if isinstance(op, Graph) else host.definition(op)
                known[key] = _training_input(entry)
            at = known[key]
            if at == 0 or (at is not None and len(op.inputs) > at and op.inputs[at]):
                yield op


def _training_input(entry: object) -> int | None:
    """The input that makes an op draw, 0 for ops that always do; None if none do."""
    if _SEED not in (attr.name for attr in getattr(entry, "attrs", ())):
        return None
    names = [port.name for port in getattr(entry, "inputs", ())]
    return names.index(_TRAINING) if _TRAINING in names else 0


def with_seeds(graph: Graph, seed: int | None) -> Graph:
    """A copy whose random ops have seeds, made of `seed` or of the system's entropy.

    The graph itself if nothing draws."""
    if not random_ops(graph):
        return graph
    start = os.urandom(8).hex() if seed is None else str(seed)
    copy = graph.clone()
    for i, op in enumerate(random_ops(copy)):
        if _SEED not in op.attrs:
            number = crc32(f"{start} {i}".encode()) % _EXACT
            attr = host_in_use().definition(op).attr(_SEED)
            is_whole = attr is not None and attr.kind == "int"
            op.attrs[_SEED] = number if is_whole else float(number)
    return copy
