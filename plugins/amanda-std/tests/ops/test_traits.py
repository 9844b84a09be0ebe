"""Traits that speak of the elements of arguments and results, tried on samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from amanda_std.engine.traits import Trait
from amanda_std.ops import OPS

NON_FINITE = (np.nan, np.inf, -np.inf)


def ops_with(trait: Trait) -> list[str]:
    return [name for name, op in OPS.items() if trait in op.traits]


def is_float(value: Any) -> bool:
    return isinstance(value, np.ndarray | np.generic) and value.dtype.kind == "f"


def float_samples(name: str) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """Arguments and attributes of the samples that have arrays of floats."""
    for sample in OPS[name].samples_rule():
        if any(map(is_float, sample.args)):
            yield list(sample.args), sample.attrs


def all_finite(value: Any) -> bool:
    values = value if isinstance(value, list | tuple) else [value]
    return all(np.isfinite(each).all() for each in values if is_float(each))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", ops_with(Trait.SPREADS_NON_FINITE))
def test_values_that_are_not_finite_spread(name: str) -> None:
    """From each element of each argument, one at a time."""
    count = 0
    for args, attrs in float_samples(name):
        for index, arg in enumerate(args):
            if not is_float(arg):
                continue
            for place in np.ndindex(arg.shape):
                for value in NON_FINITE:
                    planted = arg.copy()
                    planted[place] = value
                    given = [*args[:index], planted, *args[index + 1 :]]
                    result = OPS[name](*given, **attrs)
                    if np.size(result):
                        assert not all_finite(result), (index, place, value, args)
                        count += 1
    assert count >= 3


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", ops_with(Trait.KEEPS_FINITE))
def test_finite_values_stay_finite(name: str) -> None:
    """The largest floats of either sign in place of each element."""
    count = 0
    for args, attrs in float_samples(name):
        for sign in (1, -1):
            given = [
                np.full_like(a, sign * np.finfo(a.dtype).max)
                if is_float(a) and np.ndim(a)
                else a
                for a in args
            ]
            if all(map(all_finite, given)):
                result = OPS[name](*given, **attrs)
                assert all_finite(result), (given, attrs)
                count += 1
    assert count >= 2
