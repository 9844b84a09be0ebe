"""Build the native backend over oneDNN.

    pip install onednn-devel-cpu-gomp==2023.2.0
    python build_onednn.py libonednn.so

Needs compilers of C99 and C++17 with OpenMP (CC and CXX, or cc and c++). oneDNN is that
of the wheels `onednn-cpu-gomp` and `onednn-devel-cpu-gomp`, or of the folder that
ONEDNN_ROOT names, with `include` and `lib` in it. The library refers to it by its path.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["OneDnn", "build", "find_onednn", "missing"]

HERE: Final = Path(__file__).resolve().parent
HEADERS: Final = HERE.parent / "src" / "amanda_native" / "c"
WHEELS: Final = ("onednn-cpu-gomp", "onednn-devel-cpu-gomp")
ROOT_VARIABLE: Final = "ONEDNN_ROOT"
STRICT: Final = ("-Wall", "-Wextra", "-Werror", "-O2", "-fPIC", "-fvisibility=hidden")


class OneDnn(NamedTuple):
    """Where oneDNN is."""

    include: Path
    library: Path


def find_onednn() -> OneDnn | None:
    """OneDNN in the folder of ONEDNN_ROOT, or of the wheels; None if there is none."""
    if root := os.environ.get(ROOT_VARIABLE):
        found = OneDnn(Path(root) / "include", Path(root) / "lib" / "libdnnl.so.3")
    else:
        header = _file_of_wheel(WHEELS[1], "include/dnnl.hpp")
        library = _file_of_wheel(WHEELS[0], "/libdnnl.so.3")
        if header is None or library is None:
            return None
        found = OneDnn(header.parent, library)
    return found if found.library.is_file() and found.include.is_dir() else None


def _file_of_wheel(name: str, end: str) -> Path | None:
    try:
        listed = files(name) or ()
    except PackageNotFoundError:
        return None
    for file in listed:
        if file.as_posix().endswith(end):
            return Path(str(file.locate())).resolve()
    return None


def _compiler(variable: str, name: str) -> str | None:
    return shutil.which(os.environ.get(variable, name))


def missing() -> str | None:
    """What is missing to build the backend; None if nothing is."""
    if sys.platform != "linux":
        return "the backend over oneDNN is built on Linux"
    if _compiler("CC", "cc") is None or _compiler("CXX", "c++") is None:
        return "there is no compiler of C and C++: neither CC and CXX nor cc and c++"
    if find_onednn() is None:
        return f"oneDNN is not installed: pip install {WHEELS[1]}==2023.2.0"
    return None


def build(target: Path, *flags: str) -> None:
    """Compile and link the backend; `flags` are for the compilers and the linker."""
    onednn = find_onednn()
    cc, cxx = _compiler("CC", "cc"), _compiler("CXX", "c++")
    if onednn is None or cc is None or cxx is None:
        raise SystemExit(f"the backend over oneDNN cannot be built: {missing()}")
    c = (cc, "-std=c99", f"-I{HEADERS}")
    cpp = (cxx, "-std=c++17", "-fopenmp", f"-I{HEADERS}", f"-isystem{onednn.include}")
    with tempfile.TemporaryDirectory(prefix="amanda-onednn-") as folder:
        commands, objects = [], []
        for source in sorted([*HERE.glob("*.c"), *HERE.glob("*.cpp")]):
            made = Path(folder) / f"{source.stem}.o"
            language = c if source.suffix == ".c" else cpp
            line = [*language, *STRICT, *flags, "-c", "-o", str(made), str(source)]
            commands.append(line)
            objects.append(str(made))
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(_run, commands))
        _run(
            [
                cxx, "-shared", "-fopenmp", *flags, "-o", str(target), *objects,
                str(onednn.library), f"-Wl,-rpath,{onednn.library.parent}",
            ]
        )  # fmt: skip


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    build(Path(sys.argv[1]))
