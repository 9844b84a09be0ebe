"""Loops whose number of iterations is known only at run time, and that stack results.

XLA runs them in chunks of iterations: a program fills a buffer that holds one chunk,
and Python cuts it to the iterations there were. So one program serves all counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from amanda.graph import Graph
from amanda_jax.compile.trace_context import trace_context, why_untraceable
from amanda_jax.kernels import JAX
from amanda_std.backends import StepRunner, effect_of, use_kernels

__all__ = ["ChunkedLoop"]

_SMALLEST, _LARGEST, _WHERE_UNKNOWN = 16, 1024, 64
"""Iterations in a chunk."""
_TRUE: Final = np.asarray(True)


class ChunkedLoop:
    """The body of one `loop`, traced for chunks of iterations."""

    def __init__(self, body: Graph, without: Sequence[str]) -> None:
        self._steps = StepRunner(body, JAX)
        self._without = without
        self._jitted = jax.jit(self._run_chunk, static_argnums=0)
        self._is_possible = not any(effect_of(op) for op in body.walk())

    def __call__(
        self, trips: Any, condition: Any, init: Sequence[Any], captured: Sequence[Any]
    ) -> Sequence[Any] | None:
        """The results of the loop; None where Python has to drive the iterations."""
        limit = None if trips is None else int(np.asarray(trips).reshape(()))
        go = condition is None or bool(np.all(condition))
        if not self._is_possible or not go or (limit is not None and limit < 1):
            return None
        try:
            return self._run(limit, tuple(init), tuple(captured))
        except Exception as error:
            if why_untraceable(error) is None and not isinstance(error, TypeError):
                raise
            self._is_possible = False  # shapes change, or decide something inside
            return None

    def _run(self, limit: int | None, carry: Any, captured: Any) -> Sequence[Any]:
        chunk = _chunk_size(limit)
        first, go = 0, True
        chunks: list[Sequence[Any]] = []
        while go and (limit is None or first < limit):
            end = first + chunk if limit is None else min(first + chunk, limit)
            count, flag, carry, buffers = self._jitted(
                chunk, first, end, carry, captured
            )
            rows = int(count) - first
            chunks.append([np.asarray(each)[:rows] for each in buffers])
            first, go = int(count), bool(flag)
        return (*carry, *map(_concatenate, zip(*chunks, strict=True)))

    def _run_chunk(
        self, chunk: int, first: Any, end: Any, carry: Any, captured: Any
    ) -> Any:
        """Iterations from `first` to `end`; their number, flag, carry and buffers."""

        def body(trip: Any, carry: Any) -> tuple[Any, Any, Any]:
            flag, *rest = self._steps.run([trip, _TRUE, *carry], captured)
            arrays = [jax.tree.map(jnp.asarray, each) for each in rest]
            count = len(carry)
            return jnp.all(jnp.asarray(flag)), tuple(arrays[:count]), arrays[count:]

        def keep_going(state: Any) -> Any:
            trip, go, *_ = state
            return go & (trip < end)

        def step(state: Any) -> Any:
            trip, _, carry, buffers = state
            go, carry, rows = body(trip, carry)
            buffers = [
                lax.dynamic_update_index_in_dim(buffer, row, trip - first, 0)
                for buffer, row in zip(buffers, rows, strict=True)
            ]
            return trip + 1, go, carry, buffers

        with (
            trace_context(python_driven=False, without=self._without),
            use_kernels(JAX),
            np.errstate(all="ignore"),
        ):
            trip = jnp.asarray(first, "int64")
            carry = jax.tree.map(jnp.asarray, carry)
            _, _, rows = jax.eval_shape(body, trip, carry)
            buffers = [jnp.zeros((chunk, *row.shape), row.dtype) for row in rows]
            state = (trip, jnp.asarray(True), carry, buffers)
            return lax.while_loop(keep_going, step, state)


def _chunk_size(limit: int | None) -> int:
    """A power of two, so that few programs serve all numbers of iterations."""
    if limit is None:
        return _WHERE_UNKNOWN
    return min(max(1 << (limit - 1).bit_length(), _SMALLEST), _LARGEST)


def _concatenate(parts: Sequence[Any]) -> Any:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
