"""Graphs of static shape as C: kernels of the reference backend, and their calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amanda_native.c_export.files import CFiles, export_c

__all__ = ["CFiles", "export_c"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from amanda_native.c_export import files

        return getattr(files, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
