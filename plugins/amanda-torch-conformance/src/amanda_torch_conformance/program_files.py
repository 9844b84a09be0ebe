"""The files of the programs, in a folder that is a cache."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any, Final

from amanda.errors import UsageError

__all__ = ["load_arrays", "program_rows", "programs_folder"]

_VARIABLE: Final = "AMANDA_TORCH_PROGRAMS"


@cache
def programs_folder() -> Path:
    """The folder with all programs; made by PyTorch where it is absent.

    It is that of the environment variable AMANDA_TORCH_PROGRAMS, else one in the
    user's cache whose name is a digest of the modules that make them.
    """
    sources = sorted(Path(__file__).with_name("making").glob("*.py"))
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in sources))
    name = f"torch-programs-{digest.hexdigest()[:16]}"
    cached = Path.home() / ".cache" / "amanda" / name
    folder = Path(os.environ.get(_VARIABLE) or cached)
    if not (folder / "index.json").is_file():
        _make(folder)
    return folder


def _make(folder: Path) -> None:
    command = [sys.executable, "-m", "amanda_torch_conformance.making", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UsageError(
            "the programs cannot be made",
            where=str(folder),
            expected="PyTorch, which makes them and computes their outputs",
            got=done.stderr.strip().rpartition("\n")[2],
            hint=f"pip install torch expecttest, or set {_VARIABLE} to their folder",
        )


def program_rows() -> list[dict[str, Any]]:
    """What the index says of each entry of the op database."""
    text = (programs_folder() / "index.json").read_text("utf-8")
    rows: list[dict[str, Any]] = json.loads(text)["programs"]
    return rows


def load_arrays(file: Path, prefix: str) -> list[Any]:
    """The stored arrays whose names have a prefix, in the order of their numbers."""
    import numpy as np

    with np.load(file, allow_pickle=False) as stored:
        count = sum(name.startswith(prefix) for name in stored.files)
        return [stored[f"{prefix}{i}"] for i in range(count)]
