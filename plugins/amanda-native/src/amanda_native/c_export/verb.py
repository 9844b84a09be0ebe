"""`amanda export`: a model as source code for other toolchains."""

from __future__ import annotations

import re
from pathlib import Path

import click

from amanda.cli import (
    Answer,
    dim_option,
    load_option,
    open_model,
    set_given_dims,
    show_progress,
    verb,
)
from amanda.errors import UsageError

__all__ = ["command"]


@verb("export", "write a model as self-contained C")
@click.argument("file", type=click.Path())
@click.option("--c", "folder", type=click.Path(), help="The folder of the C files.")
@click.option("--name", help="The name of the model in C; default: that of the file.")
@click.option("--format", "form", help="The format of FILE, where it does not show.")
@dim_option
@load_option
def command(
    file: str,
    *,
    folder: str | None,
    name: str | None,
    form: str | None,
    dims: tuple[str, ...],
) -> Answer:
    """Write the model in FILE as C: NAME.c, NAME.h and NAME_weights.h.

    The function NAME_run gets the inputs and writes the results, in static memory. The
    files need a C99 compiler and libm. Sizes must be known: --dim fixes symbolic ones.
    Exit code 4 means that some op has no kernel in C, or a size is not known.

    Examples:
        amanda export digits.onnx --c digits_c --dim batch=1
    """
    from amanda_native.c_export.files import export_c

    if folder is None:
        raise UsageError(
            "amanda export writes C, and needs a folder for it",
            expected="--c FOLDER",
            hint=f"amanda export {file} --c FOLDER",
        )
    graph, form = open_model(file, form)
    set_given_dims(graph, dims)
    with show_progress(f"writing {file} as C"):
        made = export_c(graph, Path(folder), name or _name_of(file))
    data = {
        "file": file, "format": form, "folder": folder,
        "files": [path.name for path in made.files], "function": made.function,
        "weight_bytes": made.weight_bytes, "arena_bytes": made.arena_bytes,
        "kernels": list(made.kernels),
    }  # fmt: skip
    lines = [
        f"wrote {', '.join(path.name for path in made.files)} to {folder}",
        f"{made.function};",
        f"{made.weight_bytes:,} bytes of weights, {made.arena_bytes:,} bytes of memory",
        f"kernels: {', '.join(made.kernels)}",
    ]
    return Answer(data, lines)


def _name_of(file: str) -> str:
    """An identifier from the name of a file.

    >>> _name_of("models/key-words.v2.onnx"), _name_of("3.onnx")
    ('key_words_v2', 'model_3')
    """
    name = re.sub(r"\W", "_", Path(file).stem, flags=re.ASCII)
    return name if re.match(r"[A-Za-z]", name) else f"model_{name}"
