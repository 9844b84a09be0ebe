"""What every plug-in and backend must do, on the backend over oneDNN."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from library_checks import TAKEN, elements_sample
from onednn_variants import IS_INSTALLED, needs_onednn

import amanda
from amanda.errors import AmandaError, BackendError
from amanda.testing import BackendSample, BackendSuite, PluginSuite
from amanda_std.backends import op_samples

OWN = ["gelu", "layer_norm", "mean", "relu", "silu", "softmax"]
"""The ops beside those of the reference backend."""


@needs_onednn
class TestPlugin(PluginSuite):
    dist = "amanda-onednn"


@cache
def onednn_samples() -> Mapping[str, Callable[[], BackendSample]]:
    """The hub's own samples of every op, as far as the library takes them.

    Samples are asked for before tests are skipped."""
    if not IS_INSTALLED:
        return {}
    from amanda_onednn.backend import BACKEND

    own = {"gather_elements_0": elements_sample}
    return {**op_samples([*TAKEN, *OWN], takes=BACKEND.takes), **own}


@needs_onednn
class TestOneDnn(BackendSuite):
    backend = "onednn"

    def samples(self) -> Mapping[str, Callable[[], BackendSample]]:
        return onednn_samples()


@needs_onednn
@pytest.mark.parametrize("case", onednn_samples())
def test_primitives_compute(case: str) -> None:
    """oneDNN has the results of the hub for tensors of all sizes, too."""
    sample = onednn_samples()[case]()
    compiled = amanda.compile(sample.graph, backend="onednn", primitives_from=1)
    found = [*compiled(sample.feeds).values()]
    assert len(found) == len(sample.expected)
    for got, wanted in zip(found, sample.expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


@needs_onednn
def test_the_least_size_for_primitives_is_a_number() -> None:
    graph = onednn_samples()["add_0"]().graph
    for wrong in (0, -1, "many", [1], 1.5):
        with pytest.raises(BackendError, match="primitives_from is no positive"):
            amanda.compile(graph, backend="onednn", primitives_from=wrong)


@needs_onednn
def test_the_samples_are_of_all_ops_of_the_library() -> None:
    asks_for_shapes = {"shape_of", "size"}  # the hub has no samples of these
    found = {name.rpartition("_")[0] for name in onednn_samples()}
    assert found == {*TAKEN, *OWN} - asks_for_shapes


@needs_onednn
def test_a_missing_library_is_installed_again(tmp_path: Path) -> None:
    from amanda_onednn.backend import OneDnnBackend

    backend = OneDnnBackend("onednn", tmp_path / "libonednn.so")
    with pytest.raises(AmandaError, match="there is no native library") as caught:
        backend.devices()
    assert "backend 'onednn'" in str(caught.value)
    assert "pip install --force-reinstall amanda-onednn" in str(caught.value.hint)
