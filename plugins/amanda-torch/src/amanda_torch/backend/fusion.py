"""Formulas that PyTorch computes as one op."""

from __future__ import annotations

from functools import cache
from typing import Any

from amanda.graph import Graph
from amanda.mapping import Decline, RuleSet
from amanda.passes import Rewriting
from amanda_std import Value, ops
from amanda_std.mappings import STD_SIDE

__all__ = ["fuse_layers"]


def fuse_layers(graph: Graph) -> int:
    """Replace products with a bias by `linear`; returns how many."""
    return _rules()(graph)


@cache
def _rules() -> Rewriting:
    rules = RuleSet("torch-layers", "amanda/std", "amanda/std")
    rules.read("add")(_linear)
    return Rewriting(rules, STD_SIDE)


def _linear(a: Any, b: Any) -> Any:
    for product, bias in ((a, b), (b, a)):
        op = product.port.op
        if op.type == "matmul" and len(product.port.users) == 1:
            x, weight = (Value(port) for port in op.inputs if port is not None)
            if weight.ndim == 2 and bias.type.shape == weight.type.shape[1:]:
                return ops.linear(x, weight, bias)
    raise Decline("it is no product with a bias")
