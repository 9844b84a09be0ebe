"""What the tests of this folder share."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from amanda.graph import Graph
from amanda_std.engine.arrays import use_kernels
from amanda_std.runtime.numpy_kernels import NUMPY
from amanda_std.runtime.step_runner import StepRunner


@pytest.fixture
def run() -> Callable[..., list[np.ndarray]]:
    """Runs a graph on arrays, by the kernels of numpy; the graph must be whole."""

    def call(graph: Graph, *args: object) -> list[np.ndarray]:
        assert graph.check() == []
        with use_kernels(NUMPY), np.errstate(all="ignore"):
            return [np.asarray(v) for v in StepRunner(graph, NUMPY).run(args)]

    return call


@pytest.fixture
def run_values() -> Callable[..., list[object]]:
    """Runs a graph on values of any kind, and leaves what comes out as it is."""

    def call(graph: Graph, *args: object) -> list[object]:
        assert graph.check() == []
        with use_kernels(NUMPY), np.errstate(all="ignore"):
            return StepRunner(graph, NUMPY).run(args)

    return call


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Kernels are called as backends call them: floats may overflow."""
    with np.errstate(all="ignore"):
        yield
