"""Exported programs in files: what `jax.export` serializes, and the weights.

A zip archive, uncompressed: `program` (StableHLO, as `jax.export` serializes it), a
`.npy` file for each weight, and `about.json`. Nothing in it is pickled."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import jax
import numpy as np

from amanda.errors import AmandaError, FormatError, UsageError
from amanda.files import map_file, replace_file
from amanda.formatkit import file_errors
from amanda.types import DType
from amanda_jax.export.exporter import ExportedGraph

__all__ = ["SavedProgram", "load_saved_program", "save"]

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


def load_saved_program(
    path: str | os.PathLike[str], device: str | None = None, *, trusted: bool = False
) -> SavedProgram:
    """Load a saved program, ready to be called. The graph is not needed.

    A process of its own parses the program first, and custom calls are checked;
    `trusted=True` omits this, for files that you wrote.
    """
    from amanda_jax.devices import find_device

    target_device = find_device(device)
    with file_errors(path):
        content = _read(path, trusted)
    with jax.enable_x64(True):
        weights = jax.device_put(content.weights, target_device)
    return SavedProgram(
        content.exported, weights, content.inputs, content.results, target_device
    )


class _Content(NamedTuple):
    """The content of a file."""

    exported: Any
    weights: Sequence[Any]
    inputs: Names
    results: Names


def _read(path: str | os.PathLike[str], trusted: bool) -> _Content:
    view = map_file(path)
    try:
        with zipfile.ZipFile(io.BytesIO(view)) as archive:
            _expect_stored(archive, len(view))
            metadata = json.loads(archive.read("about.json"))
            if metadata["format"] != FORMAT:
                raise FormatError("it has another version", got=metadata["format"])
            exported = jax.export.deserialize(bytearray(archive.read("program")))
            dtypes = metadata["weights"]
            weights = [
                _array(archive.read(f"weights/{i}.npy"), name)
                for i, name in enumerate(dtypes)
            ]
            names = metadata["inputs"], metadata["results"]
            found = _Content(exported, weights, *map(_names, names))
            _expect_types(found)
    except AmandaError:
        raise
    except (
        Exception
    ) as cause:  # the readers of zip, npy and jax.export raise many types
        raise _no_program(f"{type(cause).__name__}: {cause}") from cause
    if not trusted:
        from amanda_jax.formats.stablehlo.custom_calls import check_custom_calls
        from amanda_jax.formats.stablehlo.isolated_parser import check_program

        module = exported.mlir_module_serialized
        check_custom_calls(check_program(module, "the saved program"))
    return found


def _no_program(got: str) -> FormatError:
    return FormatError(
        "it is no saved program", got=got[:500], hint="executable.save(path) writes one"
    )


def _expect_stored(archive: zipfile.ZipFile, size: int) -> None:
    """Refuse members that take more memory than the file."""
    members = archive.infolist()
    if any(m.compress_type != zipfile.ZIP_STORED for m in members):
        raise _no_program("compressed members")
    if sum(m.file_size for m in members) > size:
        raise _no_program("members that overlap")


def _names(found: Any) -> Names:
    if not isinstance(found, list):
        raise _no_program("no list of names")
    if not all(name is None or isinstance(name, str) for name in found):
        raise _no_program("names that are no text")
    return found


def _expect_types(found: _Content) -> None:
    """Refuse a program whose arguments are not its weights and named inputs."""
    wanted = [(tuple(a.shape), a.dtype) for a in found.exported.in_avals]
    weights = [(w.shape, w.dtype) for w in found.weights]
    if weights != wanted[: len(weights)]:
        raise _no_program("weights of other types than its arguments")
    counts = len(found.inputs), len(found.results)
    own = len(wanted) - len(weights), len(found.exported.out_avals)
    if counts != own:
        raise _no_program(f"names for {counts} inputs and results of {own}")


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
