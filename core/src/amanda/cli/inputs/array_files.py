"""Files of arrays: `.npy`, and `.npz` with names.

Sizes are compared with those of the file before anything is read, and pickled objects
are refused, since they may run code.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from amanda.errors import AmandaError, FormatError, LimitError, UsageError

if TYPE_CHECKING:
    import numpy as np

__all__ = ["named_arrays", "read_arrays", "write_array", "write_arrays"]

_SMALL: Final = 1 << 28
"""Bytes that an archive may always expand to."""
_RATIO: Final = 100
"""How many times its size a larger archive may expand."""
_NPY: Final = ".npy"


def read_arrays(path: str) -> Any:
    """The array of a `.npy` file, or the arrays of a `.npz` file by name."""
    try:
        size = os.stat(path).st_size
        with Path(path).open("rb") as file:
            if file.read(4) in (b"PK\3\4", b"PK\5\6"):  # an empty archive
                return _read_archive(file, size)
            file.seek(0)
            return _read_array(file, size)
    except OSError as error:
        raise AmandaError("there is no such file", who=path) from error
    except AmandaError as error:
        error.who = error.who or path
        raise
    except Exception as error:  # decoders of damaged files raise anything
        raise FormatError(
            "this file has no plain arrays",
            who=path,
            got=f"{type(error).__name__}: {error}"[:200],
        ) from error


def _read_archive(file: IO[bytes], size: int) -> dict[str, np.ndarray[Any, Any]]:
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        expanded = sum(member.file_size for member in members)
        if expanded > max(_SMALL, _RATIO * size):
            raise LimitError(
                "the archive expands too much",
                expected=f"at most {_RATIO} times its size",
                got=f"{expanded:,} bytes in a file of {size:,}",
                hint="store the arrays uncompressed: np.savez",
            )
        found = {}
        for member in members:
            with archive.open(member) as stream:
                array = _read_array(stream, member.file_size)
            found[member.filename.removesuffix(_NPY)] = array
        return found


def _read_array(stream: IO[bytes], size: int) -> np.ndarray[Any, Any]:
    """The array in a stream of `size` bytes."""
    import numpy as np
    from numpy.lib import format as npy

    version = npy.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise FormatError("no array of numbers has this version", got=version)
    read_header = npy.read_array_header_1_0
    if version == (2, 0):
        read_header = npy.read_array_header_2_0
    shape, by_columns, dtype = read_header(stream)
    if dtype.hasobject:
        raise FormatError("this file has no plain arrays: pickled objects may run code")
    wanted, there = prod(shape) * dtype.itemsize, size - stream.tell()
    if wanted != there:
        raise FormatError(
            "the data does not have the size that its header states",
            expected=f"{wanted:,} bytes",
            got=f"{there:,} bytes",
        )
    flat = np.frombuffer(bytearray(stream.read(wanted)), dtype)
    return flat.reshape(shape[::-1]).T if by_columns else flat.reshape(shape)


def write_array(file: IO[bytes], value: np.ndarray[Any, Any]) -> None:
    """Write one array, as `np.save` does, without pickle."""
    from numpy.lib import format as npy

    npy.write_array(file, value, allow_pickle=False)


def write_arrays(file: IO[bytes], values: Mapping[str, Any]) -> None:
    """Write arrays by name, as `np.savez` does; the items of lists get an index."""
    from numpy.lib import format as npy

    with zipfile.ZipFile(file, "w") as archive:
        for name, value in named_arrays(values):
            with archive.open(f"{name}{_NPY}", "w", force_zip64=True) as stream:
                npy.write_array(stream, value, allow_pickle=False)


def named_arrays(values: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Arrays by name; the items of containers get an index."""
    import numpy as np

    found: list[tuple[str, Any]] = []
    waiting = list(values.items())[::-1]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, list | tuple):
            waiting += [(f"{name}[{i}]", item) for i, item in enumerate(value)][::-1]
        elif isinstance(value, Mapping):
            waiting += [(f"{name}[{key!r}]", item) for key, item in value.items()][::-1]
        elif value is not None:
            found.append((name, _plain_array(name, np.asarray(value))))
    return found


def _plain_array(name: str, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An array that is written without pickle: objects as texts or bytes."""
    import numpy as np

    if array.dtype.kind != "O":
        return array
    items = array.reshape(-1).tolist()
    for kind, empty in ((str, ""), (bytes, b"")):
        if all(type(item) is kind for item in items):
            made = np.array([empty, *items])[1:].reshape(array.shape)
            if made.reshape(-1).tolist() == items:
                return made
    raise UsageError(
        f"result {name!r} has elements that .npz does not hold",
        expected="numbers, or texts without a trailing null character",
        got=", ".join(sorted({type(item).__name__ for item in items})),
    )
