"""Files that a model refers to and that are not there, collected instead of raised.

    with collect_missing_files() as missing:
        graph = amanda.load("model.onnx")  # weights of missing files are zeros

Readers ask `is_missing_file_allowed` before they raise an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["collect_missing_files", "is_missing_file_allowed"]

_COLLECTED: ContextVar[dict[str, None] | None] = ContextVar(
    "amanda_missing_files", default=None
)


@contextmanager
def collect_missing_files() -> Iterator[dict[str, None]]:
    """A context in which files that are read may lack others; yields their names."""
    found: dict[str, None] = {}
    token = _COLLECTED.set(found)
    try:
        yield found
    finally:
        _COLLECTED.reset(token)


def is_missing_file_allowed(name: str) -> bool:
    """Whether a reader may go on without a file, with zeros for what is in it.

    The name is collected. Outside of `collect_missing_files` this is false."""
    found = _COLLECTED.get()
    if found is None:
        return False
    found[name] = None
    return True
