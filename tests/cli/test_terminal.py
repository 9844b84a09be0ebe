"""Progress and colors: on a terminal only."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

PROGRAM = """
import sys, time
from amanda.cli.output import terminal
from amanda.cli.output.answer import Table

terminal._PATIENCE = 0.05
with terminal.show_progress("reading [model]"):
    time.sleep(0.4)
for _ in terminal.show_steps("timing", 6):
    time.sleep(0.1)
with terminal.show_progress("something short"):
    pass
terminal.print_colored([Table(("op", "count"), [("Relu", 2)])])
"""


def run_in_terminal(extra: dict[str, str]) -> str:
    """What the program writes to a terminal."""
    leader, follower = pty.openpty()
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", **extra}
    done = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=follower, stderr=follower, env=env
    )
    os.close(follower)
    found = b""
    while True:
        try:
            part = os.read(leader, 1 << 16)
        except OSError:  # the program has ended
            break
        if not part:
            break
        found += part
    os.close(leader)
    assert done.wait() == 0
    return found.decode()


@pytest.mark.skipif(sys.platform == "win32", reason="it has no pseudo-terminals")
def test_progress_on_a_terminal() -> None:
    shown = run_in_terminal({})
    assert "reading [model] ..." in shown
    assert "timing" in shown
    assert "%" in shown
    assert "something short" not in shown
    assert "\x1b[1m" in shown
    assert "Relu" in shown


@pytest.mark.skipif(sys.platform == "win32", reason="it has no pseudo-terminals")
def test_no_colors_where_the_environment_says_so() -> None:
    shown = run_in_terminal({"NO_COLOR": "1"})
    assert "Relu" in shown
    assert "\x1b[3" not in shown.replace("\x1b[3A", "")


def test_nothing_but_the_answer_elsewhere() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
