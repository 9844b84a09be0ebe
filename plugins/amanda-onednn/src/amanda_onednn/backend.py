"""The backend `onednn`: the library of this package."""

from __future__ import annotations

from typing import Any, Final

from amanda.errors import AmandaError
from amanda_native import LibraryBackend
from amanda_onednn import LIBRARY

__all__ = ["BACKEND", "OneDnnBackend"]


class OneDnnBackend(LibraryBackend):
    """A backend whose error says how a missing library or oneDNN is installed."""

    def library(self) -> Any:
        """The library, loaded on the first call."""
        try:
            return super().library()
        except AmandaError as error:
            error.who = f"backend {self.name!r}"
            error.hint = "pip install --force-reinstall amanda-onednn onednn-cpu-gomp"
            raise


BACKEND: Final = OneDnnBackend("onednn", LIBRARY)
