"""The mapping `jax-std`: programs of JAX to the hub set."""

from __future__ import annotations

from functools import cache
from typing import Any

from amanda import namespace
from amanda.mapping import PlainSide, RuleMapping, RuleSet, Signature
from amanda_jax.formats.jaxprs import elementwise, neural_network, shapes

__all__ = ["MAPPING", "rule_set"]


@cache
def rule_set() -> RuleSet:
    rules = RuleSet("jax-std", "amanda/jax", "amanda/std")
    for module in (elementwise, shapes, neural_network):
        for head, function in module.READ.items():
            rules.read(head)(function)
    return rules


@cache
def _jax(name: str) -> PlainSide:
    dictionary: Any = namespace(name, assume=True)

    def signature(type: str) -> Signature | None:
        """What is known of a primitive. Branches are bodies of their own, numbered."""
        found: Signature | None = dictionary.signature(type)
        if found is None or "branches" not in found.attrs:
            return found
        rest = {k: v for k, v in found.attrs.items() if k != "branches"}
        return found._replace(attrs=rest)

    return PlainSide(name, signature)


def _std(_name: str) -> Any:
    from amanda_std.mappings import STD_SIDE

    return STD_SIDE


MAPPING = RuleMapping(_jax, _std, rule_set())
