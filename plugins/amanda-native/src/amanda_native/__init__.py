"""Native backends over a C interface.

`LibraryBackend` is a backend of one library, for the entry point of a distribution that
contains one. `HEADER`, `GRAPH_SCHEMA` and `REFERENCE_SOURCE` are files in this package.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from amanda.argument_checks import check_member

if TYPE_CHECKING:
    from amanda_native.backend import LibraryBackend

__all__ = ["GRAPH_SCHEMA", "HEADER", "REFERENCE_SOURCE", "LibraryBackend"]

_C_FILES: Final = Path(__file__).parent / "c"

HEADER: Final = _C_FILES / "amanda_backend.h"
"""The header of the C interface."""
GRAPH_SCHEMA: Final = _C_FILES / "graph.schema.json"
"""The JSON schema of the graphs that libraries get."""
REFERENCE_SOURCE: Final = _C_FILES / "reference_backend.c"
"""A complete backend in one C file."""


def __getattr__(name: str) -> Any:
    if name == "LibraryBackend":
        from amanda_native.backend import LibraryBackend

        return check_member(LibraryBackend)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
