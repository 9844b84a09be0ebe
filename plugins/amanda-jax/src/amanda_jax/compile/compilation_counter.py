"""Counting of XLA compilations: those that JAX itself reports during a call.

JAX compiles in many places besides the programs of an executable: each op that runs
eagerly is a program, too. So its own events are counted.
"""

from __future__ import annotations

from contextvars import ContextVar, Token
from threading import Lock
from typing import Any, Final

import jax

__all__ = ["CompilationCounter"]

_EVENT: Final = "/jax/core/compile/backend_compile_duration"


class CompilationCounter:
    """How many programs XLA compiled between `start` and `stop`, in all threads."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = Lock()

    def start(self) -> Token[CompilationCounter | None]:
        return _current.set(self)

    def stop(self, token: Token[CompilationCounter | None]) -> None:
        _current.reset(token)

    @staticmethod
    def is_counting() -> bool:
        """Whether any counter counts here and now."""
        return _current.get() is not None

    def add_one(self) -> None:
        with self._lock:
            self.count += 1


_current: ContextVar[CompilationCounter | None] = ContextVar(
    "amanda_jax_compilations", default=None
)


def _count_event(event: str, duration_secs: float, **kwargs: Any) -> None:
    del duration_secs, kwargs
    counter = _current.get() if event == _EVENT else None
    if counter is not None:
        counter.add_one()


jax.monitoring.register_event_duration_secs_listener(_count_event)
