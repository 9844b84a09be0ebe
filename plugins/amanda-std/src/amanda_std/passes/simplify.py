"""Algebraic simplification."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from amanda.graph import Graph
from amanda.mapping import RuleSet
from amanda.passes import Rewriting
from amanda_std.hub.mapping_side import STD_SIDE
from amanda_std.passes import data_movement

__all__ = ["rules_of", "simplify"]

_HUB = "amanda/std"


def simplify(graph: Graph) -> int:
    """Replace formulas by equal ones of fewer steps, bit for bit; returns how many."""
    return _simplify_rules()(graph)


@cache
def _simplify_rules() -> Rewriting:
    rules = rules_of("algebra.rules", "simplify")
    data_movement.add_rules(rules)
    return Rewriting(rules, STD_SIDE, "identity")


def rules_of(file: str, name: str = "rules") -> RuleSet:
    """The rules in a file of this package."""
    rules = RuleSet(name, _HUB, _HUB)
    text = files(__package__).joinpath(file).read_text(encoding="utf-8")
    rules.equations(text, file)
    return rules
