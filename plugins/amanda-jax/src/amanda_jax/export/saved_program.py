"""Compiled programs in files: what `jax.export` writes, with the weights beside it.

A zip, stored as it is: `program` (StableHLO, as `jax.export` serialises it), a `.npy`
for each weight, and `about.json`. Nothing in it is pickled.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import jax
import numpy as np

from amanda.errors import FormatError, UsageError
from amanda.types import DType
from amanda_jax.export.exporter import Written

__all__ = ["Restored", "restored", "save"]

FORMAT: Final = "amanda-jax/1"
Names = Sequence[str | None]


def save(
    path: str | os.PathLike[str],
    written: Written,
    names: tuple[Names, Names],
) -> None:
    """Written beside and renamed into place."""
    program, weights = written.program.serialize(), written.weights
    dtypes = [DType.of(w.dtype).name for w in weights]
    about = {
        "format": FORMAT,
        "weights": dtypes,
        "inputs": names[0],
        "results": names[1],
    }
    target = Path(path)
    beside = target.with_name(target.name + ".part")
    with zipfile.ZipFile(beside, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("about.json", json.dumps(about))
        archive.writestr("program", bytes(program))
        for i, weight in enumerate(weights):
            archive.writestr(f"weights/{i}.npy", _bytes(np.asarray(weight)))
    beside.replace(target)


def _bytes(array: Any) -> bytes:
    """As `.npy`; element types that it does not know as plain bytes."""
    kept = io.BytesIO()
    plain = array if array.dtype.kind in "biufc" else array.view(f"V{array.itemsize}")
    np.save(kept, plain, allow_pickle=False)
    return kept.getvalue()


def restored(path: str | os.PathLike[str], device: str | None = None) -> Restored:
    """What was saved, ready to be called. Nothing of the graph is needed."""
    from amanda_jax.devices import chosen

    try:
        with zipfile.ZipFile(path) as archive:
            about = json.loads(archive.read("about.json"))
            if about.get("format") != FORMAT:
                raise FormatError("it is of another version", got=about.get("format"))
            exported = jax.export.deserialize(bytearray(archive.read("program")))
            arrays = [
                _array(archive.read(f"weights/{i}.npy"), name)
                for i, name in enumerate(about["weights"])
            ]
    except (KeyError, ValueError, zipfile.BadZipFile) as cause:
        raise FormatError(
            f"{os.fspath(path)} holds no program that was saved",
            got=f"{type(cause).__name__}: {cause}",
            hint="executable.save(path) writes one",
        ) from cause
    place = chosen(device)
    with jax.enable_x64(True):
        weights = jax.device_put(arrays, place)
    return Restored(exported, weights, about["inputs"], about["results"], place)


def _array(data: bytes, dtype: str) -> Any:
    array = np.load(io.BytesIO(data), allow_pickle=False)
    wanted = DType(dtype).numpy
    return array if array.dtype == wanted else array.view(wanted)


class Restored:
    """A program that was saved. Feeds by name or in order; results as a dict."""

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
                "the feeds do not fit what was saved",
                expected=", ".join(map(str, self.inputs)),
                got=", ".join(map(str, feeds)),
            )
        args = [np.asarray(feeds[key]) for key in self.inputs]
        rows = zip(self.inputs, args, self.shapes, strict=True)
        problems = [
            f"{key!r} is {a.dtype}{list(a.shape)}, not {dtype}{list(shape)}"
            for key, a, (shape, dtype) in rows
            if a.dtype != dtype or not _fits(a.shape, shape)
        ]
        if problems:
            raise UsageError("the feeds do not fit what was saved", problems=problems)
        with jax.enable_x64(True), jax.default_device(self._device):
            made = self._made(args)
        return dict(zip(self.outputs, map(np.array, made), strict=True))

    def _made(self, args: Sequence[Any]) -> Any:
        try:
            return self._call(*self._weights, *args)
        except ValueError as error:  # sizes that no value of the open ones gives
            raise UsageError(
                "the feeds do not fit what was saved",
                expected=", ".join(f"{k!r} {list(s)}" for k, (s, _) in self._rows()),
                got=", ".join(f"{list(a.shape)}" for a in args),
                hint=str(error).partition("\n")[0],
            ) from error

    def _rows(self) -> Any:
        return zip(self.inputs, self.shapes, strict=True)


def _fits(shape: Sequence[int], saved: Sequence[Any]) -> bool:
    """Whether sizes are those that were saved, where these are told."""
    return len(shape) == len(saved) and all(
        jax.export.is_symbolic_dim(wanted) or size == wanted
        for size, wanted in zip(shape, saved, strict=True)
    )
