"""Graphs written as C, compiled with every warning an error, and called."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from native_libraries import run_compiler

import amanda
from amanda.graph import Graph
from amanda_native.c_export import CFiles, export_c

__all__ = ["TOLERANCE", "assert_equals_numpy", "call_program", "compile_program"]

TOLERANCE = 1e-5
_ALLOCATING = {"malloc", "calloc", "realloc", "free", "aligned_alloc", "posix_memalign"}


def compile_program(graph: Graph, folder: Path, name: str = "model") -> Any:
    """The function of an exported graph, with its declaration as `files`."""
    files = export_c(graph, folder, name)
    target = folder / f"{name}.so"
    source = str(folder / f"{name}.c")
    run_compiler("-O3", "-fPIC", "-shared", "-o", str(target), source)
    assert undefined_symbols(target).isdisjoint(_ALLOCATING)
    function: Any = getattr(ctypes.CDLL(str(target)), f"{name}_run")
    function.restype = ctypes.c_char_p
    function.files = files
    return function


def undefined_symbols(library: Path) -> set[str]:
    """The functions of other libraries that a library calls."""
    command = ["nm", "-D", "--undefined-only", str(library)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {line.split()[-1].partition("@")[0] for line in done.stdout.splitlines()}


def call_program(
    function: Any, feeds: Sequence[Any], like: Sequence[Any]
) -> list[np.ndarray[Any, Any]]:
    """The results, in arrays of the dtypes and shapes of others."""
    results = [np.full_like(np.asarray(each), 77) for each in like]
    arrays = [np.ascontiguousarray(feed) for feed in feeds] + results
    fault = function(*(ctypes.c_void_p(array.ctypes.data) for array in arrays))
    assert fault is None, fault
    return results


def assert_equals_numpy(
    graph: Graph, feeds: Sequence[Any], folder: Path
) -> tuple[CFiles, list[Any]]:
    """Compare an exported graph with the backend numpy; returns its results, too."""
    wanted = list(amanda.run(graph, list(feeds), backend="numpy").values())
    function = compile_program(graph, folder)
    for _ in range(2):  # the static memory of the first call is used again
        found = call_program(function, feeds, wanted)
        for got, expected in zip(found, wanted, strict=True):
            assert got.dtype == expected.dtype
            scale = max(float(np.abs(expected).max(initial=0)), 1e-3)
            np.testing.assert_allclose(got, expected, rtol=0, atol=TOLERANCE * scale)
    return function.files, found
