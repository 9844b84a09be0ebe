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

from amanda import current_host
from amanda.current_host import use_host
from amanda.host._entry import Entry
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
    "default_host",
    "host_in_use",
    "use_host",
]

_default: Host | None = None
_lock = threading.Lock()


def default_host() -> Host:
    """The host of everything installed; used where no other host is in use."""
    global _default
    if _default is None:
        with _lock:
            if _default is None:
                _default = Host()
    return _default


def host_in_use() -> Host:
    """The host that the running call uses; outside of calls, the default host."""
    host: Host = current_host.host_in_use()
    return host
