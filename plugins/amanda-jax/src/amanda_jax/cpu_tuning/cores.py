"""How many CPU cores this process may use."""

from __future__ import annotations

import os


def core_count() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
