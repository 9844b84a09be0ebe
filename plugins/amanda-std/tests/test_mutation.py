"""A slice of the mutation run: `tox run -e mutation` changes every op and kernel."""

from __future__ import annotations

import importlib.util
import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

from amanda_std.engine.samples import Sample, array, difference
from amanda_std.ops import OPS

pytestmark = pytest.mark.install_independent

TOOL = Path(__file__).parents[3] / "tools" / "mutate.py"
SLICES = {"primitives": 41, "composites": 121, "numpy": 3}
"""One mutant in so many, by table."""


@pytest.fixture(scope="module")
def mutate():
    if not TOOL.is_file():
        pytest.skip("the mutation run stands in the repository, which is not here")
    spec = importlib.util.spec_from_file_location("mutate", TOOL)
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutate"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.most_cases(1)
@pytest.mark.parametrize("table", SLICES)
def test_samples_detect_wrong_definitions_and_kernels(mutate, table):
    outcome = mutate.run_mutants(table, every=SLICES[table])
    assert outcome.caught > 10
    least, count = mutate.LEAST[table], outcome.caught + len(outcome.survived)
    noise = 3 * (least * (1 - least) / count) ** 0.5  # of a slice, for a share
    assert outcome.share >= least - noise, [str(m) for m in outcome.survived]


def test_kernels_are_altered_and_put_back(mutate):
    """What a kernel makes while it is altered, and after."""
    op = OPS["atan2"]
    before = op.function.__code__
    found = list(mutate.mutants(OPS["clip"].function, [OPS["clip"]]))
    assert len({mutant.change for mutant in found}) > 2
    outcome = mutate.run_mutants(names=["atan2", "clip"])
    assert outcome.caught > 2
    assert op.function.__code__ is before


def test_a_mutant_that_is_not_equivalent_is_refuted(mutate, capsys):
    op = OPS["clip"]
    found = list(mutate.mutants(op.function, [op]))
    assert mutate.refute("primitives", found) > 0
    printed = capsys.readouterr().out
    assert "REFUTED by clip(" in printed
    assert len(printed.splitlines()) == len(found)


def test_a_sample_that_proves_nothing_lets_mutants_live(mutate):
    """A run that could not fail would say nothing."""
    op = OPS["divide"]
    (mutant, *_) = (
        m
        for m in mutate.mutants(
            sys.modules[op.function.__module__].truncate_quotient, [op]
        )
        if m.change.startswith("NotEq became Eq in rest")
    )
    exact = Sample(
        (array([0, 0], "int8"), array([2, 3], "int8")), array([0, 0], "int8")
    )
    uneven = Sample((array([-7], "int8"), array([2], "int8")), array([-3], "int8"))
    assert not mutate.is_caught(mutant, {"divide": [exact]}, None)
    assert mutate.is_caught(mutant, {"divide": [exact, uneven]}, None)


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        (array([1.0]), array([1.0], "float32")),
        (array([[1.0]]), array([1.0])),
        (array([1.0 + 1e-7]), array([1.0])),
        (array([2**53 + 1], "int64"), array([2**53], "int64")),
        ([array(1.0)], array(1.0)),
        ([array(1.0)], [array(1.0), array(2.0)]),
        ({"a": array(1.0)}, {"b": array(1.0)}),
        (array(1.0), None),
        (array([float("nan")]), array([1.0])),
    ],
)
def test_what_differs_is_told(got, expected):
    assert difference(got, expected)
    assert difference(expected, expected) is None


def test_the_page_states_the_shares(mutate):
    """Rows of docs/std.md, by `tools/mutate.py --document`: no table may be missing,
    and those of kernels not be older than a twentieth of their mutants."""
    page = (TOOL.parents[1] / "docs" / "std.md").read_text(encoding="utf-8")
    for table in mutate.LEAST:
        [total] = re.findall(rf"^\| {table} \| ([\d,]+) \|", page, re.MULTILINE)
        if table not in mutate.TABLES:
            continue  # to create thousands of mutants takes long
        if table == "jax" and importlib.util.find_spec("amanda_jax") is None:
            continue
        found = mutate.functions_to_mutate(table)
        count = sum(1 for _ in mutate._mutants_of(found))
        assert abs(int(total.replace(",", "")) - count) <= count / 20, table


def test_composites_are_mutated(mutate):
    """Blocks of `depth_to_space` in the other order, and others."""
    found = mutate.functions_to_mutate("composites", ["depth_to_space", "gelu"])
    assert {f.__name__ for f in found} >= {"depth_to_space", "gelu"}
    outcome = mutate.run_mutants("composites", ["depth_to_space"])
    assert outcome.caught > 5
    assert outcome.survived == []


def test_what_samples_do_not_compute_is_inferred_or_traced(mutate):
    """A branch that only the gradient of a broadcast takes, when types are inferred."""
    outcome = mutate.run_mutants("composites", ["sum_to"])
    assert outcome.survived == []


def test_a_mutant_leaves_the_state_of_its_module(mutate, made):
    made.HELD = [1, 2]
    (mutant, *_) = mutate.mutants(made.plus, [])
    with mutate.apply_mutant(mutant):
        made.HELD.append(3)
    assert made.HELD == [1, 2]


def test_samples_keep_the_attributes_that_they_were_made_with():
    attrs = {"axis": 0}
    sample = Sample((), array(0), attrs)
    attrs["axis"] = 1
    assert sample.attrs == {"axis": 0}


MODULE = """
from functools import wraps

def plus(x):
    return x + 1

def twice(function):
    @wraps(function)
    def call(x):
        return function(x) * 2
    return call

FOUR, SIX = twice(plus), twice(plus)
"""


@pytest.fixture
def made(tmp_path, monkeypatch):
    """A module, which is gone afterwards."""
    (tmp_path / "some_functions.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield import_module("some_functions")
    del sys.modules["some_functions"]


def test_all_functions_of_a_module(mutate, made):
    """What a function makes is altered too, once for all that were made. Other things
    that are there are not asked what they are."""
    loud = type("Loud", (), {"__class__": property(lambda _: 1 / 0)})()
    found = mutate.functions_of_module("some_functions", "primitives")
    assert type(loud).__name__ == "Loud"
    assert [f.__code__.co_name for f in found] == ["plus", "twice", "call"]
    apart = {f.__code__.co_qualname for f in found}
    plus, twice, call = (list(mutate.mutants(f, [], apart)) for f in found)
    assert plus
    assert twice == []
    (halved, *_) = (m for m in call if m.change.startswith("Mult became Div"))
    with mutate.apply_mutant(halved):
        assert (made.FOUR(1), made.SIX(3)) == (1, 2)
    assert (made.FOUR(1), made.SIX(3)) == (4, 8)


@pytest.mark.most_cases(1)
@pytest.mark.parametrize(
    ("claim", "is_caught"), [("plus(0) > -9", False), ("plus(1) == 2", True)]
)
def test_tests_may_notice(mutate, made, tmp_path, claim, is_caught):
    """There is no sample, so that they alone decide."""
    file = tmp_path / f"{tmp_path.name}.py"
    text = f"from some_functions import plus\n\ndef test():\n    assert {claim}\n"
    file.write_text(text)
    outcome = mutate.run_mutants(module="some_functions", tests=[f"{file}::test"])
    of_plus = [m for m in outcome.survived if m.qualified_name == "some_functions.plus"]
    assert bool(of_plus) is not is_caught
    assert bool(outcome.caught) is is_caught
    assert made.plus(1) == 2


@pytest.mark.parametrize(
    ("text", "why"),
    [("", "no tests"), ("def test(): assert False", "without any mutation")],
)
def test_tests_that_prove_nothing_say_so(mutate, tmp_path, text, why):
    file = tmp_path / f"{tmp_path.name}.py"
    file.write_text(text)
    with pytest.raises(SystemExit, match=why):
        mutate.run_mutants(names=["clip"], tests=[str(file)])
