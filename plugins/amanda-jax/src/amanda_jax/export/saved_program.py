"""Exported programs in files: what `jax.export` serializes, and the weights.

A zip archive, uncompressed: `program` (StableHLO, as `jax.export` serializes it), a
`.npy` file for each weight, and `about.json`. Nothing in it is pickled."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any, Final

import jax
import numpy as np

from amanda.errors import FormatError, UsageError
from amanda.files import replace_file
from amanda.types import DType
from amanda_jax.export.exporter import ExportedGraph

__all__ = ["SavedProgram", "restored", "save"]

FORMAT: Final = "amanda-jax/1"
Names = Sequence[str | None]


def save(
    path: str | os.PathLike[str],
    exported_graph: ExportedGraph,
    names: tuple[Names, Names],
) -> None:
    """Write the program and its weights; an old file is replaced at the end."""
    program, weights = exported_graph.program.serialize(), exported_graph.weights
    dtypes = [DType.of(w.dtype).name for w in weights]
    metadata = {
        "format": FORMAT,
        "weights": dtypes,
        "inputs": names[0],
        "results": names[1],
    }
    with (
        replace_file(path) as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive,
    ):
        archive.writestr("about.json", json.dumps(metadata))
        archive.writestr("program", bytes(program))
        for i, weight in enumerate(weights):
            archive.writestr(f"weights/{i}.npy", _bytes(np.asarray(weight)))


def _bytes(array: Any) -> bytes:
    """An array as `.npy`; element types that it does not support as raw bytes."""
    buffer = io.BytesIO()
    storable = (
        array if array.dtype.kind in "biufc" else array.view(f"V{array.itemsize}")
    )
    np.save(buffer, storable, allow_pickle=False)
    return buffer.getvalue()


def restored(path: str | os.PathLike[str], device: str | None = None) -> SavedProgram:
    """Load a saved program, ready to be called. The graph is not needed."""
    from amanda_jax.devices import find_device

    try:
        with zipfile.ZipFile(path) as archive:
            metadata = json.loads(archive.read("about.json"))
            if metadata.get("format") != FORMAT:
                raise FormatError("it has another version", got=metadata.get("format"))
            exported = jax.export.deserialize(bytearray(archive.read("program")))
            arrays = [
                _array(archive.read(f"weights/{i}.npy"), name)
                for i, name in enumerate(metadata["weights"])
            ]
    except (KeyError, ValueError, zipfile.BadZipFile) as cause:
        raise FormatError(
            f"{os.fspath(path)} is no saved program",
            got=f"{type(cause).__name__}: {cause}",
            hint="executable.save(path) writes one",
        ) from cause
    target_device = find_device(device)
    with jax.enable_x64(True):
        weights = jax.device_put(arrays, target_device)
    return SavedProgram(
        exported, weights, metadata["inputs"], metadata["results"], target_device
    )


def _array(data: bytes, dtype: str) -> Any:
    array = np.load(io.BytesIO(data), allow_pickle=False)
    saved_dtype = DType(dtype).numpy
    return array if array.dtype == saved_dtype else array.view(saved_dtype)


class SavedProgram:
    """A saved program. Feeds by name or in order; results as a dict."""

    def __init__(
        self, exported: Any, weights: Any, inputs: Names, results: Names, device: Any
    ) -> None:
        self._call = jax.jit(exported.call)
        self._weights = weights
        self._device = device
        self.inputs = [i if n is None else n for i, n in enumerate(inputs)]
        self.outputs = [i if n is None else n for i, n in enumerate(results)]
        self.shapes = [(a.shape, a.dtype) for a in exported.in_avals[len(weights) :]]

    def __call__(self, feeds: Mapping[Any, Any] | Sequence[Any]) -> dict[Any, Any]:
        if not isinstance(feeds, Mapping):
            feeds = dict(zip(self.inputs, feeds, strict=True))
        if feeds.keys() != set(self.inputs):
            raise UsageError(
                "the feeds do not match the saved program",
                expected=", ".join(map(str, self.inputs)),
                got=", ".join(map(str, feeds)),
            )
        args = [np.asarray(feeds[key]) for key in self.inputs]
        rows = zip(self.inputs, args, self.shapes, strict=True)
        problems = [
            f"{key!r} is {a.dtype}{list(a.shape)}, not {dtype}{list(shape)}"
            for key, a, (shape, dtype) in rows
            if a.dtype != dtype or not _matches(a.shape, shape)
        ]
        if problems:
            raise UsageError(
                "the feeds do not match the saved program", problems=problems
            )
        with jax.enable_x64(True), jax.default_device(self._device):
            results = self._call_program(args)
        return dict(zip(self.outputs, map(np.array, results), strict=True))

    def _call_program(self, args: Sequence[Any]) -> Any:
        try:
            return self._call(*self._weights, *args)
        except (
            ValueError
        ) as error:  # sizes that no value of the symbolic dims results in
            raise UsageError(
                "the feeds do not match the saved program",
                expected=", ".join(
                    f"{k!r} {list(s)}" for k, (s, _) in self._expected_shapes()
                ),
                got=", ".join(f"{list(a.shape)}" for a in args),
                hint=str(error).partition("\n")[0],
            ) from error

    def _expected_shapes(self) -> Any:
        return zip(self.inputs, self.shapes, strict=True)


def _matches(shape: Sequence[int], saved: Sequence[Any]) -> bool:
    """Whether sizes match those that were saved, where these are static."""
    return len(shape) == len(saved) and all(
        jax.export.is_symbolic_dim(saved_dtype) or size == saved_dtype
        for size, saved_dtype in zip(shape, saved, strict=True)
    )
