"""The files of models: `.pt2` archives, arrays of each size, and the index of all.

    python -m amanda_torch_conformance.making.model_files FOLDER [PATTERN]

What is in FOLDER already is kept.
"""

from __future__ import annotations

import json
import re
import sys
import warnings
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from amanda_torch_conformance.making.model_table import MODELS, Model
from amanda_torch_conformance.making.models import (
    export_model,
    make_data_sets,
    make_model,
    training_data,
)

__all__ = ["make_model_files"]

_PROGRAMS: Final = {"models": False, "models-dynamic": True}
"""The kinds of cases with a program, and whether their sizes are dynamic."""
_TRAINING: Final = "models-training"


def make_model_files(folder: Path, pattern: str = "") -> None:
    """Make the files of models whose names match, and last the index of all there."""
    folder.mkdir(parents=True, exist_ok=True)
    for row in MODELS:
        if re.search(pattern, row.name):
            _make_files(row, folder / row.name)
    files = [folder / row.name / "model.json" for row in MODELS]
    rows = [json.loads(f.read_text("utf-8")) for f in files if f.is_file()]
    index = {"torch": str(torch.__version__), "programs": rows}
    (folder / "index.json").write_text(json.dumps(index, indent=1), "utf-8")


def _make_files(row: Model, folder: Path) -> None:
    """Make the files of one model, and its row of the index with PyTorch's reasons."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "model.json"
    made: dict[str, Any] = {"name": row.name, "kinds": {}}
    if file.is_file():
        made = json.loads(file.read_text("utf-8"))
    for kind in (*_PROGRAMS, _TRAINING):
        if kind in made["kinds"] or f"{kind} error" in made:
            continue
        try:
            made["kinds"][kind] = _write(row, folder / kind, kind)
        except Exception as error:  # noqa: BLE001 - the reason of PyTorch is recorded
            text = " ".join(str(error).split())[:300]
            made[f"{kind} error"] = f"{type(error).__name__}: {text}"
        file.write_text(json.dumps(made, indent=1), "utf-8")


def _write(row: Model, folder: Path, kind: str) -> str:
    """Write the files of a kind; the names of the dynamic axes of its program."""
    call = make_model(row)
    folder.mkdir(parents=True, exist_ok=True)
    if kind == _TRAINING:
        np.savez(folder / "0.npz", **training_data(row, call))
        return ""
    exported, axes = export_model(row, call, is_dynamic=_PROGRAMS[kind])
    for number, arrays in enumerate(make_data_sets(row, call, axes)):
        np.savez(folder / f"{number}.npz", **arrays)
    torch.export.save(exported, folder / "model.pt2")
    return axes


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    make_model_files(Path(sys.argv[1]), *sys.argv[2:])
