"""Probing: loading a plug-in in a separate process, which may hang or crash."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from amanda.errors import PluginMissingError, UsageError
from amanda.host._plugins import PluginInfo
from amanda.host._requires import canonical

_START: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from amanda.host._probe_inside import main; main(sys.argv[2], sys.argv[3])"
)

_Line = dict[str, Any]


def probe_distribution(
    infos: Iterable[PluginInfo], dist: str, limit: float
) -> PluginInfo:
    """Load every entry of a distribution in a separate process; returns the outcome.

    The plug-in may print, hang, crash or end the process there.
    """
    known = {canonical(info.dist): info for info in infos}
    info = known.get(canonical(dist)) or known.get(canonical(f"amanda-{dist}"))
    if info is None:
        names = ", ".join(info.dist for info in known.values()) or "none"
        raise PluginMissingError(
            f"no plug-in {dist!r} is installed", expected=f"one of {names}"
        )
    if not any(entry.value for entry in info.entries):
        return info  # another process cannot import registered objects
    if not sys.executable:
        raise UsageError("no Python interpreter was found for the probe")
    with tempfile.TemporaryDirectory(prefix="amanda-probe-") as folder:
        report, said = Path(folder, "report"), Path(folder, "said")
        report.touch()
        began = time.monotonic()
        code = _start_process(info.dist, report, said, limit)
        took = time.monotonic() - began
        lines = [json.loads(line) for line in report.read_text().splitlines()]
        last = said.read_text(errors="replace").strip().splitlines()[-1:]
    return _interpret_result(info, lines, _end(code, took, last))


def _start_process(dist: str, report: Path, said: Path, limit: float) -> int | None:
    """The exit code of the process, or None if it was killed."""
    command = [sys.executable, "-c", _START, json.dumps(sys.path), dist, str(report)]
    environment = {k: v for k, v in os.environ.items() if k != "AMANDA_PLUGINS"}
    with said.open("wb") as output:
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that its children can be killed, too
        )
    try:
        return process.wait(limit)
    except subprocess.TimeoutExpired:
        return None
    finally:
        _end_all(process)


def _end_all(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    if hasattr(os, "killpg"):
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()


def _end(code: int | None, took: float, last: list[str]) -> tuple[str, str]:
    """State and cause, if the process did not finish."""
    if code is None:
        return "hangs", f"was still busy after {took:.0f} s"
    if code == 0:
        return "", ""
    cause = f"ended the process with exit code {code}"
    if code < 0:
        known = {number.value: number.name for number in signal.Signals}
        cause = f"ended the process by {known.get(-code, f'signal {-code}')}"
    return "crashes", ": ".join([cause, *last])


def _interpret_result(
    info: PluginInfo, lines: list[_Line], end: tuple[str, str]
) -> PluginInfo:
    done = [line for line in lines if "state" in line]
    bad = [line for line in done if line["fault"]]
    whys = [f"{line['what']}: {line['fault']}" for line in bad]
    state, cause = end
    if state:
        at = lines[-1]["what"] if lines and "state" not in lines[-1] else "it"
        whys.append(f"{at} {cause}")
    elif bad:
        state = "broken"
    elif not lines:
        state = "broken"
        whys.append("a new process of this Python does not find it")
    else:
        slow = [line for line in done if line["state"] == "slow"]
        whys = [f"{line['what']} took {line['seconds']:.1f} s" for line in slow]
        state = "slow" if slow else "usable"
    if info.state == "clash":
        whys.append(info.why)
    return replace(info, state=state, why="; ".join(whys))
