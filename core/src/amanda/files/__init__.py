"""Files of graphs: `text` (YAML, JSON, readable), `binary` (protobuf, archives with
weights), `atomic`, which replaces files safely, and `mapped_file`, which reads them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from amanda.argument_checks import check_member

if TYPE_CHECKING:
    from amanda.files.atomic import (
        LEFT_OVER,
        Path,
        lock_folder,
        map_file,
        new_file,
        replace_file,
        replace_folder,
    )
    from amanda.files.binary.safetensors import read_safetensors, write_safetensors
    from amanda.files.binary.stored_zip import ArchiveWriter
    from amanda.files.mapped_file import COPY_BYTES, MappedFile
    from amanda.files.text.json_form import dumps_without_weights

__all__ = [
    "ArchiveWriter",
    "COPY_BYTES",
    "dumps_without_weights",
    "LEFT_OVER",
    "MappedFile",
    "Path",
    "lock_folder",
    "map_file",
    "new_file",
    "read_safetensors",
    "replace_file",
    "replace_folder",
    "write_safetensors",
]

_HOME = {
    **dict.fromkeys(__all__, "amanda.files.atomic"),
    "read_safetensors": "amanda.files.binary.safetensors",
    "write_safetensors": "amanda.files.binary.safetensors",
    "dumps_without_weights": "amanda.files.text.json_form",
    "ArchiveWriter": "amanda.files.binary.stored_zip",
    **dict.fromkeys(("COPY_BYTES", "MappedFile"), "amanda.files.mapped_file"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = check_member(getattr(import_module(_HOME[name]), name))
    globals()[name] = value  # found without this function the next time
    return value
