"""Plug-ins: what is installed, what of it can be chosen, and who listens.

What is *chosen* by name is an entry point, one group for each kind (`amanda.formats`,
`amanda.backends`, ...); what is *broadcast* is a hook (`amanda.hookspecs`). Listing and
choosing read metadata only; the one that was chosen is imported, and nothing else is.

Rooms: `_dist` reads what is installed, `_requires` whether it fits, `_manifest` what it
says of itself; `_entry` loads one, `_index` chooses by name, `_detect` by what is to be
read; `_listeners` calls the hooks; `_plugins` and `_probe` tell how they all are.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from amanda.host._entry import Entry, called
from amanda.host._host import PROGRAM, Host
from amanda.host._kinds import KINDS, Kind
from amanda.host._plugins import PluginInfo

__all__ = [
    "KINDS",
    "PROGRAM",
    "Entry",
    "Host",
    "Kind",
    "PluginInfo",
    "called",
    "default_host",
    "host_in_use",
    "using",
]

_default: Host | None = None
_making = threading.Lock()
_in_use: ContextVar[Host | None] = ContextVar("amanda_host_in_use", default=None)


def default_host() -> Host:
    """The host that module-level functions use where they are given none."""
    global _default
    if _default is None:
        with _making:
            if _default is None:
                _default = Host()
    return _default


@contextmanager
def using(host: Host) -> Iterator[None]:
    """What is called in here, and is handed no host, looks names up in this one."""
    token = _in_use.set(host)
    try:
        yield
    finally:
        _in_use.reset(token)


def host_in_use() -> Host:
    """The host that a plug-in is called for; `default_host()` where nobody said."""
    return _in_use.get() or default_host()
