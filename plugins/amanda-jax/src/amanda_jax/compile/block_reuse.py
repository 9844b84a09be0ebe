"""Blocks that a graph repeats: the layers of a transformer, the blocks of a network.

One program is compiled for all of them, and called once for each, with its weights. So
the time to compile follows what is different, not how deep a model is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from amanda.graph import Graph, Op, OutputPort
from amanda.tensors import value_digest
from amanda_jax.compile.structure_hash import alone, structure
from amanda_jax.shapes.static_values import followed

__all__ = ["blocks", "labels", "likeness"]

FEWEST: Final = 16
"""Times that something is repeated, at least: each call of a block costs a little."""
SMALLEST: Final = 8
"""Ops of a block, at least."""


class _Run(NamedTuple):
    """Where something is repeated, in the order of ops: begin, length, times."""

    begin: int
    length: int
    times: int

    @property
    def saved(self) -> int:
        return self.length * (self.times - 1)


def blocks(graph: Graph, is_free: Callable[[Op], bool]) -> list[list[Op]]:
    """The blocks that are repeated most, one after the other; none if it is not worth
    it. They look alike; `likeness` tells whether they are."""
    ops = [op for op in graph if not is_free(op)]
    if len(ops) < FEWEST * SMALLEST:
        return []
    marks: dict[Any, int] = {}
    signs = np.array([marks.setdefault(_sign(op), len(marks)) for op in ops])
    run = _longest(signs)
    if run is None:
        return []
    begin, length, times = _least_crossing(ops, run)
    return [
        ops[at : at + length] for at in range(begin, begin + length * times, length)
    ]


def _sign(op: Op) -> Any:
    """What ops at the same place of equal blocks have in common."""
    parts: list[bytes] = []
    for key in sorted(op.attrs) if op.has_attrs else ():
        parts.append(key.encode())
        value_digest(op.attrs[key], parts.append)
    given = tuple(
        None if v is None else (str(v.type) if is_constant_port(v) else "value")
        for v in op.inputs
    )
    bodies = tuple((name, alone(op.bodies[name])) for name in sorted(op.bodies))
    made = tuple(str(port.type) for port in op.outputs)
    return op.type, b"".join(parts), given, made, bodies


def is_constant_port(value: OutputPort) -> bool:
    return not isinstance(value.op, Graph) and value.op.is_constant


def _longest(signs: Any) -> _Run | None:
    """What saves most, of all that is repeated without a gap."""
    best: _Run | None = None
    for length in range(SMALLEST, len(signs) // FEWEST + 1):
        same = signs[:-length] == signs[length:]
        edges = np.flatnonzero(np.diff(np.concatenate(([0], same, [0]))))
        for first, end in zip(edges[::2], edges[1::2], strict=True):
            times = int(end - first) // length + 1
            found = _Run(int(first), length, times)
            if times >= FEWEST and (best is None or found.saved > best.saved):
                best = found
    return best


def _least_crossing(ops: Sequence[Op], run: _Run) -> _Run:
    """The same, shifted to where the fewest values go from block to block."""
    places = {op: i for i, op in enumerate(ops)}
    first = run.begin
    last = {op: max((places.get(u, -1) for v in op.outputs for u in v.user_ops),
                    default=-1) for op in ops[first:]}  # fmt: skip
    crossing = [
        sum(last[op] >= at for op in ops[first:at])
        for at in range(first + run.length, first + 2 * run.length)
    ]
    shift = int(np.argmin(crossing))
    room = run.length * (run.times - 1)
    end = first + room + run.length
    while end < len(ops) and _sign(ops[end]) == _sign(ops[end - run.length]):
        end += 1
    times = (end - first - shift) // run.length
    return _Run(first + shift, run.length, times)


def likeness(graph: Graph) -> str | None:
    """A key: programs of graphs with equal ones differ in nothing but their weights.

    None where data decides something in it."""
    found = followed(graph)
    return None if found.data else structure(graph, found.constants)


def labels(found: Sequence[Collection[Op]]) -> dict[Op, int]:
    """The number of the block that an op is in."""
    return {op: i for i, block in enumerate(found) for op in block}
