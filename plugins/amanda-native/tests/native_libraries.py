"""Libraries compiled from C for the tests, each once in a process."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

from amanda_native import HEADER, REFERENCE_SOURCE

SOURCES = Path(__file__).with_name("libraries")
STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror")
SANITIZERS = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
SANITIZED = "AMANDA_TEST_SANITIZED"
"""Environment variable that asks for libraries with sanitizers, for a process that has
their runtime loaded."""
COMPILER = shutil.which(os.environ.get("CC", "cc"))

needs_compiler = pytest.mark.skipif(
    COMPILER is None, reason="there is no C compiler: neither CC nor cc is found"
)


@cache
def build_folder() -> tempfile.TemporaryDirectory[str]:
    """The folder of what is compiled, removed when the process ends."""
    return tempfile.TemporaryDirectory(prefix="amanda-native-")


@cache
def compile_library(source: Path, *flags: str, name: str = "") -> Path:
    """Compile a C file as a library in a folder of its own; warnings are errors."""
    folder = Path(build_folder().name) / (name or source.stem)
    folder.mkdir()
    target = folder / f"lib{name or source.stem}.so"
    run_compiler("-O2", "-fPIC", "-shared", *flags, "-o", str(target), str(source))
    return target


def run_compiler(*arguments: str) -> None:
    """Run the compiler with the header of the C interface."""
    assert COMPILER is not None
    command = [COMPILER, *STRICT, f"-I{HEADER.parent}", *arguments, "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def reference_library() -> Path:
    """The reference backend as a library."""
    flags = SANITIZERS if os.environ.get(SANITIZED) else ()
    return compile_library(REFERENCE_SOURCE, *flags, name="reference")
