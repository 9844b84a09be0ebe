"""What code prints while a verb runs: to standard error, with the name of the plug-in.

Standard output has the answer of a verb only, so that it can be parsed or piped.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Any, BinaryIO

from amanda.current_host import Plugin, plugin_in_call

__all__ = ["chatter_to_stderr"]


@contextmanager
def chatter_to_stderr(verb_plugin: Plugin | None = None) -> Iterator[None]:
    """Redirect standard output to standard error, that of libraries in C too.

    The first text of each plug-in is preceded by its name; `verb_plugin` is the plug-in
    of the verb, if it is one of a plug-in.
    """
    with _descriptor_to_stderr(), redirect_stdout(_Chatter(sys.stdout, verb_plugin)):
        yield


class _Chatter(io.TextIOBase):
    """A stream that writes to standard error."""

    def __init__(self, answers: Any, verb_plugin: Plugin | None) -> None:
        self._answers = answers
        self._verb_plugin = verb_plugin
        self._named: set[str] = set()

    def write(self, text: str) -> int:
        plugin = plugin_in_call() or self._verb_plugin
        if plugin is not None and plugin.what not in self._named:
            self._named.add(plugin.what)
            sys.stderr.write(f"amanda: {plugin.what} wrote to standard output:\n")
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()

    def isatty(self) -> bool:
        """Whether the answer goes to a terminal."""
        return bool(self._answers.isatty())

    def fileno(self) -> int:
        return sys.stderr.fileno()

    @property
    def buffer(self) -> BinaryIO:
        return sys.stderr.buffer


@contextmanager
def _descriptor_to_stderr() -> Iterator[None]:
    """Redirect the file descriptor of standard output, where it is the process's."""
    kept = None
    if sys.stdout is sys.__stdout__:
        with suppress(OSError, ValueError, AttributeError):  # closed, or no file
            sys.stdout.flush()  # type: ignore[union-attr]  # None where there is none
            here, there = sys.stdout.fileno(), sys.stderr.fileno()  # type: ignore[union-attr]
            kept = os.dup(here)
            os.dup2(there, here)
    try:
        yield
    finally:
        if kept is not None:
            os.dup2(kept, here)
            os.close(kept)
