"""Measures of difference, against numpy's own; ports that correspond."""

from __future__ import annotations

from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from amanda.comparison import (
    Tolerance,
    compare_values,
    default_tolerance,
    match_ports,
)
from amanda.errors import UsageError
from amanda.types import parse_type

EXACT = Tolerance(0, 0)
FLOATS = [np.float64, np.float32, np.float16, ml_dtypes.bfloat16]


def pairs(dtype: Any) -> st.SearchStrategy[tuple[Any, Any]]:
    shapes = arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
    numbers = st.floats(-1e4, 1e4, width=16) | st.sampled_from(
        [0.0, -0.0, np.nan, np.inf, -np.inf]
    )
    return shapes.flatmap(
        lambda shape: st.tuples(
            *[arrays.arrays(np.float64, shape, elements=numbers)] * 2
        )
    ).map(lambda both: tuple(np.asarray(each).astype(dtype) for each in both))


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: np.dtype(dtype).name)
@given(data=st.data())
def test_equality_is_that_of_numpy(dtype: Any, data: st.DataObject) -> None:
    got, wanted = data.draw(pairs(dtype))
    for rtol, atol in ((0.0, 0.0), (0.1, 0.5)):
        wide = [each.astype(np.float64) for each in (got, wanted)]
        close = np.isclose(*wide, rtol=rtol, atol=atol, equal_nan=True)
        found = compare_values(got, wanted, Tolerance(rtol, atol))
        assert found.equal == close.all()
        assert found.unequal == np.count_nonzero(~close)
        assert found.place is None or not close[found.place]


@given(pairs(np.float64))
def test_measures_are_those_of_algebra(both: tuple[Any, Any]) -> None:
    got, wanted = (np.where(np.isfinite(each), each, 1.0) for each in both)
    found = compare_values(got, wanted)
    noise = np.abs(got - wanted)
    assert found.max_abs == noise.max(initial=0)
    some = wanted != 0
    assert found.max_rel == (noise[some] / np.abs(wanted[some])).max(initial=0)
    if noise.any() and wanted.any():
        ratio = np.sum(wanted**2) / np.sum(noise**2)
        assert found.snr == pytest.approx(10 * np.log10(ratio))
    if got.any() and wanted.any():
        lengths = np.linalg.norm(got) * np.linalg.norm(wanted)
        assert found.cosine == pytest.approx(np.sum(got * wanted) / lengths)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: np.dtype(dtype).name)
def test_units_in_the_last_place(dtype: Any) -> None:
    one, steps = np.asarray(1.0, dtype), 0
    value = one
    for steps in range(1, 6):
        value = np.nextafter(value, np.asarray(2, dtype))
        assert compare_values(value, one, EXACT).max_ulp == steps
    zero = np.asarray(0.0, dtype)
    tiny = np.nextafter(zero, one)
    assert compare_values(-tiny, tiny, EXACT).max_ulp == 2
    assert compare_values(-zero, zero, EXACT).max_ulp == 0
    assert compare_values(np.asarray(np.nan, dtype), one).max_ulp == np.inf


def test_special_values() -> None:
    special = np.float32([np.nan, np.inf])
    assert compare_values(special, special).equal
    assert not compare_values(special, np.float32([np.nan, -np.inf])).equal
    assert not compare_values(special, np.float32([0, np.inf]), Tolerance(1, 1)).equal
    far = compare_values(np.float32([np.nan, 2]), np.float32([1, 2]))
    assert (far.max_abs, far.unequal, far.place) == (np.inf, 1, (0,))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "dtype", [*FLOATS, np.complex128, np.complex64], ids=lambda t: np.dtype(t).name
)
def test_extreme_values_raise_no_warnings(dtype: Any) -> None:
    real = np.zeros(1, dtype).real
    tiny = np.nextafter(real, real + 1).astype(dtype)
    large = np.full(1, ml_dtypes.finfo(real.dtype).max).astype(dtype)
    values = [tiny, -tiny, large, -large]
    if np.dtype(dtype).kind == "c":
        values += [each + 1j * each.real for each in values]
    for got, wanted in product(values, values):
        for tolerance in (None, EXACT, Tolerance(5e-324, 0), Tolerance(0, 5e-324)):
            found = compare_values(got, wanted, tolerance)
            assert found.max_rel is not None
            assert found.max_rel >= 0
            if got is wanted:
                assert found.cosine in (None, pytest.approx(1))


def test_relative_differences_beyond_floats_are_infinite() -> None:
    found = compare_values(np.ones(1), np.array([5e-324]))
    assert (found.max_rel, found.max_abs) == (np.inf, 1.0)


def test_integers_are_exact_unless_told() -> None:
    got, wanted = np.int32([1, 5]), np.int32([2, 5])
    assert not compare_values(got, wanted).equal
    assert compare_values(got, wanted).max_abs == 1
    assert compare_values(got, wanted, Tolerance(0, 1)).equal
    assert default_tolerance("bool") == EXACT


@pytest.mark.parametrize(
    ("got", "wanted", "text"),
    [
        (np.float32([1]), np.float64([1]), "float32[1], not float64[1]"),
        (np.zeros((2, 1)), np.zeros(2), "float64[2, 1], not float64[2]"),
        (None, np.zeros(2), "no value, not float64[2]"),
        ([np.zeros(2)], np.zeros(2), "a sequence of 1, not float64[2]"),
        ([], [np.zeros(2)], "a sequence of 0, not a sequence of 1"),
        ({"a": 1}, {"b": 1}, "a map of 1, not a map of 1"),
        ([np.int8(1)], [np.int16(1)], "element 0: int8[], not int16[]"),
        (np.array(["a"], object), np.array(["b"], object),
         "1 of 1 elements differ, at [0] 'a', not 'b'"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_described(got: Any, wanted: Any, text: str) -> None:
    found = compare_values(got, wanted)
    assert (found.equal, str(found)) == (False, text)


def test_sequences_count_all_elements() -> None:
    found = compare_values([np.zeros(3), np.ones(2)], [np.zeros(3), np.zeros(2)], EXACT)
    assert (found.size, found.unequal, found.max_abs) == (5, 2, 1)
    assert compare_values([], []).equal
    assert compare_values(None, None).equal


IMAGE, LENGTH = parse_type("float32[n, 3]"), parse_type("int64[]")


def test_ports_by_name_order_and_type() -> None:
    wanted = {"a": IMAGE, "b": LENGTH}
    assert match_ports(wanted, {"b": LENGTH, "c": IMAGE, "a": IMAGE}, "inputs") == {
        "a": "a", "b": "b",
    }  # fmt: skip
    fixed = parse_type("float32[4, 3]")
    assert match_ports(wanted, {"x": fixed, "y": LENGTH}, "inputs") == {
        "a": "x", "b": "y",
    }  # fmt: skip
    assert match_ports({"a": IMAGE}, {"b": IMAGE}, "inputs") == {"a": "b"}


@pytest.mark.parametrize(
    "others",
    [{"x": IMAGE}, {"x": IMAGE, "y": IMAGE}, {"x": LENGTH, "y": LENGTH}, {}],
)
def test_ports_that_do_not_correspond(others: Any) -> None:
    with pytest.raises(UsageError, match="the outputs of the models do not"):
        match_ports({"a": IMAGE, "b": LENGTH}, others, "outputs")
