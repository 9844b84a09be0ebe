"""What the tests need: the installed backend, or the library compiled with flags."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from native_libraries import build_folder

SOURCE = Path(__file__).resolve().parent.parent
OF_PYTHON = str(Path(sys.executable).parent)
CMAKE = shutil.which("cmake", path=f"{os.environ['PATH']}{os.pathsep}{OF_PYTHON}")
HEADERS = "onednn-devel-cpu-gomp"


def _is_installed(name: str) -> bool:
    """Whether a distribution is installed; pytest finds modules that are not."""
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


IS_INSTALLED = _is_installed("amanda-onednn")

needs_onednn = pytest.mark.skipif(
    not IS_INSTALLED, reason="amanda-onednn is not installed"
)


def _missing() -> str | None:
    """What is missing to compile the library; None if nothing is."""
    if not IS_INSTALLED:
        return "amanda-onednn is not installed"
    if CMAKE is None:
        return "there is no cmake"
    return None if _is_installed(HEADERS) else f"{HEADERS} is not installed"


MISSING = _missing()
needs_build = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))


@cache
def compile_variant(name: str, *flags: str) -> Path:
    """The library, compiled with flags for the compilers and the linker."""
    folder = Path(build_folder().name) / name
    given = shlex.join(["-Werror", *flags])
    settings = {
        "CMAKE_C_FLAGS": given,
        "CMAKE_CXX_FLAGS": given,
        "CMAKE_UNITY_BUILD": "ON",  # headers are read once
        "Python_EXECUTABLE": sys.executable,
    }
    options = [f"-D{key}={value}" for key, value in settings.items()]
    _run_cmake("-S", str(SOURCE), "-B", str(folder), *options)
    _run_cmake("--build", str(folder), "--parallel")
    return folder / "libonednn.so"


def _run_cmake(*arguments: str) -> None:
    assert CMAKE is not None
    done = subprocess.run(
        [CMAKE, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
