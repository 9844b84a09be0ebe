"""What every plug-in and backend must do, on the reference library."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
from library_checks import TAKEN, elements_sample
from native_libraries import COMPILER, needs_compiler, reference_library

import amanda
from amanda.host import Host
from amanda.testing import BackendSample, BackendSuite, PluginSuite
from amanda_native import REFERENCE_SOURCE, LibraryBackend
from amanda_native.discovery import PATH_VARIABLE
from amanda_std.backends import op_samples
from amanda_std.ops import OPS


class TestPlugin(PluginSuite):
    dist = "amanda-native"


def shape_sample(name: str, expected: Any) -> BackendSample:
    """A sample of an op that asks for a shape, of which the hub has none."""
    graph = amanda.Graph("amanda/std/1")
    x = graph.parameter(amanda.parse_type("int32[n, 2]"), "x")
    graph.result(graph.add(name, [x]).output)
    return BackendSample(graph, [np.zeros((3, 2), "int32")], [np.array(expected)])


@cache
def reference_samples() -> Mapping[str, Callable[[], BackendSample]]:
    """The hub's own samples of every op, as far as the library takes them.

    Without a compiler there is no library, and the suites that use them are skipped."""
    if COMPILER is None:
        return {}
    takes = LibraryBackend("reference", reference_library()).takes
    own: dict[str, Callable[[], BackendSample]] = {
        "shape_of_0": partial(shape_sample, "shape_of", [3, 2]),
        "gather_elements_0": elements_sample,
        "size_0": partial(shape_sample, "size", 6),
    }
    return {**op_samples(TAKEN, takes=takes), **own}


@needs_compiler
class TestReference(BackendSuite):
    """A library as the backend of an entry point."""

    backend = "reference"

    def samples(self) -> Mapping[str, Callable[[], BackendSample]]:
        return reference_samples()

    def host(self) -> Host:
        return reference_host()


@cache
def reference_host() -> Host:
    """A host with the library as a backend of its own."""
    host = Host()
    host.register_backend("reference", LibraryBackend("reference", reference_library()))
    return host


@needs_compiler
class TestNative(BackendSuite):
    """The backend `native` with a library as its device, without the samples of ops."""

    backend = "native"
    late = ("numpy",)

    @pytest.fixture(autouse=True)
    def _name_the_library(self) -> Iterator[None]:
        path = reference_library()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(self), "device", str(path))
            patch.setenv(PATH_VARIABLE, str(path.parent))
            yield


@needs_compiler
class TestIsolated(BackendSuite):
    """A library in a process of its own, with a sample of each op."""

    backend = "isolated"

    def samples(self) -> Mapping[str, Callable[[], BackendSample]]:
        return {k: v for k, v in reference_samples().items() if k.endswith("_0")}

    def host(self) -> Host:
        return isolated_host()


@cache
def isolated_host() -> Host:
    """A host with the library as a backend, isolated."""
    host, path = Host(), reference_library()
    host.register_backend("isolated", LibraryBackend("isolated", path, isolate=True))
    return host


@needs_compiler
def test_the_samples_are_of_all_ops_of_the_library() -> None:
    assert {name.rpartition("_")[0] for name in reference_samples()} == {*TAKEN}
    assert len(TAKEN) == 71
    assert [name for name in TAKEN if OPS[name].is_composite] == []
    rows = REFERENCE_SOURCE.read_text("utf-8").partition("OPS[] = {")[2]
    rows = rows.partition("};")[0]
    found = re.findall(r'(?:SAME_SHAPE|PAIR|REDUCTION)\((\w+)|{"(\w+)"', rows)
    assert sorted(a or b for a, b in found) == TAKEN
