"""The mapping `std-jax`: hub graphs to JAX primitives, by tracing.

The graph is run as a function under `jax.make_jaxpr`, and the resulting jaxpr is read.
Weights become constants.
"""

from __future__ import annotations

from typing import Any

from amanda.graph import Graph

__all__ = ["MAPPING"]


class TracingMapper:
    """A `Mapper` without rules: ops that cannot be traced raise an error."""

    def apply(
        self, graph: Graph, to: str, *, keep_foreign: bool, gap_met: Any
    ) -> Graph:
        del to, keep_foreign, gap_met
        import jax

        from amanda.errors import AmandaError, ConversionError
        from amanda_jax.compile.passes import prepare_unoptimized
        from amanda_jax.export.exporter import export_error, traceable_function
        from amanda_jax.formats.jaxprs.format import Format
        from amanda_jax.formats.stablehlo.lowering import (
            copy_names,
            embed_weights,
            open_inputs,
            unoptimized_context,
        )

        if open_ := open_inputs(graph):
            raise ConversionError(
                "JAX primitives need static shapes",
                got=", ".join(open_),
                hint="set types with static shapes: graph.parameters[0].type = ..., or "
                "`amanda convert --dim NAME=SIZE`",
            )
        ready = prepare_unoptimized(graph)
        function, weights, forms = traceable_function(ready, unoptimized_context())
        with jax.enable_x64(True):
            try:
                closed = jax.make_jaxpr(function)(*forms)
            except (AmandaError, NotImplementedError, TypeError, ValueError) as error:
                raise export_error(error, symbolic=False) from error
            made = Format().read(closed)
        embed_weights(made, weights)
        return copy_names(made, ready)


MAPPING = TracingMapper()
"""The entry `std-jax` of `amanda.mappings`."""
