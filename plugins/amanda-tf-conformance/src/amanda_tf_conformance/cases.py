"""The cases of the suite: frozen graphs, and models made with TensorFlow.

Each graph is mapped to the hub, and from there to what the backend supports: on the
backend `tensorflow` it runs as written back from the hub.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import amanda
from amanda.graph import Graph
from amanda.scoreboard import DataSet, Outcome, name_filter, run_data_sets
from amanda_tf_conformance.frozen_graphs import FrozenGraph, frozen_graphs
from amanda_tf_conformance.made_models import load_arrays, model_rows, models_folder

__all__ = ["KINDS", "Case", "cases", "run_case"]

KINDS: Final = ("promoted", "plain", "function", "saved-model", "training")
"""The kinds of cases.

`promoted`: frozen graphs whose constants that may be fed are inputs; `plain`: the same
graphs as they are; `function`: functions of TensorFlow 2, made here, variables frozen;
`saved-model`: the same and others as SavedModels; `training`: SavedModels whose calls
change variables, several calls.
"""
TOLERANCE: Final = 1e-3


@dataclass(frozen=True)
class MadeModel:
    """A model that TensorFlow made: a row of its index."""

    row: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.row["name"])

    @cached_property
    def folder(self) -> Path:
        return models_folder() / self.name

    def load(self, kind: str) -> Graph:
        """The graph of its function, frozen, or of its SavedModel."""
        if kind != "function":
            return amanda.load(self.folder / "saved_model")
        graph = amanda.load(self.folder / "model.pb")
        for name in self.row["outputs"]:
            op, _, index = self.row["tensors"][name].partition(":")
            graph.result(graph.ops[op].outputs[int(index)], name)
        return graph

    def data(self, outputs: Sequence[str]) -> Iterator[DataSet]:
        """The inputs and TensorFlow's outputs, for each call."""
        feeds = load_arrays(self.folder, "in_")
        for i in range(self.row["calls"]):
            expected = load_arrays(self.folder, f"out{i}_")
            values = [expected[name] for name in outputs]
            yield DataSet(feeds, values, TOLERANCE, TOLERANCE)

    @property
    def kinds(self) -> set[str]:
        """The kinds of cases that it is one of."""
        if self.row["calls"] > 1:
            return {"training"}
        return {"saved-model", *(["function"] if "tensors" in self.row else [])}


Case = FrozenGraph | MadeModel


def cases(
    kinds: Iterable[str] = KINDS, pattern: str | None = None
) -> Iterator[tuple[str, Case]]:
    """Yield each case with its kind, in the order of the kinds."""
    is_selected = name_filter(pattern)
    for kind in kinds:
        found: list[Case]
        if kind in ("promoted", "plain"):
            found = [*frozen_graphs()]
        else:
            made = map(MadeModel, model_rows())
            found = [model for model in made if kind in model.kinds]
        yield from ((kind, case) for case in found if is_selected(case.name))


def run_case(
    kind: str, case: Case, backend: str = "numpy", *, second: bool = False,
    fallback: str | None = None, options: Mapping[str, Any] | None = None,
) -> Outcome:  # fmt: skip
    """Run one case on a backend, mapped to the hub first.

    `fallback` is a backend for ops that this one does not support. `options` are
    options of `backend`.
    """
    import numpy as np

    del second
    source: Graph
    sets: Iterable[DataSet]
    promoted = kind == "promoted"
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        if isinstance(case, FrozenGraph):
            source = case.load(promoted=promoted)
            sets = [case.data(promoted=promoted)]
        else:
            source = case.load(kind)
            sets = case.data([port.name or "" for port in source.outputs])
        return run_data_sets(
            case.name, kind, lambda: amanda.convert(source, "std"), sets, backend,
            {**(options or {}), "fallback": fallback},
            leaves_values_open=lambda _: _leaves_values_open(source),
        )  # fmt: skip


_UNSEEDED: Final = ("RandomUniform", "RandomStandardNormal", "TruncatedNormal",
                    "RandomUniformInt", "RandomShuffle", "Multinomial")  # fmt: skip


def _leaves_values_open(graph: Graph) -> bool:
    """Whether TensorFlow leaves values open: no seed, or elements in any order."""
    return any(
        (op.type == "TopKV2" and op.attrs.get("sorted") is False)
        or (op.type in _UNSEEDED
            and not (op.attrs.get("seed") or op.attrs.get("seed2")))
        for op in graph.walk()
    )  # fmt: skip
