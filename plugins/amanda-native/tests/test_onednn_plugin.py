"""What every backend must do, on the backend over oneDNN."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

from onednn_library import MISSING, needs_onednn, onednn_library
from test_plugin import TAKEN, elements_sample

from amanda.host import Host
from amanda.testing import BackendSample, BackendSuite
from amanda_native import LibraryBackend
from amanda_std.backends import op_samples

OWN = ["gelu", "layer_norm", "mean", "relu", "silu", "softmax"]
"""The ops beside those of the reference backend."""


@cache
def onednn_samples() -> Mapping[str, Callable[[], BackendSample]]:
    """The hub's own samples of every op, as far as the library takes them."""
    if MISSING:  # samples are asked for before tests are skipped
        return {}
    takes = LibraryBackend("onednn", onednn_library()).takes
    own = {"gather_elements_0": elements_sample}
    return {**op_samples([*TAKEN, *OWN], takes=takes), **own}


@needs_onednn
class TestOneDnn(BackendSuite):
    """The library as the backend of an entry point."""

    backend = "onednn"

    def samples(self) -> Mapping[str, Callable[[], BackendSample]]:
        return onednn_samples()

    def host(self) -> Host:
        return onednn_host()


@needs_onednn
class TestPrimitives(TestOneDnn):
    """The library that uses oneDNN for tensors of all sizes, with all samples."""

    backend = "primitives"

    def host(self) -> Host:
        return primitives_host()


@cache
def primitives_host() -> Host:
    host = Host()
    path = onednn_library("-DLARGE_FROM=1")
    host.register_backend("primitives", LibraryBackend("primitives", path))
    return host


@cache
def onednn_host() -> Host:
    host = Host()
    host.register_backend("onednn", LibraryBackend("onednn", onednn_library()))
    return host


@needs_onednn
def test_the_samples_are_of_all_ops_of_the_library() -> None:
    asks_for_shapes = {"shape_of", "size"}  # the hub has no samples of these
    found = {name.rpartition("_")[0] for name in onednn_samples()}
    assert found == {*TAKEN, *OWN} - asks_for_shapes
