"""Files of graphs: `text` (YAML, JSON, readable), `binary` (protobuf, archives with
weights), and `atomic`, which replaces files safely."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amanda.files.atomic import LEFT_OVER, Path, map_file, replace_file

__all__ = ["LEFT_OVER", "Path", "map_file", "replace_file"]

_HOME = dict.fromkeys(__all__, "amanda.files.atomic")


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
