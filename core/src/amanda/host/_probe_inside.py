"""The process of `Host.probe`, which loads every entry of a distribution.

It writes a line before and after each entry, so that its parent knows which entry
hangs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TextIO

from amanda.current_host import error_text
from amanda.errors import AmandaError
from amanda.host._entry import PluginEntry, hook_of
from amanda.host._host import Host
from amanda.host._plugins import title
from amanda.host._requires import canonical


def main(dist: str, report: str) -> None:
    """Load every entry of a distribution, and list the devices of backends."""
    host = Host(only=None)
    with Path(report).open("w", encoding="utf-8") as file:
        for entry in host.entries():
            if entry.source.key == canonical(dist):
                _write(file, what=title(entry))
                fault = _fault(entry)
                _write(
                    file,
                    what=title(entry),
                    state=entry.state,
                    fault=fault,
                    seconds=entry.seconds,
                )


def _fault(entry: PluginEntry) -> str:
    try:
        thing = entry.load()
        if entry.kind == "backends" and not list(thing.devices()):
            return "sees no device here"
        if entry.kind == "hooks":
            from amanda.host._listeners import listener_fault

            return listener_fault(hook_of(entry), thing)
    except AmandaError as error:
        return error.got or error.message
    except BaseException as cause:  # noqa: BLE001  the purpose of this process
        return f"devices(): {error_text(cause)}"
    return ""


def _write(file: TextIO, **line: Any) -> None:
    file.write(json.dumps(line) + "\n")
    file.flush()
