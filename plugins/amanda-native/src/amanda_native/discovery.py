"""Finding libraries: by path, and by name in the folders of AMANDA_NATIVE_PATH."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from amanda.errors import PluginMissingError, UsageError

__all__ = ["PATH_VARIABLE", "find_libraries", "find_library"]

PATH_VARIABLE: Final = "AMANDA_NATIVE_PATH"
"""Environment variable with folders of libraries, divided as in PATH."""

_SUFFIXES: Final = {"win32": (".dll",), "darwin": (".dylib", ".so")}


def suffixes() -> tuple[str, ...]:
    """The suffixes of shared libraries on this system."""
    return _SUFFIXES.get(sys.platform, (".so",))


def find_libraries() -> dict[str, Path]:
    """The libraries in the folders of AMANDA_NATIVE_PATH, by name.

    The name of `libmine.so` is `mine`; the first folder with a name has it.
    """
    found: dict[str, Path] = {}
    for folder in filter(None, os.environ.get(PATH_VARIABLE, "").split(os.pathsep)):
        place = Path(folder)
        files = sorted(place.iterdir()) if place.is_dir() else ()
        for file in files:
            if file.suffix in suffixes() and file.is_file():
                found.setdefault(file.stem.removeprefix("lib"), file)
    return found


def find_library(choice: str | None) -> tuple[Path, str | None]:
    """The library that `native:CHOICE` names, and the device of it after a colon.

    A choice with a separator or the suffix of a library is a path.
    """
    known = find_libraries()
    if choice is None:
        return _only_library(known), None
    parts = choice.split(":")
    for i in range(len(parts), 0, -1):
        name, device = ":".join(parts[:i]), ":".join(parts[i:]) or None
        if name in known:
            return known[name], device
        if name.endswith(suffixes()) or (_has_separator(name) and Path(name).is_file()):
            return Path(name), device
    if _has_separator(choice):
        return Path(choice), None
    raise PluginMissingError(
        f"no native library {parts[0]!r} is known",
        expected=f"one of {', '.join(known)}, or a path" if known else "a path",
        hint=f"native:./lib{parts[0]}{suffixes()[0]} names a file; {PATH_VARIABLE} has "
        "the folders in which names are looked up",
    )


def _has_separator(name: str) -> bool:
    separators = [os.sep, *filter(None, [os.altsep])]
    return any(each in name for each in separators)


def _only_library(known: Mapping[str, Path]) -> Path:
    if len(known) == 1:
        return next(iter(known.values()))
    if known:
        raise UsageError(
            "several native libraries are found, but none is chosen",
            where="backend 'native'",
            expected=f"one of {', '.join(f'native:{name}' for name in known)}",
        )
    raise PluginMissingError(
        "no native library is chosen",
        where="backend 'native'",
        expected=f"native:PATH, or a library in a folder of {PATH_VARIABLE}",
        hint="native:./libmine.so names a file",
    )
