"""Runs one reproduction of a fault, and prints the peak of its memory.

    python run_reproduction.py FILE [ARGUMENT...]

A script is executed; a model is loaded and, unless the argument is `load`, run. The
scripts use some names of earlier versions, which are provided here. The exit code is 3
after an AmandaError.
"""

from __future__ import annotations

import importlib
import resource
import runpy
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import amanda
from amanda.cli import run_command_line


def provide(module: str, **names: Any) -> None:
    try:
        found = importlib.import_module(module)
    except ImportError:
        found = sys.modules[module] = ModuleType(module)
    found.__dict__.update(names)


def provide_earlier_names() -> None:

    provide("amanda.cli.calls", answered=run_command_line)
    provide("amanda.cli.ops", dictionary_of=lambda name: None)
    none = ModuleType("verdict")
    none.__dict__["problems"] = []
    provide("amanda.dictionary.validation", verdict=lambda *_: none)


def run_model(path: Path, only_load: bool) -> None:
    graph = amanda.load(path)
    if not only_load:
        space = graph.namespace or ""
        amanda.run(graph, [], backend="stablehlo" if "stablehlo" in space else "numpy")


def own_peak() -> int:
    """The peak of this program's memory in KB, without pages of libraries and files.

    `ru_maxrss` would include what the process had that started it."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    fields = ("VmHWM", "RssFile")
    peak, mapped = (int(status.partition(f"{f}:")[2].split()[0]) for f in fields)
    return peak - mapped


def main(path: Path) -> int:
    provide_earlier_names()
    try:
        if path.suffix == ".py":
            sys.argv = sys.argv[1:]
            runpy.run_path(str(path), run_name="__main__")
        else:
            run_model(path, sys.argv[2:] == ["load"])
    except amanda.AmandaError as error:
        print(f"AmandaError: {error}")
        return 3
    finally:
        children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        print(f"peak {max(own_peak(), children) >> 10} MB", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
