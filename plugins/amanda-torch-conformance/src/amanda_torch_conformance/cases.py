"""The cases of the suite: an entry of PyTorch's op database each, with its samples."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import amanda
from amanda.graph import Graph
from amanda.scoreboard import DataSet, Outcome, name_filter, run_data_sets
from amanda_torch_conformance.program_files import (
    load_arrays,
    program_rows,
    programs_folder,
)

__all__ = ["KINDS", "Case", "cases", "run_case"]

KINDS: Final = ("static",)
"""`static`: programs exported with the shapes of the samples."""

_TOLERANCES: Final = {
    "float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7), "complex64": (1.3e-6, 1e-5), "complex128": (1e-7, 1e-7),
}  # fmt: skip
"""Those of `torch.testing`: relative and absolute."""
_FACTOR: Final = 10
"""PyTorch's own tests compare one implementation; sums in another order differ more."""


@dataclass(frozen=True)
class Case:
    """An entry of the database: all of its samples must be right."""

    name: str
    samples: int

    def folder(self, number: int) -> Path:
        return programs_folder() / self.name / str(number)

    def load(self, number: int) -> Graph:
        """The graph of one sample."""
        return amanda.load(self.folder(number) / "model.pt2")

    def data(self, number: int) -> DataSet:
        """The inputs and PyTorch's outputs of one sample."""
        file = self.folder(number) / "data.npz"
        expected = load_arrays(file, "out_")
        pairs = [_TOLERANCES.get(str(y.dtype), (0.0, 0.0)) for y in expected]
        rtol = max((r for r, _ in pairs), default=0.0)
        atol = max((a for _, a in pairs), default=0.0)
        return DataSet(
            load_arrays(file, "in_"), expected, _FACTOR * rtol, _FACTOR * atol
        )


def cases(
    kinds: Iterable[str] = KINDS, pattern: str | None = None
) -> Iterator[tuple[str, Case]]:
    """Yield each case with its kind; entries that PyTorch does not export have none."""
    is_selected = name_filter(pattern)
    for kind in kinds:
        for row in program_rows():
            if row["samples"] and is_selected(row["name"]):
                yield kind, Case(row["name"], row["samples"])


def run_case(
    kind: str, case: Case, backend: str = "numpy", *, second: bool = False,
    fallback: str | None = None, options: Mapping[str, Any] | None = None,
) -> Outcome:  # fmt: skip
    """Run the samples of a case on a backend, mapped to the hub first.

    The outcome is that of the first one that does not pass.
    """
    import numpy as np

    del second
    outcome = Outcome(case.name, kind, "pass")
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for number in range(case.samples):
            outcome = _run_sample(
                kind, case, number, backend, {**(options or {}), "fallback": fallback}
            )
            if outcome.status != "pass":
                break
    return outcome


def _run_sample(
    kind: str, case: Case, number: int, backend: str, settings: Mapping[str, Any]
) -> Outcome:
    sources: list[Graph] = []

    def load() -> Graph:
        sources.append(case.load(number))
        return amanda.convert(sources[0], "std")

    return run_data_sets(
        case.name, kind, load, [case.data(number)], backend, settings,
        leaves_values_open=lambda _: _leaves_values_open(sources[0]),
    )  # fmt: skip


_ANY_SIGN: Final = ("eigh", "qr", "svd", "svd_lowrank")
"""Factorizations whose vectors have any sign."""
_UNDEFINED: Final = ("empty", "new_empty")


def _leaves_values_open(graph: Graph) -> bool:
    """Whether PyTorch leaves values open: random, uninitialized, or of any sign."""
    for op in graph.walk():
        name = (op.type or "").removeprefix("aten.").partition(".")[0]
        definition = op.definition
        if (
            definition is not None
            and definition.tag("nondeterministic_seeded") is not None
        ):
            return True
        if name.removeprefix("linalg_") in _ANY_SIGN or name.startswith(_UNDEFINED):
            return True
    return False
