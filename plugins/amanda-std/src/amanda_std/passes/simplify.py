"""Algebra: what is the same in fewer steps, and what has a stable path of its own."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from amanda.graph import Graph
from amanda.mapping import RuleSet
from amanda.passes import Rewriting
from amanda_std.hub.mapping_side import STD_SIDE
from amanda_std.passes import movements

__all__ = ["rules_of", "simplify", "stable"]

_HUB = "amanda/std"


def simplify(graph: Graph) -> int:
    """Replaces what is the same in fewer steps, to the last bit; how many ops."""
    return _simplify()(graph)


def stable(graph: Graph) -> int:
    """Replaces formulas by the functions that they are, which know a path without
    overflow; how many ops."""
    return _stable()(graph)


@cache
def _simplify() -> Rewriting:
    rules = rules_of("algebra.rules", "simplify")
    movements.add_rules(rules)
    return Rewriting(rules, STD_SIDE, "identity")


@cache
def _stable() -> Rewriting:
    return Rewriting(rules_of("stable.rules", "stable"), STD_SIDE)


def rules_of(file: str, name: str = "rules") -> RuleSet:
    """The rows of a file of this package."""
    rules = RuleSet(name, _HUB, _HUB)
    text = files(__package__).joinpath(file).read_text(encoding="utf-8")
    rules.equations(text, file)
    return rules
