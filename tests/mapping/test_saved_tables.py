"""Tables of rules that have element types: saved and loaded in both forms."""

from __future__ import annotations

import pytest

from amanda.errors import AmandaError
from amanda.mapping import RuleSet
from amanda.mapping.rules import protobuf, rule_file
from amanda.types import DType

ROWS = [(1, DType("float32")), (7, DType("int64")), ("f32", [DType("bfloat16"), 2])]


def rules_with_table() -> RuleSet:
    rules = RuleSet("toys", "toy/left", "toy/right")
    rules.table("codes", ROWS)
    rules.equations("Cast(x, to=d)  <=>  astype(x, dtype=codes(d))", "a.rules")
    return rules


@pytest.mark.parametrize("form", ["yaml", "proto"])
def test_element_types_come_back(form: str) -> None:
    rules, again = rules_with_table(), RuleSet("again", "toy/left", "toy/right")
    if form == "proto":
        protobuf.loads(again, protobuf.dumps(rules))
    else:
        rule_file.loads(again, rule_file.dumps(rules))
    assert again.lenses["codes"].rows == rules.lenses["codes"].rows
    assert [r.full_text for r in again.rows] == [r.full_text for r in rules.rows]


def test_an_unknown_element_type_is_refused() -> None:
    text = rule_file.dumps(rules_with_table()).replace("bfloat16", "bfloat17")
    with pytest.raises(AmandaError, match="the table 'codes'"):
        rule_file.loads(RuleSet("again", "toy/left", "toy/right"), text)
    data = protobuf.dumps(rules_with_table()).replace(b"bfloat16", b"bfloat17")
    with pytest.raises(AmandaError, match="no such element type"):
        protobuf.loads(RuleSet("again", "toy/left", "toy/right"), data)
