"""Every lens of the core keeps the laws on the values it says it takes."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from amanda.mapping import Decline, make_table
from amanda.mapping.lenses.builtin import LENSES
from amanda.mapping.lenses.lens import equivalent_values

TAKE_ANYTHING = {"default", "when"}
"""Lenses that compare a value with their context, whatever it is."""

TABLES = {
    "words": make_table("words", {"a": 1, "b": 2, "c": True}),
    "spellings": make_table("spellings", [("same", 1), ("SAME", 1), ("valid", 2)]),
    "absent": make_table("absent", [(None, 0), (3, 3)]),
}


@pytest.mark.parametrize("lens", [*LENSES.values(), *TABLES.values()], ids=str)
def test_round_trips(lens):
    for seed in range(100):
        value, *context = lens.draw(Random(seed))
        there = lens.forth(value, context)
        back = lens.back(there, context)
        assert equivalent_values(lens.forth(back, context), there), (value, context)
        assert equivalent_values(lens.back(lens.forth(back, context), context), back)
        if lens.exact:
            assert equivalent_values(back, value), (value, context)


@pytest.mark.parametrize("lens", LENSES.values(), ids=str)
def test_what_makes_no_sense_is_declined(lens):
    context = lens.draw(Random(0))[1:]
    reasons = []
    for odd in (object(), {"a": 1}, b"\xff", [[1], 2], "\n", -(10**30)):
        for way in (lens.forth, lens.back):
            try:
                way(odd, context)
            except Decline as decline:
                reasons.append(str(decline))
    assert all(reasons)
    assert reasons or lens.name in TAKE_ANYTHING


@pytest.mark.parametrize("lens", LENSES.values(), ids=str)
def test_every_lens_says_what_it_is(lens):
    assert lens.doc
    assert str(lens) == lens.name


@pytest.mark.parametrize(
    ("name", "value", "context", "there"),
    [
        ("pairs", [1, 2, 3, 4], (), [[1, 3], [2, 4]]),
        ("axis", -1, (3,), 2),
        ("axes", None, (2,), [0, 1]),
        ("axis_from_end", 0, (3,), -3),
        ("trailing", -2, (4,), [2, 3]),
        ("seq", None, (4, 2), [1, 1]),
        ("seq", None, (), None),
        ("flattened", [[0, 1], [2, 3]], (), [0, 1, 2, 3]),
        ("picked", [1, 5, 1, 7], (1, 2, 1), [5, 7]),
        ("permuted", ["n", "h", "c"], ([0, 2, 1],), ["n", "c", "h"]),
        ("equals", "tanh", ("tanh", "none"), True),
        ("lookup", "VALID", ([["SAME", 0], ["VALID", 1]],), 1),
        ("when", 3, ("a", "b"), None),
        ("default", None, (7,), 7),
    ],
)
def test_what_lenses_do(name, value, context, there):
    assert equivalent_values(LENSES[name].forth(value, context), there)


@pytest.mark.parametrize(
    ("name", "value", "context", "why"),
    [
        ("only", [1, 2], (), "[1, 2] is not one"),
        ("trailing", [0, 2], (3,), "the axes [0, 2] are not the last ones"),
        ("pairs", "SAME", (), "padding 'SAME' is not explicit"),
        ("symmetric", [[1, 2]], (), "1 before and 2 after are not symmetric"),
        ("scaled", 7, (2,), "7 is not a multiple of 2"),
        ("flag", 3, (), None),
        ("axis", 4, (3,), "there is no axis 4 of 3"),
        ("index_in", 5, (["a"],), "there is no 5 in ['a']"),
        ("tensor", 5, ("int32",), "tensor does not support 5"),
    ],
)
def test_what_lenses_decline(name, value, context, why):
    if why is None:
        assert LENSES[name].back(value, context) == 3
        return
    with pytest.raises(Decline) as caught:
        LENSES[name].back(value, context)
    assert caught.value.message == why


def test_a_table_tells_what_it_has():
    with pytest.raises(Decline, match=r"^'z' is not in the table words: 'a', 'b', 'c'"):
        TABLES["words"].forth("z")
    assert TABLES["words"].back(True) == "c"
    assert TABLES["words"].back(1) == "a"


def test_the_page_lists_every_lens():
    page = (Path(__file__).parents[2] / "docs" / "rules.md").read_text()
    listed = [line for line in page.splitlines() if line.startswith("| `")]
    rows = [
        f"| `{lens.name}` | {lens.doc} | {lens.partial} | "
        f"{'yes' if lens.exact else ''} |"
        for lens in LENSES.values()
    ]
    assert listed[-len(rows) :] == rows
