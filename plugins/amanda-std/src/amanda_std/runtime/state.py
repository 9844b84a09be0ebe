"""The context of a run: variables, probes, callbacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, NamedTuple

from amanda.backend import Cell, State
from amanda.errors import BackendError, UsageError
from amanda.host import Host, host_in_use

__all__ = ["Cell", "State", "RunContext", "run_context", "current_run"]


class RunContext(NamedTuple):
    """What kernels with effects can reach while a program runs."""

    state: State | None = None
    observe: Callable[[str, Any], object] | None = None
    """Called with the label and the value of every probe."""
    callbacks: Mapping[str, Callable[..., Any]] = {}
    """Python functions that host_callback may call, by name."""
    host: Host | None = None
    """Where other callbacks are looked up; None for the host in use."""

    def callback(self, name: str) -> Callable[..., Any]:
        """The function of a name: passed to the executable, or registered with the
        host."""
        found = self.callbacks.get(name)
        if found is not None:
            return found
        host = self.host or host_in_use()
        if host.has("callbacks", name):
            entry = host.find("callbacks", name)
            return host.function(entry, "called by a program", BackendError)
        known = ", ".join([*self.callbacks, *host.names("callbacks")]) or "none"
        raise UsageError(
            f"there is no callback {name!r}",
            expected=f"one of: {known}",
            hint="compile with callbacks={name: function}, or "
            "host.register_callback(name, function)",
        )


_EMPTY = RunContext()
_current: ContextVar[RunContext] = ContextVar("amanda_std_around", default=_EMPTY)


def current_run() -> RunContext:
    """The context of the running program."""
    return _current.get()


class run_context:  # noqa: N801 - read as a verb
    """Context in which kernels find this `RunContext`."""

    __slots__ = ("_held", "_token")

    def __init__(self, held: RunContext) -> None:
        self._held = held

    def __enter__(self) -> None:
        self._token = _current.set(self._held)

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)
