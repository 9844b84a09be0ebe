"""The mapping `jax-std`: JAX primitives to the hub."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amanda import namespace
from amanda.mapping import HubMapping, PlainSide, Signature

__all__ = ["MAPPING"]


def jax_side(name: str, _imports: Mapping[str, int] | None = None) -> PlainSide:
    """A version of JAX as a side: `branches` are numbered bodies, not an attribute."""
    dictionary: Any = namespace(name, assume=True)

    def signature(primitive: str) -> Signature | None:
        found: Signature | None = dictionary.signature(primitive)
        if found is None or "branches" not in found.attrs:
            return found
        attrs = {k: v for k, v in found.attrs.items() if k != "branches"}
        return found._replace(attrs=attrs)

    return PlainSide(name, signature)


MAPPING = HubMapping("jax-std", "amanda/jax", side=jax_side, package=__package__)
"""The entry `jax-std` of `amanda.mappings`."""
