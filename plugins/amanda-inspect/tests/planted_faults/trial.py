"""A trial: a fault is planted in a file, and `bisect` asked which op has it."""

from __future__ import annotations

import shutil
import tempfile
import time
import tracemalloc
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np

import amanda
from amanda_inspect import Bisection, OpError, bisect
from planted_faults.faults import CASTS, Plant, plant_fault
from planted_faults.networks import Network, format_of
from planted_faults.table import Fault

__all__ = ["Trial", "run_trial"]

DRAWS = 20
"""Places that are tried; a change that changes no result is no fault."""


class Trial(NamedTuple):
    """What bisection found of a fault."""

    fault: Fault
    plant: Plant
    found: Bisection
    plain_seconds: float
    """For loading, compiling and running both files once, one after the other."""
    seconds: float
    """For loading and bisecting them."""
    plain_cpu_seconds: float
    cpu_seconds: float
    """The same in processor time of all threads, which other processes change less."""
    discarded: int = 0
    """Places that were drawn before, where the change changes no result."""
    peak_bytes: int = 0
    """The most memory of Python while bisecting, where `tracemalloc` traces it."""

    @property
    def names(self) -> frozenset[str]:
        """The names of what is named: the op, and those that it was converted from."""
        first = self.found.first
        return frozenset() if first is None else _names(first)

    @property
    def is_right(self) -> bool:
        """Whether the op with the fault is named; of a cast that is no more, the op
        beside it, and that the reference has a cast."""
        first = self.found.first
        if first is None or not self.names & self.plant.expected:
            return False
        if self.plant.kind != "dropped cast":
            return True
        reads = () if first.counterpart is None else first.counterpart.inputs
        others = [*first.missing, *(port.op for port in reads if port is not None)]
        return any(op.type in CASTS for op in others)


def _names(error: OpError) -> frozenset[str]:
    name = error.op.name
    return frozenset(error.sources) if error.sources else frozenset([name or ""])


def run_trial(
    fault: Fault,
    network: Network,
    *,
    seed: int,
    backend: str = "numpy",
    max_memory: int = 2 << 30,
) -> Trial:
    """Plant a fault at a place drawn by a seed, and bisect."""
    reference = network.file(fault.a)
    with tempfile.TemporaryDirectory(dir=network.folder) as folder:
        start = _clocks()
        _run(reference, network.feeds, backend)
        plain = _since(start)
        right = _right_results(network.file(fault.b), network, backend)
        random = Random(f"{seed}, {fault}")
        discarded = 0
        for _ in range(DRAWS):
            file, plant = _plant(fault, network, Path(folder), random)
            start = _clocks()
            results = _run(file, network.feeds, backend)
            other = _since(start)
            if _differ(results, right):
                break
            discarded += 1
        else:
            raise LookupError(f"{fault} changes no result")
        start = _clocks()
        a, b = amanda.load(reference), amanda.load(file)
        if tracemalloc.is_tracing():
            tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        found = bisect(a, b, network.feeds, backend=backend, max_memory=max_memory)
        wall, cpu = _since(start)
        peak = tracemalloc.get_traced_memory()[1] - before
        plain_wall, plain_cpu = (x + y for x, y in zip(plain, other, strict=True))
        return Trial(
            fault, plant, found, plain_wall, wall, plain_cpu, cpu, discarded, peak
        )


def _clocks() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def _since(start: tuple[float, float]) -> tuple[float, float]:
    """Seconds that have passed, and processor time that was used, since then."""
    wall, cpu = _clocks()
    return wall - start[0], cpu - start[1]


def _right_results(file: Path, network: Network, backend: str) -> list[Any]:
    """The results of a file without a fault, which are kept beside it."""
    kept = file.with_name(f"{file.name}.{backend}.npz")
    if not kept.exists():
        np.savez(kept, *_run(file, network.feeds, backend))
    with np.load(kept) as arrays:
        return list(arrays.values())


def _plant(
    fault: Fault, network: Network, folder: Path, random: Random
) -> tuple[Path, Plant]:
    """Write a file with the fault."""
    source = network.file(fault.b)
    graph = amanda.load(source)
    plant = plant_fault(graph, fault.kind, random)
    file = folder / source.name
    if file.is_dir():
        shutil.rmtree(file)
    amanda.save(graph, file, format_of(fault.b))
    return file, plant


def _run(file: Path, feeds: list[Any], backend: str) -> list[Any]:
    graph = amanda.load(file)
    return list(amanda.run(graph, feeds, backend=backend).values())


def _differ(results: list[Any], others: list[Any]) -> bool:
    """Whether results differ by more than rounding."""
    return any(
        not np.allclose(a, b, rtol=1e-5, atol=1e-5 * float(np.abs(b).max(initial=0.0)))
        for a, b in zip(results, others, strict=True)
    )
