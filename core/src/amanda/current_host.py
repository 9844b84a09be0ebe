"""The host in use, where calls that name no host find plug-ins; and calls of plug-ins.

Functions of the API that accept a `host` put it in use while they run, so that a
mapping, a format or a backend that they call finds namespaces and other plug-ins of the
same host. This module stands below everything that needs a host; the package sets
`default` when it is imported, since imports only go down.

Every call of a plug-in's code is made in a `PluginCall`, the one place where its
exceptions become errors that name it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from amanda.errors import AmandaError

__all__ = [
    "NamedPlugin",
    "Plugin",
    "PluginCall",
    "error_text",
    "host_in_use",
    "plugin_error",
    "plugin_in_call",
    "use_host",
]

_Host = TypeVar("_Host")
_in_use: ContextVar[Any] = ContextVar("amanda_host_in_use", default=None)
_in_call: ContextVar[Any] = ContextVar("amanda_plugin_in_call", default=None)


def _no_default() -> Any:
    raise RuntimeError("the package amanda was not imported")


default: Callable[[], Any] = _no_default
"""Returns the default host."""


def host_in_use() -> Any:
    """The host that the running call uses; outside of calls, the default host.

    A new thread begins with the default host.
    """
    return _in_use.get() or default()


class use_host(Generic[_Host]):  # noqa: N801  a class is entered faster than a generator
    """Context in which `host_in_use()` is this host; None keeps the one in use.

    >>> with use_host("a host"):
    ...     host_in_use()
    'a host'
    """

    __slots__ = ("_host", "_token")

    def __init__(self, host: _Host) -> None:
        self._host = host

    def __enter__(self) -> _Host:
        host = _in_use.get() if self._host is None else self._host
        self._token = _in_use.set(host)
        return self._host

    def __exit__(self, *_: object) -> None:
        _in_use.reset(self._token)


class Plugin(Protocol):
    """What errors say of a plug-in: an entry of a host, or a `NamedPlugin`."""

    @property
    def what(self) -> str:
        """Its label, such as "backend 'fast' of amanda-fast 1.0"."""

    @property
    def remedy(self) -> str:
        """What a user can do about a fault of it."""


class NamedPlugin(NamedTuple):
    """A plug-in that is known by its label only."""

    what: str
    remedy: str = "report this to its authors"


def plugin_in_call() -> Plugin | None:
    """The plug-in whose code is running, or None."""
    plugin: Plugin | None = _in_call.get()
    return plugin


class PluginCall(use_host[_Host]):
    """Context in which code of a plug-in runs, with a host in use.

    What the code raises becomes an `error` that names the plug-in, SystemExit and other
    exceptions without the base class Exception included. Errors of Amanda, those of
    `passing`, interrupts and MemoryError pass unchanged; without `error`, all do.
    """

    __slots__ = ("_before", "_doing", "_error", "_passing", "_plugin")

    def __init__(
        self,
        host: _Host,
        plugin: Plugin,
        doing: str = "",
        error: type[AmandaError] | None = None,
        passing: tuple[type[BaseException], ...] = (),
    ) -> None:
        self._host = host
        self._plugin = plugin
        self._doing = doing
        self._error = error
        self._passing = passing

    def __enter__(self) -> _Host:
        self._before = _in_call.set(self._plugin)
        return super().__enter__()

    def __exit__(self, *raised: object) -> None:
        super().__exit__()
        _in_call.reset(self._before)
        cause = raised[1] if raised else None
        if isinstance(cause, BaseException) and self._error is not None:
            if isinstance(cause, (*_PASSING, *self._passing)):
                return
            raise plugin_error(self._plugin, self._doing, cause, self._error) from cause


_PASSING = (AmandaError, KeyboardInterrupt, MemoryError)


def plugin_error(
    plugin: Plugin, doing: str, cause: BaseException, error: type[AmandaError]
) -> AmandaError:
    """The error for an exception of a plug-in."""
    return error(
        f"{plugin.what} failed while {doing}",
        got=error_text(cause),
        hint=f"if the input is fine, {plugin.remedy}",
    )


def error_text(cause: BaseException) -> str:
    """
    >>> error_text(ValueError("bad")), error_text(SystemExit())
    ('ValueError: bad', 'SystemExit')
    """
    try:
        text = cause.message if isinstance(cause, AmandaError) else str(cause)
    except Exception:  # noqa: BLE001  str() may raise, too
        text = ""
    name = type(cause).__name__
    return f"{name}: {text}" if text else name
