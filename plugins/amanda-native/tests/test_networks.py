"""Networks exported by PyTorch on native libraries, as on numpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from library_checks import assert_run_as_on_numpy, library_backends
from native_libraries import SOURCES, compile_library, needs_compiler

import amanda

pytestmark = [
    needs_compiler,
    pytest.mark.filterwarnings("ignore"),  # of PyTorch, while it exports
]


@pytest.mark.most_cases(1)
@pytest.mark.parametrize("name", ["ResNet-50", "BERT-base", "ViT-B", "GPT-2"])
def test_a_small_network(name: str, tmp_path: Path, reference: Path) -> None:
    backends = [f"native:{reference}", *library_backends()]
    assert_run_as_on_numpy(name, tmp_path, backends, small=True)


@pytest.mark.most_cases(1)
@pytest.mark.parametrize("name", ["BERT-base", "ViT-B"])
def test_a_network_with_symbolic_sizes(
    name: str, tmp_path: Path, reference: Path
) -> None:
    backends = [f"native:{reference}", *library_backends()]
    assert_run_as_on_numpy(name, tmp_path, backends, small=True, dynamic=True)


@pytest.mark.models
@pytest.mark.parametrize("name", ["ResNet-50", "BERT-base", "ViT-B", "GPT-2"])
def test_a_network_of_full_size(name: str, tmp_path: Path, reference: Path) -> None:
    backends = library_backends()
    if name in ("ResNet-50", "BERT-base"):  # the others take minutes
        backends.append(f"native:{reference}")
    if not backends:
        pytest.skip("no backend with a library is installed")
    assert_run_as_on_numpy(name, tmp_path, backends, small=False)


def test_computed_shape_arguments(reference: Path) -> None:
    graph = amanda.Graph("amanda/std/1")
    x = graph.parameter(amanda.parse_type("float32[a, b]"), "x")
    n = graph.parameter(amanda.parse_type("int64[2]"), "n")
    twice = graph.add("add", [n, n]).output
    graph.result(graph.add("slice", [x, n, twice]).output, "y")
    fed = np.arange(24, dtype="float32").reshape(4, 6)
    found = amanda.run(graph, [fed, np.array([1, 2])], backend=f"native:{reference}")
    np.testing.assert_array_equal(found["y"], fed[1:2, 2:4])


def test_a_fallback_runs_what_the_library_has_not(reference: Path) -> None:
    graph = amanda.Graph("amanda/std/1")
    x = graph.parameter(amanda.parse_type("float32[3]"), "x")
    tan = graph.add("tan", [graph.add("exp", [x]).output], name="tangent").output
    graph.result(graph.add("exp", [tan]).output, "y")
    backend = f"native:{reference}"
    with pytest.raises(
        amanda.errors.BackendError, match="does not take 1 op"
    ) as caught:
        amanda.compile(graph, backend=backend)
    assert caught.value.problems == (
        "tan 'tangent': reference: there is no kernel for this op",
    )
    compiled = amanda.compile(graph, backend=backend, fallback="numpy")
    fed = np.array([0.1, 0.2, 0.3], "float32")
    np.testing.assert_allclose(
        compiled([fed])["y"], np.exp(np.tan(np.exp(fed))), rtol=1e-5
    )
    other = (
        f"native:{compile_library(SOURCES / 'probe.c', name='probe')}"  # takes every op
    )
    split: Any = amanda.compile(graph, backend=backend, fallback=other).executable
    assert [piece.backend for piece in split.report().pieces] == [
        "native",
        other,
        "native",
    ]
