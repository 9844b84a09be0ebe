"""The host in use: where calls that name no host find plug-ins.

Functions of the API that accept a `host` put it in use while they run, so that a
mapping, a format or a backend that they call finds namespaces and other plug-ins of the
same host. This module stands below everything that needs a host; the package sets
`default` when it is imported, since imports only go down.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

__all__ = ["host_in_use", "use_host"]

_Host = TypeVar("_Host")
_in_use: ContextVar[Any] = ContextVar("amanda_host_in_use", default=None)


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
