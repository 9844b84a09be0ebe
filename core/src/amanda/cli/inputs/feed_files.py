"""Files of feeds and of stored outputs, by their suffixes.

`.npy`, `.npz` and images are read here; other suffixes by plug-ins, entries of
`amanda.arrays`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from amanda.cli.inputs.array_files import read_arrays
from amanda.cli.inputs.images import IMAGE_SUFFIXES, ImageOptions, read_images
from amanda.errors import AmandaError, UsageError
from amanda.host import default_host
from amanda.types import DType, TensorType, Type

if TYPE_CHECKING:
    from amanda.graph import Parameter

__all__ = ["parse_pairs", "read_feed_files", "read_output_files"]

Key = str | int
_WITHOUT_BYTES: Final = ("string", "bytes", "handle", "unknown")
_NUMBER: Final = re.compile(r"(\d+)$")


def parse_pairs(texts: Iterable[str], option: str) -> list[tuple[str, str]]:
    """Names and values of options of the form NAME=VALUE."""
    pairs = [text.partition("=") for text in texts]
    for name, mark, value in pairs:
        if not mark or not name or not value:
            raise UsageError(f"{option} takes NAME=VALUE", got=f"{name}{mark}{value}")
    return [(name, value) for name, _, value in pairs]


def read_feed_files(
    feeds: Sequence[str], ports: Mapping[Key, Parameter], images: Sequence[str] = ()
) -> dict[Key, Any]:
    """The feeds that `--feed` states, for inputs of these keys."""
    options = ImageOptions.parse(images)
    found: dict[Key, Any] = {}
    named = []
    for text in feeds:
        if _holds_several(text):
            found |= _read_several(text, list(ports), "input_")
        else:
            named.append(text)
    for name, file in parse_pairs(named, "--feed"):
        _expect_known([name], ports)
        port = ports[_key_of(name, ports)]
        found[_key_of(name, ports)] = _read_one(file, port, options)
    _expect_known(found, ports)
    return {
        key: _with_element_type(value, ports[_key_of(str(key), ports)].type)
        for key, value in found.items()
    }


def _with_element_type(value: Any, wanted: Type | None) -> Any:
    """An array of bytes as elements of the type that is wanted there.

    Files of numpy have no other form for element types that numpy does not have."""
    dtype = getattr(value, "dtype", None)
    if dtype is None or dtype.kind != "V" or not isinstance(wanted, TensorType):
        return value
    if not isinstance(wanted.dtype, DType) or wanted.dtype.kind in _WITHOUT_BYTES:
        return value
    numpy_type = wanted.dtype.numpy
    return value.view(numpy_type) if numpy_type.itemsize == dtype.itemsize else value


def read_output_files(path: str, types: Mapping[Key, Type | None]) -> dict[Key, Any]:
    """Stored outputs by key; an array without a name is the only output.

    `types` are those of the results, by which arrays of bytes are read."""
    keys = list(types)
    if _holds_several(path):
        found = _read_several(path, keys, "output_")
    else:
        value = _read_array(path)[1]
        found = value if isinstance(value, dict) else {0: value}
    only = keys[0] if len(keys) == len(found) == 1 else None
    return {
        key: _with_element_type(value, types.get(key if only is None else only))
        for key, value in found.items()
    }


def _key_of(name: str, ports: Mapping[Key, Parameter]) -> Key:
    """The key of an input, which is its index where it has no name."""
    return int(name) if name not in ports and name.isdecimal() else name


def _expect_known(names: Iterable[Key], ports: Mapping[Key, Parameter]) -> None:
    unknown = [name for name in names if _key_of(str(name), ports) not in ports]
    if unknown:
        raise UsageError(
            f"the model has no input {unknown[0]!r}",
            expected=f"one of {', '.join(map(str, ports))}" if ports else "no feeds",
        )


def _holds_several(text: str) -> bool:
    """Whether this is a file or folder with all arrays, by name or in order."""
    return (text.endswith(".npz") and "=" not in text) or Path(text).is_dir()


def _read_several(text: str, keys: Sequence[Key], prefix: str) -> dict[Key, Any]:
    if Path(text).is_dir():
        return _read_folder(Path(text), keys, prefix)
    arrays = read_arrays(text)
    if not isinstance(arrays, dict):
        raise UsageError("this file has one array without a name", who=text)
    return dict(arrays)


def _read_folder(folder: Path, keys: Sequence[Key], prefix: str) -> dict[Key, Any]:
    """The arrays of a folder: by the names in the files, else by their file names.

    Where files are numbered, `input_0.pb`, they are in the order of the inputs."""
    known = {".npy", *_array_suffixes()}
    files = [file for file in sorted(folder.iterdir()) if file.suffix in known]
    files = [f for f in files if f.stem.startswith(prefix)] or files
    if not files:
        raise UsageError(
            "this folder has no arrays",
            who=str(folder),
            expected=f"files with one of {', '.join(sorted(known))}",
        )
    found = {}
    for file in files:
        name, array = _read_array(str(file))
        found[_key_of_file(file, name, keys)] = array
    return found


def _key_of_file(file: Path, name: str | None, keys: Sequence[Key]) -> Key:
    """The key of an array in a folder."""
    if name in keys or file.stem in keys:
        return name if name is not None and name in keys else file.stem
    number = _NUMBER.search(file.stem)
    if number is not None and int(number[1]) < len(keys):
        return keys[int(number[1])]
    return name or file.stem


def _read_one(text: str, port: Parameter, options: ImageOptions) -> Any:
    """The feed of one input: an array, or a batch of images."""
    paths = text.split(",")
    if all(path.lower().endswith(IMAGE_SUFFIXES) for path in paths):
        return read_images(paths, port, options)
    return _read_array(text)[1]


def _read_array(path: str) -> tuple[str | None, Any]:
    """The array of a file, and the name in it, if it has one."""
    suffix = Path(path).suffix.lower()
    if suffix in (".npy", ".npz"):
        return None, read_arrays(path)
    entry = _array_suffixes().get(suffix)
    if entry is None:
        known = [".npy", ".npz", *IMAGE_SUFFIXES, *_array_suffixes()]
        raise UsageError(
            "no reader of arrays knows this suffix",
            who=path,
            expected=f"one of {', '.join(dict.fromkeys(known))}",
            got=suffix or "no suffix",
        )
    if not Path(path).is_file():
        raise AmandaError("there is no such file", who=path)
    host = default_host()
    found: tuple[str | None, Any] = host.get("arrays", entry).read(Path(path))
    return found


def _array_suffixes() -> dict[str, str]:
    """The entry of `amanda.arrays` for each suffix."""
    return {
        suffix: entry.choice
        for entry in default_host().entries("arrays")
        for suffix in entry.manifest.get("suffixes", ())
    }
