"""Frozen TensorFlow graphs, mapped to nd4j by Deeplearning4j's rules, and run.

    PYTHONPATH=tests AMANDA_TEST_DATA=... python -m routes.nd4j.execution     prints it

The path is TensorFlow -> nd4j -> hub -> numpy. Outputs are compared with those that
TensorFlow gave.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import numpy as np
from routes.nd4j.account import ND4J, settings

import amanda
from amanda.graph import Graph
from amanda.scoreboard import Outcome, run_data_sets
from amanda_nd4j.mapping import Nd4jMapping
from amanda_tf_conformance.frozen_graphs import FrozenGraph, frozen_graphs

__all__ = ["OTHER_VALUES", "RANDOM", "outcome_of", "outcomes_of"]

RANDOM: Final = frozenset({
    "randomuniform", "random_normal", "random_shuffle", "random_multinomial",
    "random_gamma", "random_poisson", "random_crop", "dropout",
})  # fmt: skip
"""Ops whose numbers are those of nd4j's own generators."""

OTHER_VALUES: Final = {
    "emptyArrayTests/shape_n/rank1-2-3": "shapes_of has no element type, and is int64",
    "shapen_3x2": "shapes_of has no element type, and is int64",
    "lu/float32_rank3_returns_int64": "lu has no type of its second result: int32",
    "topk/rank2_k5": "TensorFlow left the order open; elements are sorted here",
}
"""The graphs whose outputs are not TensorFlow's, and why."""


def outcome_of(mapping: Nd4jMapping, case: FrozenGraph, *, promoted: bool) -> Outcome:
    """How a graph fares; `gap` where Deeplearning4j's rules do not map it."""
    kind = "promoted" if promoted else "plain"
    there = mapping.conversion(case.load(promoted=promoted), ND4J)
    if there.report.gaps:
        return Outcome(case.name, kind, "gap", there.report.gaps[0].op or "")
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return run_data_sets(
            case.name, kind, lambda: amanda.convert(there.graph, "std"),
            [case.data(promoted=promoted)], "numpy", {},
            leaves_values_open=lambda _: _is_random(there.graph),
        )  # fmt: skip


def _is_random(graph: Graph) -> bool:
    return any(op.type in RANDOM for op in graph.walk())


def outcomes_of(
    mapping: Nd4jMapping, cases: Iterable[FrozenGraph], *, promoted: bool
) -> list[Outcome]:
    return [outcome_of(mapping, case, promoted=promoted) for case in cases]


def main() -> None:
    os.environ.update(settings(Path(os.environ["AMANDA_TEST_DATA"])))
    mapping = Nd4jMapping("tensorflow")
    for promoted in (True, False):
        found = outcomes_of(mapping, frozen_graphs(), promoted=promoted)
        print(found[0].kind, dict(Counter(each.status for each in found)))
        for each in found:
            if each.status not in ("pass", "drawn"):
                print(f"  {each.case}: {each.status}: {each.why}")


if __name__ == "__main__":
    main()
