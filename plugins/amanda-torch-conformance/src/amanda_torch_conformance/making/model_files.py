"""The files of models: `.pt2` archives, arrays of each size, and the index of all.

    python -m amanda_torch_conformance.making.model_files FOLDER [PATTERN]

Models that are in FOLDER already are kept.
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
)

__all__ = ["make_model_files"]

_KINDS: Final = {"models": False, "models-dynamic": True}
"""The kinds of cases, and whether their sizes are dynamic."""


def make_model_files(folder: Path, pattern: str = "") -> None:
    """Make the files of models whose names match, and last the index of all there."""
    folder.mkdir(parents=True, exist_ok=True)
    for row in MODELS:
        file = folder / row.name / "model.json"
        if re.search(pattern, row.name) and not file.is_file():
            made = _make_row(row, folder / row.name)
            file.write_text(json.dumps(made, indent=1), "utf-8")
    files = [folder / row.name / "model.json" for row in MODELS]
    rows = [json.loads(f.read_text("utf-8")) for f in files if f.is_file()]
    index = {"torch": str(torch.__version__), "programs": rows}
    (folder / "index.json").write_text(json.dumps(index, indent=1), "utf-8")


def _make_row(row: Model, folder: Path) -> dict[str, Any]:
    """Make the files of one model; its row of the index, with PyTorch's reasons."""
    folder.mkdir(parents=True, exist_ok=True)
    made: dict[str, Any] = {"name": row.name, "kinds": {}}
    for kind, is_dynamic in _KINDS.items():
        try:
            axes = _write(row, folder / kind, is_dynamic)
            made["kinds"][kind] = axes
        except Exception as error:  # noqa: BLE001 - the reason of PyTorch is recorded
            text = " ".join(str(error).split())[:300]
            made[f"{kind} error"] = f"{type(error).__name__}: {text}"
    return made


def _write(row: Model, folder: Path, is_dynamic: bool) -> str:
    """Write a program and its data sets; the names of its dynamic axes."""
    call = make_model(row)
    exported, axes = export_model(row, call, is_dynamic=is_dynamic)
    folder.mkdir(parents=True, exist_ok=True)
    for number, arrays in enumerate(make_data_sets(row, call, axes)):
        np.savez(folder / f"{number}.npz", **arrays)
    torch.export.save(exported, folder / "model.pt2")
    return axes


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    make_model_files(Path(sys.argv[1]), *sys.argv[2:])
