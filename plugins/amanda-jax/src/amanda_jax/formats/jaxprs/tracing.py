"""The mapping `std-jax`: graphs of the hub set as JAX traces them.

Nothing is mapped op by op: the graph runs as a function of JAX, and the primitives that
this calls are read, as those of any other function. Weights become constants.
"""

from __future__ import annotations

from typing import Any

from amanda.graph import Graph

__all__ = ["MAPPING"]


class _Tracing:
    """A `Mapper`: what it cannot do is told op by op, and there are no gaps to fill."""

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
                "primitives of JAX are for sizes that are known",
                got=", ".join(open_),
                hint="give the inputs types that tell them: graph.parameters[0].type",
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


MAPPING = _Tracing()
