"""Where a graph is cut: around what XLA cannot take, and before what data decides."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Final

from amanda.graph import Graph, Op, OutputPort, Parameter
from amanda.types import TensorType
from amanda_jax.compile.block_reuse import blocks, labels
from amanda_jax.compile.code import Build, Code
from amanda_jax.compile.jitted_program import Program
from amanda_jax.compile.pieces import Pieces
from amanda_jax.compile.python_ops import DECIDED_BY_DATA
from amanda_jax.compile.specialize import Special
from amanda_jax.shapes.static_values import behind, followed
from amanda_jax.weights.device_weights import LITERAL
from amanda_std.backends import effect_of

__all__ = ["code_of"]

CHEAP: Final = 64
"""Ops of small integers up to which it costs nothing to compute a value twice."""


def code_of(
    graph: Graph, build: Build, outside: Mapping[Op, str] | None = None
) -> Code:
    """What runs a graph that is `prepared`. `outside`: more ops that XLA cannot take,
    with the reason."""
    apart = {op: why for op in graph if (why := why_outside(op)) is not None}
    apart.update(outside or {})
    found = followed(graph)
    later = {
        op: dear
        for op, ports in found.readers.items()
        if op not in apart and (dear := [p for p in ports if not _is_cheap(p)])
    }
    if apart or later:
        return Pieces(graph, build, apart, later, found.is_free, code_of)
    if found.data:
        return Special(graph, found.data, build, code_of)
    if "blocks" not in build.settings.without:
        same = blocks(graph, found.is_free)
        if same:
            return Pieces(graph, build, {}, {}, found.is_free, code_of, labels(same))
    return Program(graph, found.constants, build, code_of)


def why_outside(op: Op) -> str | None:
    """Why XLA cannot take an op, for all that is known before it is tried."""
    if op.is_constant:
        return None
    inner = [op] if isinstance(op, Graph) else list(op.bodies.values())
    for each in (op, *(each for body in inner for each in body.walk())):
        name = each.type or ""
        if effect_of(each) is not None:
            return f"{name} does more than compute"
        if each is op and name in DECIDED_BY_DATA:
            return DECIDED_BY_DATA[name]
        if name in DECIDED_BY_DATA:
            return f"{name} is in it: {DECIDED_BY_DATA[name]}"
    return None


def _is_cheap(port: OutputPort) -> bool:
    """Whether a value is made of inputs by little arithmetic on a few integers."""
    if type(port) is Parameter:
        return True
    count = 0
    for value in behind([port], lambda _: True):
        if type(value) is Parameter or value.op.is_constant:
            continue
        count += 1
        if count > CHEAP or value.op.bodies or not _is_small(value):
            return False
    return True


def _is_small(value: OutputPort) -> bool:
    found = value.type
    if not isinstance(found, TensorType) or not found.shape.is_static:
        return False
    few = prod(map(int, found.shape)) <= LITERAL
    return few and found.dtype.kind in ("int", "uint", "bool")
