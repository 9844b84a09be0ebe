"""The files of the programs, in a folder that is a cache."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from amanda.errors import UsageError

__all__ = ["load_arrays", "load_names", "program_rows", "programs_folder"]


class _Collection(NamedTuple):
    """Programs that one command makes, in a folder."""

    module: str
    variable: str
    """The environment variable with their folder."""
    packages: str
    """What makes them."""


_COLLECTIONS: Final = {
    "programs": _Collection(
        "amanda_torch_conformance.making", "AMANDA_TEST_TORCH_PROGRAMS",
        "torch expecttest scipy",
    ),
    "models": _Collection(
        "amanda_torch_conformance.making.model_files", "AMANDA_TEST_TORCH_MODELS",
        "torch transformers",
    ),
}  # fmt: skip


@cache
def programs_folder(collection: str = "programs") -> Path:
    """The folder with all programs; made by PyTorch where it is absent.

    `collection` is `programs`, those of the op database, or `models`. The folder is
    that of the environment variable AMANDA_TEST_TORCH_PROGRAMS or
    AMANDA_TEST_TORCH_MODELS, else one in the user's cache whose name is a digest of the
    modules that make them.
    """
    sources = sorted(Path(__file__).with_name("making").glob("*.py"))
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in sources))
    name = f"torch-{collection}-{digest.hexdigest()[:16]}"
    cached = Path.home() / ".cache" / "amanda" / name
    how = _COLLECTIONS[collection]
    folder = Path(os.environ.get(how.variable) or cached)
    if not (folder / "index.json").is_file():
        _make(folder, how)
    return folder


def _make(folder: Path, how: _Collection) -> None:
    command = [sys.executable, "-m", how.module, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UsageError(
            "the programs cannot be made",
            where=str(folder),
            expected="PyTorch, which makes them and computes their outputs",
            got=done.stderr.strip().rpartition("\n")[2],
            hint=f"pip install {how.packages}, or set {how.variable} to their folder",
        )


def program_rows(collection: str = "programs") -> list[dict[str, Any]]:
    """What the index says of each program or model."""
    text = (programs_folder(collection) / "index.json").read_text("utf-8")
    rows: list[dict[str, Any]] = json.loads(text)["programs"]
    return rows


def load_arrays(file: Path, prefix: str) -> list[Any]:
    """The stored arrays whose names have a prefix, in the order of their numbers."""
    import numpy as np
    from ml_dtypes import bfloat16

    with np.load(file, allow_pickle=False) as stored:
        count = sum(name.startswith(prefix) for name in stored.files)
        arrays = [stored[f"{prefix}{i}"] for i in range(count)]
    return [x.view(bfloat16) if x.dtype == "V2" else x for x in arrays]


def load_names(file: Path) -> list[str]:
    """The stored names of what else is stored."""
    import numpy as np

    with np.load(file, allow_pickle=False) as stored:
        return [str(name) for name in stored["names"]]
