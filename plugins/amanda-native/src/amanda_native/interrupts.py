"""Ctrl-C while a library runs: the library is told to stop."""

from __future__ import annotations

import signal
import threading
from typing import Any, Protocol

__all__ = ["KeyboardWatch"]


class Cancellable(Protocol):
    is_cancelled: bool


class KeyboardWatch:
    """A context in which an interrupt sets `is_cancelled`, and is raised at the end.

    Python runs handlers of signals only in its main thread, and when a library calls
    back; raised there, an interrupt would be lost. Other threads, and programs with a
    handler of their own, are left as they are.
    """

    __slots__ = ("_call", "_is_watching")

    def __init__(self, call: Cancellable) -> None:
        self._call = call
        self._is_watching = False

    def __enter__(self) -> None:
        if threading.get_ident() != threading.main_thread().ident:
            return
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._is_watching = True
            signal.signal(signal.SIGINT, self._cancel)

    def __exit__(self, *raised: object) -> None:
        if self._is_watching:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            if self._call.is_cancelled:
                raise KeyboardInterrupt

    def _cancel(self, number: int, place: Any) -> None:
        del number, place
        self._call.is_cancelled = True
