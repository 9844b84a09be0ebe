"""Files of arrays, as `--feeds` reads them: `.npy` and `.npz`."""

from __future__ import annotations

import io
import random
import zipfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from fuzz.readers import Mutant, Reader
from fuzz.stages import REFUSED, run_stage
from numpy.lib import format as npy
from proto.proto_mutations import break_bytes

from amanda.cli.inputs.array_files import read_arrays, write_arrays
from amanda.cli.inputs.feeds import summarize_value

__all__ = ["READERS"]

_ARRAYS: tuple[Any, ...] = (
    np.arange(6, dtype="float32").reshape(2, 3),
    np.asfortranarray(np.arange(6, dtype="int64").reshape(2, 3)),
    np.zeros((0, 4), "float16"),
    np.array(True),
    np.array(["a", "bc"]),
    np.array([b"a", b"bc"]),
    np.array([1 + 2j]),
    np.array(["2020-01-01"], "datetime64[D]"),
    np.zeros(2, [("a", "int8"), ("b", "float64", (2,))]),
    np.zeros((1,) * 32, ">u2"),
)
_HEADERS = (
    b"'|O'", b"'<f8'", b"'|V0'", b"'<U99999999'", b"True", b"False", b"-1", b"(",
    b"99999999999999999999", b"(2**62, 2)", b"None", b"'descr'", b"[('a', '<f4')]",
    b"'<M8[ns]'", b"'|S0'", b"(0,)", b"(1.5,)", b"(True,)", b"{", b"}" * 9,
    b"(" * 300, b"'float8_e4m3fn'",
)  # fmt: skip


@cache
def _seeds() -> tuple[Mutant, ...]:
    found = []
    for array in _ARRAYS:
        file = io.BytesIO()
        np.save(file, array, allow_pickle=False)
        found.append(Mutant("npy", file.getvalue()))
    for i in range(len(_ARRAYS)):
        chosen = {f"x{j}": array for j, array in enumerate(_ARRAYS[i:])}
        for save in (np.savez, np.savez_compressed):
            file = io.BytesIO()
            save(file, **chosen)
            found.append(Mutant("npz", file.getvalue()))
    return tuple(found)


def _change_array(data: bytes, choose: random.Random) -> bytes:
    """A `.npy` file whose header differs, or any of its bytes."""
    end = data.find(b"\n")
    tokens = [data.find(mark) for mark in (b"'descr': ", b"'shape': ", b"order': ")]
    if end < 0 or min(tokens) < 0 or choose.random() < 0.4:
        return break_bytes(data, choose)
    at = choose.choice(tokens) + 9
    stop = data.find(choose.choice([b",", b"}", b"), "]), at)
    header = data[10:at] + choose.choice(_HEADERS) + data[max(stop, at) : end]
    size = (len(header) + 1).to_bytes(2, "little")
    return data[:8] + size + header + data[end:]


def _change(data: bytes, good: Sequence[bytes], choose: random.Random) -> bytes:
    if not data.startswith(b"PK"):
        return _change_array(data, choose)
    if choose.random() < 0.3:
        return break_bytes(data, choose)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    name = choose.choice(list(content))
    content[name] = _change_array(content[name], choose)
    if choose.random() < 0.1:
        content[choose.choice(["file", "/", "../x.npy", "a/b.npy"])] = content.pop(name)
    file = io.BytesIO()
    kind = choose.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])
    with zipfile.ZipFile(file, "w", kind) as archive:
        for member, raw in content.items():
            archive.writestr(member, raw)
    return file.getvalue()


def _attempt(path: Path, folder: Path, choose: random.Random) -> str:
    """Arrays that are read are shown, written, and read again the same."""
    found = run_stage("read", read_arrays, str(path))
    if found is None:
        return REFUSED
    arrays = found if isinstance(found, dict) else {"x": found}
    for array in arrays.values():
        run_stage("show", summarize_value, array)
    with (folder / "again.npz").open("wb") as file:
        run_stage("write", write_arrays, file, arrays)
    again = read_arrays(str(folder / "again.npz"))
    assert again.keys() == arrays.keys()
    for key, array in arrays.items():
        descr = npy.dtype_to_descr(array.dtype)  # void for dtypes of ml_dtypes
        assert again[key].dtype == npy.descr_to_dtype(descr)
        assert again[key].tobytes() == array.tobytes(), key
    return "read"


READERS = [Reader("arrays", 4, _seeds, _change, _attempt)]
