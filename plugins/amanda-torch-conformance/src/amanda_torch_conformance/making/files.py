"""The files of programs: `.pt2` archives, arrays, and the index of all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from amanda_torch_conformance.making.dynamic_sizes import dynamic_program
from amanda_torch_conformance.making.op_database import Program, op_names, programs_of

__all__ = ["make_files"]


def make_files(folder: Path, every: int = 1) -> None:
    """Make the files of the programs, and last their index."""
    folder.mkdir(parents=True, exist_ok=True)
    chosen = list(op_names().items())[::every]
    rows = [_make_row(name, op, folder / name) for name, op in chosen]
    index = {"torch": str(torch.__version__), "programs": rows}
    (folder / "index.json").write_text(json.dumps(index, indent=1), "utf-8")


def _make_row(name: str, op: Any, folder: Path) -> dict[str, Any]:
    """Make the files of one entry; its row of the index."""
    row: dict[str, Any] = {"name": name, "samples": 0, "dynamic": False}
    try:
        for number, program in enumerate(programs_of(op)):
            _write(program, folder / str(number))
            row["samples"] = number + 1
    except Exception as error:  # noqa: BLE001 - the reason of PyTorch is recorded
        row["error"] = _one_line(error)
    try:
        first, second = dynamic_program(op)
        _write(first, folder / "dynamic")
        _write_arrays(second, folder / "dynamic" / "second.npz")
        row["dynamic"] = True
    except Exception as error:  # noqa: BLE001 - the reason of PyTorch is recorded
        row["dynamic_error"] = _one_line(error)
    return row


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def _write(program: Program, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    torch.export.save(program.exported, folder / "model.pt2")
    _write_arrays(program, folder / "data.npz")


def _write_arrays(program: Program, file: Path) -> None:
    arrays = {f"in_{i}": _array(x) for i, x in enumerate(program.inputs)}
    arrays |= {f"out_{i}": _array(y) for i, y in enumerate(program.outputs)}
    arrays |= {f"draws_{i}": _array(y) for i, y in enumerate(program.draws)}
    np.savez(file, **arrays)


def _array(tensor: torch.Tensor) -> Any:
    """A tensor as an array that a `.npz` file can hold.

    The bits of bfloat16 are bytes there; complex numbers of 32 bits have no array.
    """
    dense = tensor.detach().to_dense() if tensor.layout != torch.strided else tensor
    plain = dense.detach().resolve_conj().resolve_neg()
    if plain.dtype == torch.bfloat16:
        return plain.view(torch.int16).numpy().view("V2")
    return plain.to(_WIDER.get(plain.dtype, plain.dtype)).numpy()


_WIDER: Final = {torch.complex32: torch.complex64}
