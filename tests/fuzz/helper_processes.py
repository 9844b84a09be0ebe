"""Processor time and memory of the processes that this one has started."""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from pathlib import Path

__all__ = ["helper_seconds", "largest_helper", "reset_helpers"]

_TICKS = os.sysconf("SC_CLK_TCK")


def _helpers() -> list[str]:
    found: list[str] = []
    with suppress(OSError):
        for thread in os.listdir("/proc/self/task"):
            found += Path(f"/proc/self/task/{thread}/children").read_text().split()
    return found


def helper_seconds() -> float:
    """Processor time of the processes that run, and of those that ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = ended.ru_utime + ended.ru_stime
    for helper in _helpers():
        with suppress(OSError):
            text = Path(f"/proc/{helper}/stat").read_text()
            user, system = text.rpartition(")")[2].split()[11:13]
            seconds += (int(user) + int(system)) / _TICKS
    return seconds


def reset_helpers() -> None:
    """Start to measure the peak memory of the processes that run."""
    for helper in _helpers():
        with suppress(OSError):
            Path(f"/proc/{helper}/clear_refs").write_text("5")


def largest_helper() -> int:
    """Bytes of the largest of the processes that run, at its peak since the reset."""
    sizes = [0]
    for helper in _helpers():
        with suppress(OSError):
            for line in Path(f"/proc/{helper}/status").read_text().splitlines():
                if line.startswith("VmHWM:"):
                    sizes.append(int(line.split()[1]) * 1024)
    return max(sizes)
