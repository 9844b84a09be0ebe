"""Libraries that are wrong, and how arrays, threads and interrupts reach one."""

from __future__ import annotations

import gc
import json
import logging
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from native_libraries import SOURCES, compile_library, needs_compiler

import amanda
from amanda.backend import Compiled
from amanda.errors import (
    AmandaError,
    BackendError,
    PluginBrokenError,
    PluginIncompatibleError,
    PluginMissingError,
    UsageError,
)
from amanda.tensors import Tensor
from amanda_native import LibraryBackend
from amanda_native.discovery import PATH_VARIABLE, find_library

pytestmark = needs_compiler


def one_op(result: str | None = None) -> amanda.Graph:
    """A graph with one op, whose result is of no known type by default."""
    graph = amanda.Graph("amanda/std/1")
    x = graph.parameter(name="x")
    op = graph.add("reshape", [x, graph.parameter(name="shape")], name="middle")
    if result is not None:
        op.output.type = amanda.parse_type(result)
    graph.result(op.output, "y")
    return graph


FEEDS = [np.arange(6, dtype="float32"), np.array([2, 3])]


def compile_on(library: Path, **options: Any) -> Compiled:
    return amanda.compile(one_op(), backend=f"native:{library}", **options)


def library_of(name: str, *flags: str) -> Path:
    return compile_library(SOURCES / f"{name}.c", *flags, name="".join((name, *flags)))


# -- refused libraries -----------------------------------------------------------------


def test_a_library_of_a_newer_version_is_refused() -> None:
    library = library_of("probe", "-DTABLE_VERSION=2")
    with pytest.raises(PluginIncompatibleError) as caught:
        compile_on(library)
    assert str(caught.value).splitlines() == [
        f"the native library {library} is made for a newer version of the C interface",
        "  expected: version 1 or older",
        "  got:      version 2",
        "  to do:    pip install --upgrade amanda-native, or build the library with "
        "the header of the installed one",
    ]


def test_a_library_of_no_version_is_refused() -> None:
    with pytest.raises(PluginBrokenError, match="incomplete table"):
        compile_on(library_of("probe", "-DTABLE_VERSION=0"))


def test_what_is_no_library_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "libtext.so"
    text.write_text("no library")
    with pytest.raises(PluginBrokenError, match="no shared library that loads here"):
        compile_on(text)
    empty = tmp_path / "empty.c"
    empty.write_text("int nothing;\n")
    with pytest.raises(PluginBrokenError, match="is no native backend") as caught:
        compile_on(compile_library(empty))
    assert caught.value.expected == "a function amanda_backend_open"
    with pytest.raises(PluginMissingError, match="there is no native library here"):
        compile_on(tmp_path / "libmissing.so")


def test_an_unknown_name_lists_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    folders = [str(library_of(name).parent) for name in ("probe", "garbage")]
    monkeypatch.setenv(PATH_VARIABLE, os.pathsep.join(folders))
    with pytest.raises(PluginMissingError) as caught:
        amanda.compile(one_op(), backend="native:prone")
    assert "probe" in str(caught.value.expected)
    with pytest.raises(UsageError, match="several native libraries are found"):
        amanda.compile(one_op(), backend="native")
    monkeypatch.delenv(PATH_VARIABLE)
    with pytest.raises(PluginMissingError, match="no native library is chosen"):
        amanda.compile(one_op(), backend="native")


def test_a_library_is_found_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PATH_VARIABLE, str(library_of("probe").parent))
    for choice in ("native:probe", "native:probe:slow"):
        compiled = amanda.compile(one_op("int64[3]"), backend=choice)
        assert compiled(FEEDS)["y"].shape == (3,)
    with pytest.raises(BackendError, match="has no device 'fast'") as caught:
        amanda.compile(one_op(), backend="native:probe:fast")
    assert caught.value.expected == "one of cpu, slow"


def test_isolate_is_true_or_false() -> None:
    with pytest.raises(BackendError, match="'isolate' is true or false"):
        compile_on(library_of("probe"), isolate=3)


# -- results ---------------------------------------------------------------------------

GARBAGE = {
    "nothing": "nothing: neither memory nor a tensor",
    "negative": "float32[2, -3]",
    "huge": "float32[1099511627776, 1099511627776]",
    "rank": "a tensor with -5 axes",
    "many axes": "a tensor with 9999 axes",
    "no shape": "a tensor with 2 axes",
    "dtype": "an unknown dtype[2, 3]",
    "index": "a result number 77",
    "twice": "memory was asked for twice",
    "strides": "a tensor with strides, or on another device",
}


@pytest.mark.parametrize("isolate", [False, True])
@pytest.mark.parametrize("result", GARBAGE)
def test_an_invalid_result_names_the_library(result: str, isolate: bool) -> None:
    library = library_of("garbage")
    compiled = compile_on(library, result=result, isolate=isolate)
    for _ in range(2):  # the frame of the first call is used again
        with pytest.raises(PluginBrokenError) as caught:
            compiled(FEEDS)
        assert caught.value.message == (
            f"the native library 'shell', {library}, returned an invalid result"
        )
        assert caught.value.got == GARBAGE[result]


def test_a_result_of_another_shape_than_its_type_is_invalid() -> None:
    graph = amanda.Graph("amanda/std/1")
    x = graph.parameter(amanda.parse_type("float32[2, m]"), "x")
    graph.result(graph.add("abs", [x]).output, "y")
    backend = f"native:{library_of('garbage')}"
    with pytest.raises(PluginBrokenError) as caught:
        amanda.compile(graph, backend=backend, result="other")([np.ones((2, 3), "f")])
    assert caught.value.where == "result 'y'"
    assert caught.value.got == "float32[7, 7]"
    assert caught.value.expected == "float32[2, m]"


# -- crashes ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flag", "doing"),
    [
        ("-DCRASH_IN_OPEN", "being loaded"),
        ("-DCRASH_IN_TAKES", "asked what it takes"),
        ("-DCRASH_IN_COMPILE", "compiling a graph"),
        ("-DCRASH_IN_RUN", "running"),
    ],
)
def test_a_crash_is_contained(flag: str, doing: str) -> None:
    library = library_of("crashing", flag)
    with pytest.raises(PluginBrokenError) as caught:
        compile_on(library, isolate=True)(FEEDS)
    assert caught.value.message == (
        f"the process of the native library {library} ended while {doing}"
    )
    assert caught.value.got == "signal SIGSEGV"


def test_another_process_is_started_after_a_crash(reference: Path) -> None:
    library = library_of("crashing")
    for _ in range(2):
        with pytest.raises(PluginBrokenError, match="ended while running"):
            compile_on(library, isolate=True)(FEEDS)
    found = amanda.run(one_op(), FEEDS, backend=f"native:{reference}", isolate=True)
    np.testing.assert_array_equal(found["y"], FEEDS[0].reshape(2, 3))


def test_states_name_libraries_that_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    library = library_of("crashing", "-DCRASH_IN_OPEN")
    newer = library_of("probe", "-DTABLE_VERSION=2")
    folders = [str(each.parent) for each in (library, newer, library_of("garbage"))]
    monkeypatch.setenv(PATH_VARIABLE, os.pathsep.join(folders))
    rows = {
        row.name: row
        for row in amanda.default_host().get("backends", "native").states()
    }
    assert rows["crashing-DCRASH_IN_OPEN"].state == "broken"
    assert "signal SIGSEGV" in rows["crashing-DCRASH_IN_OPEN"].reason
    assert rows[newer.stem.removeprefix("lib")].state == "incompatible"
    assert "version 2" in rows[newer.stem.removeprefix("lib")].reason
    assert rows["garbage"].state == "usable"
    assert rows["garbage"].reason.startswith("shell 1, ")


@pytest.mark.parametrize("names", [[], ["probe"], ["probe", "crashing"]])
def test_the_command_line_lists_the_states(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    names: list[str],
) -> None:
    from amanda.cli import run_command_line

    folders = [str(library_of(name).parent) for name in names]
    monkeypatch.setenv(PATH_VARIABLE, os.pathsep.join(folders))
    run_command_line(["backends", "--load", "--json"])
    listed = json.loads(capsys.readouterr().out)["backends"]
    [native] = [row for row in listed if row["name"] == "native"]
    assert native["fault"] is None
    assert {row["name"] for row in native["states"]} == set(names)


def test_a_path_may_have_a_device_after_it(reference: Path) -> None:
    assert find_library(f"{reference}:gpu:0") == (reference, "gpu:0")
    assert find_library(f"{reference}") == (reference, None)
    missing = "./none/here:gpu"
    assert find_library(missing) == (Path(missing), None)


# -- what a library gets ---------------------------------------------------------------


def address(array: np.ndarray[Any, Any]) -> int:
    return int(array.ctypes.data)


def test_inputs_results_and_weights_are_not_copied() -> None:
    graph = amanda.Graph("amanda/std/1")
    x = graph.parameter(name="x")
    weight = np.arange(3)
    held = graph.constant(Tensor.of(weight)).output
    graph.result(graph.add("where", [x, held, held]).output, "y")
    compiled = amanda.compile(graph, backend=f"native:{library_of('probe')}")
    fed = np.zeros(5, "float32")
    for _ in range(2):
        found = compiled([fed])["y"]
        assert found.tolist()[:2] == [address(fed), address(found)]
    out = np.zeros(3, "int64")
    assert compiled([fed], out={"y": out})["y"] is out
    assert out[1] == address(out)
    assert compiled.executable.copies == 0  # type: ignore[attr-defined]
    assert found[2] == address(weight)
    compiled([fed[::-1]])
    assert compiled.executable.copies == 1  # type: ignore[attr-defined]


def test_a_result_of_unknown_size_is_not_copied() -> None:
    compiled = compile_on(library_of("probe"))
    found = compiled(FEEDS)["y"]
    assert found.tolist()[:2] == [address(FEEDS[0]), address(found)]


def test_weights_are_released_with_their_executable() -> None:
    library = LibraryBackend("probe", library_of("probe"))
    graph = amanda.Graph("amanda/std/1")
    graph.result(graph.constant(Tensor.of([1.0])).output, "y")
    made = library.compile(graph, None, {})
    assert library.library().lent_weights == 1
    del made
    gc.collect()
    assert library.library().lent_weights == 0


def test_memory_of_the_library_is_released_with_the_result() -> None:
    library = library_of("probe", "-DMEMORY")
    shows = compile_on(library, show="released")
    before = shows(FEEDS)["y"][2]
    found = compile_on(library, show="memory")(FEEDS)["y"]
    np.testing.assert_array_equal(found, np.arange(1, 7, dtype="float32"))
    assert shows(FEEDS)["y"][2] == before
    part = found[2:]
    del found
    gc.collect()
    assert shows(FEEDS)["y"][2] == before
    del part
    gc.collect()
    assert shows(FEEDS)["y"][2] == before + 1


def test_an_error_of_the_library_has_the_place(
    caplog: pytest.LogCaptureFixture,
) -> None:
    library = library_of("probe")
    with pytest.raises(BackendError) as caught:
        compile_on(library, show="error")(FEEDS)
    assert caught.value.message == (
        f"the native library 'shell', {library}, failed while running: it is too hot"
    )
    assert caught.value.where == "reshape 'middle', identity"
    assert (caught.value.expected, caught.value.got) == ("90 degrees", "120 degrees")


def test_a_library_writes_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    library = library_of("probe")
    with caplog.at_level(logging.INFO, "amanda.native"):
        compile_on(library, show="log")(FEEDS)
    assert [record.message for record in caplog.records] == ["shell: hot é"]


def test_the_lock_is_released_while_a_library_runs() -> None:
    compiled = compile_on(library_of("probe"), show="threads")
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda _: compiled(FEEDS)["y"][0], range(2)))
    assert found == [1, 1]


@pytest.fixture
def _default_interrupts() -> Iterator[None]:
    """Interrupts as in a shell's foreground; in its background they are ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_default_interrupts")
def test_an_interrupt_stops_a_library() -> None:
    compiled = compile_on(library_of("probe"), show="spin")
    assert threading.current_thread() is threading.main_thread()
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        compiled(FEEDS)
    timer.join()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_isolation_gives_the_same_results(reference: Path) -> None:
    graph = amanda.Graph("amanda/std/1")
    x = graph.parameter(amanda.parse_type("float32[n, 50]"), "x")
    weight = np.random.default_rng(0).normal(size=(50, 9)).astype("float32")
    y = graph.add("matmul", [x, graph.constant(Tensor.of(weight)).output]).output
    graph.result(graph.add("softmax", [y], {"axes": [1]}).output, "y")
    backend = f"native:{reference}"
    here = amanda.compile(graph, backend=backend)
    there = amanda.compile(graph, backend=backend, isolate=True)
    for size in (3, 10_000, 1):  # shared memory grows
        fed = np.random.default_rng(size).normal(size=(size, 50)).astype("f")
        expected = here([fed])["y"]
        np.testing.assert_array_equal(there([fed])["y"], expected)
        out = np.zeros((size, 9), "float32")
        assert there([fed], out={"y": out})["y"] is out
        np.testing.assert_array_equal(out, expected)


def test_an_error_in_isolation_is_the_same_as_without(reference: Path) -> None:
    errors = []
    for isolate in (False, True):
        with pytest.raises(AmandaError) as caught:
            amanda.run(
                one_op(), [FEEDS[0], np.array([7, 7])], backend=f"native:{reference}",
                isolate=isolate,
            )  # fmt: skip
        errors.append(str(caught.value))
    assert errors[0] == errors[1]
    assert "the shape is of another number of elements" in errors[0]
