"""The files of the models made with TensorFlow, in a folder that is a cache."""

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

__all__ = ["load_arrays", "model_rows", "models_folder"]

_VARIABLE: Final = "AMANDA_TEST_TF_MODELS"


@cache
def models_folder() -> Path:
    """The folder with all models; made by TensorFlow where it is absent.

    It is that of the environment variable AMANDA_TEST_TF_MODELS, else one in the user's
    cache whose name is a digest of the tables: other tables have other files.
    """
    sources = sorted(Path(__file__).with_name("models").glob("*.py"))
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in sources))
    cached = Path.home() / ".cache" / "amanda" / f"tf-models-{digest.hexdigest()[:16]}"
    folder = Path(os.environ.get(_VARIABLE) or cached)
    if not (folder / "index.json").is_file():
        _make(folder)
    return folder


def _make(folder: Path) -> None:
    command = [sys.executable, "-m", "amanda_tf_conformance.models.making", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UsageError(
            "the models cannot be made",
            where=str(folder),
            expected="TensorFlow, which makes them and computes their outputs",
            got=done.stderr.strip().rpartition("\n")[2],
            hint=f"pip install tensorflow, or set {_VARIABLE} to their folder",
        )


def model_rows() -> list[dict[str, Any]]:
    """What the index says of each model."""
    text = (models_folder() / "index.json").read_text("utf-8")
    rows: list[dict[str, Any]] = json.loads(text)["models"]
    return rows


def load_arrays(folder: Path, prefix: str) -> dict[str, Any]:
    """The stored arrays whose names have a prefix, by the rest of their names."""
    import numpy as np

    with np.load(folder / "data.npz", allow_pickle=False) as stored:
        return {
            name.removeprefix(prefix): _as_text(stored[name])
            for name in stored.files
            if name.startswith(prefix)
        }


def _as_text(array: Any) -> Any:
    """Stored bytes as strings."""
    import numpy as np

    if array.dtype.kind != "S":
        return array
    texts = [each.decode() for each in array.reshape(-1).tolist()]
    return np.array(texts, object).reshape(array.shape)
