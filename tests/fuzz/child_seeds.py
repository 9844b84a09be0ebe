"""Good files that a child process makes, since making them starts threads."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from fuzz.readers import Mutant

__all__ = ["seeds_of_child"]


def seeds_of_child(make: Callable[[Path], None]) -> tuple[Mutant, ...]:
    """The files that a function writes to a folder, in a child process."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        child = os.fork()
        if child == 0:
            try:
                make(folder)
                os._exit(0)
            except BaseException:  # noqa: BLE001  the parent fails
                traceback.print_exc()
            finally:
                os._exit(99)
        _, status = os.waitpid(child, 0)
        assert status == 0
        files = sorted(folder.iterdir())
        return tuple(Mutant(file.suffix[1:], file.read_bytes()) for file in files)
