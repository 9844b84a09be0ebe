"""Where the compiled libraries of this package are."""

from __future__ import annotations

from pathlib import Path

__all__ = ["find_library"]


def find_library(name: str) -> Path:
    """A library beside this file, or where an editable install has it."""
    import amanda_onednn

    found = [Path(folder) / name for folder in amanda_onednn.__path__]
    return next(filter(Path.is_file, found), found[0])
