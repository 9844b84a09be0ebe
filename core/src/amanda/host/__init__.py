"""The plug-in host: discovery of plug-ins, choice by name, and events.

A plug-in offers entry points, one group for each kind (`amanda.formats`,
`amanda.backends`, ...), and listens to hooks (`amanda.hookspecs`). Listing and choosing
read metadata only; only the chosen plug-in is imported.

Modules: `_dist` reads installed distributions, `_requires` checks versions, `_manifest`
reads manifests; `_entry` loads an entry, `_index` finds entries by name, `_detect`
formats by content; `_listeners` calls hooks; `_plugins` and `_probe` report states.
"""

from __future__ import annotations

import threading

from amanda import current_host
from amanda.argument_checks import check_arguments
from amanda.current_host import use_host
from amanda.host._entry import PluginEntry
from amanda.host._host import PROGRAM, Host
from amanda.host._kinds import KINDS, Kind
from amanda.host._plugins import PluginInfo

__all__ = [
    "KINDS",
    "PROGRAM",
    "PluginEntry",
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
    """The host with everything installed; used where no other host is in use."""
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


check_arguments(globals())
