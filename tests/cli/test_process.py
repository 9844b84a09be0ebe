"""The command as a process: signals, pipes, terminals, completion."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "amanda"]

# A verb of a "plug-in" registered by hand, in a process like the real one. It works
# until it is told to go on.
PROGRAM = """
import signal
import sys
import amanda
from amanda.cli import Answer, main, verb, show_progress

@verb("wait", "wait")
def wait():
    with show_progress("waiting"):
        print("begun", file=sys.stderr, flush=True)
        sys.stdin.readline()
    return Answer({}, ["ended"])

amanda.default_host().register("commands", "wait", wait)
# shells have processes in the background ignore it
signal.signal(signal.SIGINT, signal.default_int_handler)
main(["wait"])
"""


def started(**kwargs: object) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    streams = {"stdin": pipe, "stdout": pipe, "stderr": pipe, **kwargs}
    return subprocess.Popen([sys.executable, "-c", PROGRAM], **streams)  # type: ignore[call-overload, no-any-return]


@pytest.mark.skipif(os.name == "nt", reason="signals are POSIX's")
def test_control_c() -> None:
    process = started()
    assert process.stderr is not None
    assert process.stderr.readline() == b"begun\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, b"")
    assert err == b"amanda: interrupted\n"


def test_garbage_is_collected_rarely_and_not_at_the_end() -> None:
    program = """
import atexit, gc
from amanda.cli import main
phases = []
gc.callbacks.append(lambda phase, info: phases.append(phase))
atexit.register(lambda: print(len(phases) // 2, gc.get_freeze_count()))
main(["plugins"])
"""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    collections, frozen = map(int, run.stdout.splitlines()[-1].split())
    assert collections < 10  # 36 by default
    assert frozen > 10_000


@pytest.mark.skipif(os.name == "nt", reason="signals are POSIX's")
def test_a_reader_that_goes_away() -> None:
    """As in `amanda ... | head`: no message, no traceback."""
    read, write = os.pipe()
    os.close(read)
    process = subprocess.Popen([*COMMAND, "--help"], stdout=write, stderr=-1)
    os.close(write)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (141, b"")


def test_elsewhere_than_on_a_terminal_there_is_no_progress() -> None:
    process = started()
    assert process.stderr is not None
    assert process.stderr.readline() == b"begun\n"
    time.sleep(0.8)
    out, err = process.communicate(b"\n", timeout=30)
    assert (process.returncode, out, err) == (0, b"ended\n", b"")


@pytest.mark.skipif(os.name == "nt", reason="pseudo-terminals are POSIX's")
def test_progress_on_a_terminal() -> None:
    """It goes to standard error, and is over before anything else is written."""
    import pty

    master, slave = pty.openpty()
    settings = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    process = started(stderr=slave, env=settings)
    os.close(slave)
    told = b""
    while b"waiting ..." not in told:
        chunk = _read(master)
        assert chunk, told
        told += chunk
    out, _ = process.communicate(b"\n", timeout=30)
    os.close(master)
    assert (process.returncode, out) == (0, b"ended\n")


@pytest.mark.skipif(os.name == "nt", reason="pseudo-terminals are POSIX's")
def test_tables_are_drawn_on_a_terminal() -> None:
    import pty

    master, slave = pty.openpty()
    settings = {**os.environ, "TERM": "xterm", "COLUMNS": "200"}
    settings.pop("NO_COLOR", None)
    call = [*COMMAND, "doctor"]
    process = subprocess.Popen(call, stdout=slave, stderr=slave, env=settings)
    os.close(slave)
    shown = b""
    while chunk := _read(master):
        shown += chunk
    process.wait(timeout=30)
    os.close(master)
    assert b"\x1b[1m" in shown
    assert b"amanda-core" in shown


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 10_000)
    except OSError:  # Linux says so when the other end is closed
        return b""


def completed(line: str) -> list[str]:
    """What bash would offer at the end of a line."""
    words = line.split(" ")
    request = {
        "_AMANDA_COMPLETE": "bash_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    done = subprocess.run(
        COMMAND, env={**os.environ, **request}, capture_output=True, text=True
    )
    assert done.stderr == ""
    return [word.partition(",")[2] for word in done.stdout.split()]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("amanda sh", ["show"]),
        ("amanda plugin", ["plugin", "plugins"]),
        ("amanda plugin n", ["new"]),
        ("amanda plugins --pr", ["--probe"]),
        ("amanda completion z", ["zsh"]),
        ("amanda --ver", ["--version"]),
        ("amanda unknown ", []),
    ],
)
def test_completion(line: str, words: list[str]) -> None:
    assert completed(line) == words


@pytest.mark.parametrize("shell", ["bash", "fish", "zsh"])
def test_completion_scripts(shell: str) -> None:
    call = [*COMMAND, "completion", shell]
    script = subprocess.run(call, capture_output=True, text=True, check=True).stdout
    assert f"_AMANDA_COMPLETE={shell}_complete" in script


def test_bash_reads_the_script(tmp_path: Path) -> None:
    call = [*COMMAND, "completion", "bash"]
    script = tmp_path / "complete.bash"
    script.write_bytes(subprocess.run(call, capture_output=True, check=True).stdout)
    try:
        done = subprocess.run(["bash", "-n", script], capture_output=True)
    except FileNotFoundError:
        pytest.skip("there is no bash here")
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(os.name == "nt", reason="redirections of a POSIX shell")
@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ("plugins >&-", 0, ""),
        ("plugins 2>&- >/dev/null", 0, ""),
        ("plugins >/dev/full", 1, "amanda plugins: no space left on device"),
        ("plugins --json >/dev/full", 1, "amanda plugins: no space left on device"),
        ("info none.onnx --json >/dev/full", 1, "amanda info: there is no file"),
        ("info none.onnx --json 2>/dev/full", 1, ""),
    ],
)
def test_streams_that_are_closed_or_full(
    arguments: str, code: int, message: str
) -> None:
    if "/dev/full" in arguments and not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    line = f"{sys.executable} -m amanda {arguments}"
    buffered = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    run = ["sh", "-c", line]
    done = subprocess.run(run, capture_output=True, text=True, env=buffered)
    assert done.returncode == code
    assert done.stderr.startswith(message)
    assert not re.search("Traceback|Exception", done.stderr)
