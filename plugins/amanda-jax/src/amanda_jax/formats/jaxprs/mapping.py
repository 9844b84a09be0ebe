"""The mapping `jax-std`: JAX primitives to the hub."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

from amanda import namespace
from amanda.graph import Graph, Op
from amanda.mapping import HubMapping, PlainSide, Signature
from amanda_jax.formats.jaxprs.sizes import add_size_inputs, symbols_of

__all__ = ["MAPPING"]


class JaxSide(PlainSide):
    """JAX as a side, whose graphs may have symbolic dims in attributes."""

    def prepare(self, graph: Graph) -> Graph:
        return add_size_inputs(graph)

    def fault(self, op: Op) -> str | None:
        """Why an op cannot be mapped: a symbol is where a number is required."""
        symbols = symbols_of(op)
        if not symbols or op.type in _types_with_sizes():
            return None
        return f"an attribute has the size {symbols[0]}, and must be a number"


@cache
def _types_with_sizes() -> frozenset[str]:
    """The primitives whose functions read the sizes behind their own inputs."""
    return frozenset(
        function.term.type
        for function in MAPPING.rules.functions
        if any(p.kind is p.VAR_POSITIONAL for p in _parameters(function.call))
    )


def _parameters(function: Callable[..., Any]) -> Iterable[inspect.Parameter]:
    return inspect.signature(function).parameters.values()


def jax_side(name: str, _imports: Mapping[str, int] | None = None) -> JaxSide:
    """A version of JAX as a side: `branches` are numbered bodies, not an attribute."""
    dictionary: Any = namespace(name, assume=True)

    def signature(primitive: str) -> Signature | None:
        found: Signature | None = dictionary.signature(primitive)
        if found is None or "branches" not in found.attrs:
            return found
        attrs = {k: v for k, v in found.attrs.items() if k != "branches"}
        return found._replace(attrs=attrs)

    return JaxSide(name, signature)


MAPPING = HubMapping("jax-std", "amanda/jax", side=jax_side, package=__package__)
"""The entry `jax-std` of `amanda.mappings`."""
