"""Gradients of bodies, and of the branches of conditionals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from amanda.graph import Graph, OutputPort
from amanda_std.engine.values import (
    Value,
    require_tracing,
)
from amanda_std.ops.control.bodies import gradient_or_zeros, inline


def body_gradients(
    body: Graph, xs: Sequence[Any], seeds: Iterable[Any], wanted: Sequence[OutputPort]
) -> list[Any]:
    """Gradients of a body's results with respect to `wanted` values; None for none.

    `seeds` are the gradients of the results, None for some. The body is evaluated again
    (rematerialized) rather than stored."""
    from amanda_std.autodiff.gradients import backpropagate

    results = inline(body, xs)
    given: dict[OutputPort, Any] = {}
    for result, seed in zip(results, seeds, strict=True):
        if seed is not None and result is not None:
            old = given.get(result.port)
            given[result.port] = seed if old is None else old + seed
    return backpropagate(require_tracing().graph, given, wanted)


def gradient_branch(
    body: Graph, xs: Sequence[OutputPort | None], g: Sequence[Any],
    wanted: Sequence[OutputPort],
) -> Callable[[], list[Any]]:  # fmt: skip
    """Branch that computes gradients, from a branch that computes values."""

    def back() -> list[Any]:
        given = [None if x is None else Value(x) for x in xs]
        outputs = body_gradients(body, given, g, wanted)
        return [
            gradient_or_zeros(m, Value(p)) for m, p in zip(outputs, wanted, strict=True)
        ]

    return back
