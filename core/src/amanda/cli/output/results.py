"""Results of a run, written to files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from amanda.cli.inputs.array_files import named_arrays, write_array, write_arrays
from amanda.errors import UsageError
from amanda.files import replace_file

__all__ = ["save_results"]


def save_results(path: str, results: Mapping[Any, Any]) -> None:
    """Write results to a .npz or .npy file, or to a folder, by their names."""
    named = {str(name): value for name, value in results.items()}
    suffix = Path(path).suffix.lower()
    if suffix == ".npz":
        with replace_file(Path(path)) as file:
            write_arrays(file, named)
    elif suffix == ".npy":
        arrays = named_arrays(named)
        if len(arrays) != 1:
            raise UsageError(
                "a .npy file has one array",
                who=path, expected="one result", got=f"{len(arrays)} results",
                hint="--save results.npz, or --target NAME for one of them",
            )  # fmt: skip
        _write(Path(path), arrays[0][1])
    elif suffix:
        raise UsageError(
            "results are not written in this format", who=path,
            expected=".npz, .npy, or a folder, which has no suffix", got=suffix,
        )  # fmt: skip
    else:
        _write_folder(Path(path), named)


def _write_folder(folder: Path, named: Mapping[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in named_arrays(named):
        _write(folder / f"{_file_name(name)}.npy", array)


def _file_name(name: str) -> str:
    """A name without characters that separate folders.

    >>> _file_name("scope/logits:0")
    'scope_logits_0'
    """
    return "".join("_" if char in '/\\:*?"<>|' else char for char in name) or "_"


def _write(path: Path, array: Any) -> None:
    with replace_file(path) as file:
        write_array(file, array)
