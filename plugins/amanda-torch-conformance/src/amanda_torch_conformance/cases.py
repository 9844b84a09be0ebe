"""The cases of the suite: an entry of PyTorch's op database each, with its samples."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import amanda
from amanda.graph import Graph
from amanda.scoreboard import (
    Criterion,
    DataSet,
    Outcome,
    as_exact_as,
    name_filter,
    run_data_sets,
    run_function,
    same_distribution,
    same_quantities,
    same_types,
)
from amanda_torch_conformance.program_files import (
    load_arrays,
    load_names,
    program_rows,
    programs_folder,
)
from amanda_torch_conformance.quantities import (
    ORDERS,
    QUANTITIES,
    order_quantities,
)
from amanda_torch_conformance.tolerances import limits_of
from amanda_torch_conformance.training import training_function

__all__ = ["KINDS", "Case", "cases", "run_case", "step_data"]

KINDS: Final = ("static", "dynamic", "models", "models-dynamic", "models-training")
"""
`static`: ops, exported with the shapes of the samples
`dynamic`: ops with symbolic sizes: the first sample, and inputs of other sizes
`models`: models of `transformers`, exported with the shapes of their inputs
`models-dynamic`: models with symbolic batch and length, run at two sizes
`models-training`: one step of SGD of models, as modules of PyTorch from the hub
"""

_TIES: Final = 10
"""Draws apart by this multiple of the tolerance are equal: a dropped path of attention
gives the same value in every draw, but for rounding."""
_UNINITIALIZED: Final = ("empty", "new_empty")
"""Beginnings of names of entries whose outputs have no values."""


@dataclass(frozen=True)
class Case:
    """An entry of the database: all of its samples must be right."""

    name: str
    samples: int

    def folder(self, sample: int | str) -> Path:
        return programs_folder() / self.name / str(sample)

    def load(self, sample: int | str) -> Graph:
        """The graph of one sample, by its number, or of `dynamic`."""
        return amanda.load(self.folder(sample) / "model.pt2")

    def data(self, sample: int | str, backend: str, name: str = "data") -> DataSet:
        """The inputs and PyTorch's outputs of one sample, to be met by a backend."""
        file = self.folder(sample) / f"{name}.npz"
        expected = load_arrays(file, "out_")
        entry, is_dynamic = self.name.partition("-")[0], sample == "dynamic"
        limits = limits_of(entry, expected, backend, is_dynamic=is_dynamic)
        found = DataSet(load_arrays(file, "in_"), expected, **limits)
        criterion = self._criterion(sample, found, load_arrays(file, "draws_"))
        return found._replace(criterion=criterion)

    def _criterion(
        self, sample: int | str, data: DataSet, draws: Sequence[Any]
    ) -> Criterion | None:
        """What outputs meet whose values PyTorch leaves open."""
        limits = data.expected, data.rtol, data.atol
        quantities = QUANTITIES.get(self.name)
        if self.name in ORDERS:
            quantities = order_quantities(self.load(sample), data.feeds[0])  # type: ignore[index]
        if quantities is not None:
            return same_quantities(quantities, *limits)
        if self.name.startswith(_UNINITIALIZED):
            return same_types(data.expected)
        ties = data.rtol * _TIES, data.atol * _TIES
        return same_distribution(draws, data.expected, *ties) if draws else None


@dataclass(frozen=True)
class ModelCase:
    """A model: one graph, right on each of its data sets."""

    name: str
    kind: str

    @property
    def folder(self) -> Path:
        return programs_folder("models") / self.name

    def load(self) -> Graph:
        """The graph."""
        program = _PROGRAMS.get(self.kind, self.kind)
        return amanda.load(self.folder / program / "model.pt2")

    def run(self, backend: str, settings: Mapping[str, Any]) -> Outcome:
        """Compile it once, and run it at each size; or train it by one step."""
        if self.kind == "models-training":
            return self._train(backend)
        bound = _MODEL_TOLERANCES.get(backend, 1e-4)
        sets = [
            DataSet(load_arrays(file, "in_"), load_arrays(file, "out_"), bound, bound)
            for file in self._files()
        ]
        return run_data_sets(
            self.name, self.kind, self._load_hub, sets, backend, settings
        )

    def _train(self, backend: str) -> Outcome:
        """Compare the loss and the parameters after a step with those of the model."""
        if backend != "torch-export":
            reason = "programs of PyTorch are trained: --backend torch-export"
            return Outcome(self.name, self.kind, "declined", reason)
        [file] = self._files()
        names, data = load_names(file), step_data(file)
        return run_function(
            self.name, self.kind, lambda: training_function(self._load_hub(), names),
            [data],
        )  # fmt: skip

    def _files(self) -> list[Path]:
        return sorted((self.folder / self.kind).glob("*.npz"))

    def _load_hub(self) -> Graph:
        return amanda.convert(self.load(), "std")


def step_data(file: Path) -> DataSet:
    """The inputs of a step of training, the loss and the parameters after it.

    These are right if they equal PyTorch's, or are as near as PyTorch's to those of
    the same step in float64.
    """
    expected, exact = load_arrays(file, "out_"), load_arrays(file, "exact_")
    criterion = as_exact_as(expected, exact, *_STEP_TOLERANCES)
    feeds = load_arrays(file, "in_")
    return DataSet(feeds, expected, *_STEP_TOLERANCES, criterion=criterion)


_PROGRAMS: Final = {"models-training": "models"}
"""Kinds whose cases are the programs of another."""
_MODEL_TOLERANCES: Final = {"torch-export": 1e-5}
"""By backend: PyTorch repeats what it has computed; others sum in another order."""
_STEP_TOLERANCES: Final = (1e-5, 0.0, 84)
"""84 units in the last place are 1e-5 of the largest element."""


def cases(
    kinds: Iterable[str] = KINDS, pattern: str | None = None
) -> Iterator[tuple[str, Case | ModelCase]]:
    """Yield each case with its kind; entries that PyTorch does not export have none."""
    is_selected = name_filter(pattern)
    for kind in kinds:
        for row in program_rows("models") if kind.startswith("models") else ():
            needed = {kind, _PROGRAMS.get(kind, kind)}
            if needed <= {*row["kinds"]} and is_selected(row["name"]):
                yield kind, ModelCase(row["name"], kind)
        for row in program_rows() if kind in ("static", "dynamic") else ():
            has_program = row.get("dynamic") if kind == "dynamic" else row["samples"]
            if has_program and is_selected(row["name"]):
                yield kind, Case(row["name"], row["samples"])


def run_case(
    kind: str, case: Case | ModelCase, backend: str = "numpy", *, second: bool = False,
    fallback: str | None = None, options: Mapping[str, Any] | None = None,
) -> Outcome:  # fmt: skip
    """Run a case on a backend, mapped to the hub first.

    The outcome of several samples is that of the first one that does not pass.
    """
    import numpy as np

    del second
    settings = {**(options or {}), "fallback": fallback}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        if isinstance(case, ModelCase):
            return case.run(backend, settings)
        return _run_samples(kind, case, backend, settings)


def _run_samples(
    kind: str, case: Case, backend: str, settings: Mapping[str, Any]
) -> Outcome:
    outcome = Outcome(case.name, kind, "pass")
    samples = range(case.samples) if kind == "static" else ["dynamic"]
    for sample in samples:
        outcome = _run_sample(kind, case, sample, backend, settings)
        if outcome.status != "pass":
            break
    return outcome


def _run_sample(
    kind: str, case: Case, sample: int | str, backend: str, settings: Mapping[str, Any]
) -> Outcome:
    sets = [case.data(sample, backend)]
    if kind == "dynamic":
        sets.append(case.data(sample, backend, "second"))
    return run_data_sets(
        case.name, kind, lambda: amanda.convert(case.load(sample), "std"), sets,
        backend, settings,
    )  # fmt: skip
