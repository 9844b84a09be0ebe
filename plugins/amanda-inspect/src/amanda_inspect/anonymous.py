"""A reproduction of an error with random weights in place of those of the models.

Both sides get the same random elements where they have the same weights, and keep the
difference between them where they have not. The op runs with them on its backend, and
the ops of the reference on theirs, so the error is known to be there still.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Any, Final

from amanda.backend import extract_graph
from amanda.graph import Graph, OutputPort
from amanda_inspect.bisection import OpError
from amanda_inspect.random_weights import RandomWeights
from amanda_inspect.reproduction import Reproduction
from amanda_inspect.rounding import error_size, rounding_bound
from amanda_inspect.windows import (
    Backend,
    reads_of,
    run_part,
    value_or_constant,
    with_constants,
)

__all__ = ["Anonymous", "anonymize"]

DRAWS: Final = 8
"""How often weights are drawn; with some of them an error may not show."""
FACTOR: Final = 10
"""How much larger or smaller the error may be with random weights."""


@dataclass
class Anonymous:
    """What came of drawing random weights."""

    reproduction: Reproduction | None
    """With random weights; None if the error shows with none of those drawn."""
    draws: int
    """How often weights were drawn."""
    size: float
    """The error with the last ones, relative to the largest element."""
    replaced: list[str] = field(default_factory=list)
    """The weights that have random elements."""
    kept: list[str] = field(default_factory=list)
    """The constants that stay as they are."""


def anonymize(
    error: OpError, sides: tuple[Backend, Backend], draws: int = DRAWS
) -> Anonymous:
    """The reproduction of an error with random weights, if the error shows with them.

    `sides` are the backends of the reference and of the op. The error shows if it is
    more than rounding, and at most ten times larger or smaller than before.
    """
    found = Anonymous(None, 0, inf)
    for seed in range(draws):
        weights = RandomWeights(seed)
        reproduction = _reproduce(error, sides, weights)
        size, is_made = _largest_error(reproduction)
        found = Anonymous(None, seed + 1, size, weights.replaced, weights.kept)
        is_alike = error.size / FACTOR <= size <= error.size * FACTOR
        if is_made and is_alike and (size == inf) == (error.size == inf):
            found.reproduction = reproduction
            break
    return found


def _reproduce(
    error: OpError, sides: tuple[Backend, Backend], weights: RandomWeights
) -> Reproduction:
    """An error with random weights, run again on both sides."""
    values, reference = error.values, error.reference
    if values is None or reference is None or not reference.ops:
        raise ValueError("the op makes no error, or is not the first that does")
    ports = [reference.outputs[port] for port in values.made]
    source = reference.ops[0].graph
    assert source is not None
    theirs, reads = extract_graph(source, with_constants(reference.ops), ports)
    weights.replace_in(theirs, "the reference")
    feeds = [
        _input(port, value_or_constant(port, reference.inputs), weights)
        for port in reads
    ]
    wanted = run_part(theirs, feeds, sides[0])
    mine = Reproduction.of(error)
    weights.replace_in(mine.graph, "the model")
    inputs = {
        name: _input(mine.reads[name], value, weights)
        for name, value in mine.inputs.items()
    }
    made = run_part(mine.graph, list(inputs.values()), sides[1])
    return mine._replace(
        inputs=inputs,
        found=dict(zip(mine.found, made, strict=True)),
        wanted=dict(zip(mine.wanted, wanted, strict=True)),
    )


def _input(port: OutputPort, value: Any, weights: RandomWeights) -> Any:
    """What an op reads; random where it is computed from weights alone."""
    if _reads_inputs(port):
        return value
    return weights.replace(value, f"{port.name or port.op.label}, which it reads")


def _reads_inputs(port: OutputPort) -> bool:
    """Whether a value depends on inputs of the model, or of the body that it is in."""
    waiting, seen = [port.op], {port.op}
    while waiting:
        op = waiting.pop()
        if isinstance(op, Graph):
            return True
        sources = {read.op for read in reads_of(op)} - seen
        seen |= sources
        waiting += sources
    return False


def _largest_error(found: Reproduction) -> tuple[float, bool]:
    """The largest error of the outputs, and whether it is more than rounding."""
    sizes = {
        name: error_size(made, found.wanted[name]) for name, made in found.found.items()
    }
    name = max(sizes, key=sizes.__getitem__)
    return sizes[name], sizes[name] > rounding_bound(found.wanted[name])
