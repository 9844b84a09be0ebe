"""The files of a graph in C: its header, its source, and its weights."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from amanda.errors import UsageError
from amanda.files import replace_file
from amanda_native.c_export.program import Program
from amanda_native.c_export.static_graph import static_graph

if TYPE_CHECKING:
    from amanda.graph import Graph

__all__ = ["CFiles", "export_c"]

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")


class CFiles(NamedTuple):
    """What was written."""

    files: tuple[Path, ...]
    function: str
    """The declaration of the function."""
    weight_bytes: int
    arena_bytes: int
    """Static memory for values between inputs and results."""
    kernels: tuple[str, ...]


def export_c(graph: Graph, folder: Path, name: str) -> CFiles:
    """Write NAME.h, NAME.c and NAME_weights.h to a folder, which is created.

    The function `NAME_run` computes the results, in static memory alone: it allocates
    nothing, and one call is made at a time.
    """
    if not _NAME.match(name):
        raise UsageError(
            "the name of a model in C is an identifier",
            expected="letters, digits and underscores, a letter first",
            got=repr(name),
        )
    program = Program(static_graph(graph), name)
    texts = {
        f"{name}.h": program.header(),
        f"{name}.c": program.source(),
        f"{name}_weights.h": program.weights(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in texts.items():
        with replace_file(folder / file) as target:
            target.write(text.encode())
    return CFiles(
        tuple(folder / file for file in texts),
        program.declaration,
        program.weight_bytes,
        program.arena_bytes,
        tuple(sorted(program.kernels)),
    )
