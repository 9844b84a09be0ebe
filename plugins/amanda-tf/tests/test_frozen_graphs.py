"""Frozen graphs with outputs of TensorFlow: to the hub, run by numpy.

All constants that may be inputs are inputs, so that nothing is folded.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter

import numpy as np
import pytest

import amanda
from amanda.errors import AmandaError

EVERY = 6
"""The share of the graphs that a short run takes."""

KNOWN = {
    "topk/rank2_k5": "TopK that does not sort leaves the order open",
}
"""Graphs that are not mapped, or differ, by a pattern of their names."""


def outcome(case):
    try:
        graph, feeds = case.load()
        hub = amanda.convert(graph, "std")
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            results = amanda.compile(hub, backend="numpy")(feeds)
    except AmandaError as error:
        return f"{type(error).__name__}: {error}"
    if not isinstance(results, dict):
        rows = results if isinstance(results, list | tuple) else [results]
        results = dict(zip(case.outputs, rows, strict=True))
    return case.difference(results)


def faults_of(cases):
    """What is wrong with each graph, but for those that are known."""
    found = {case.name: outcome(case) for case in cases}
    return {
        name: why
        for name, why in found.items()
        if why is not None and not any(re.fullmatch(p, name) for p in KNOWN)
    }


@pytest.mark.xdist_group("frozen_graphs")
def test_a_slice_of_the_graphs_gives_what_tensorflow_gave(frozen_graphs):
    assert faults_of(frozen_graphs[::EVERY]) == {}


@pytest.mark.xdist_group("frozen_graphs")
@pytest.mark.scale
def test_all_graphs_give_what_tensorflow_gave(frozen_graphs):
    found = Counter(outcome(case) is None for case in frozen_graphs)
    assert faults_of(frozen_graphs) == {}
    assert found[True] >= 0.99 * len(frozen_graphs)


@pytest.mark.xdist_group("frozen_graphs")
def test_known_faults_are_faults(frozen_graphs):
    for pattern in KNOWN:
        cases = [case for case in frozen_graphs if re.fullmatch(pattern, case.name)]
        assert cases
        assert all(outcome(case) is not None for case in cases), pattern
