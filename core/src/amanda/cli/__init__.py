"""The command line: a thin reader of the library.

`main` is what the `amanda` command calls. A verb is a function that returns an
`Answer`; the frame around it parses, prints (text for people, JSON for programs) and
turns errors into exit codes. A third party offers one as an entry point:

    [project.entry-points."amanda.commands"]
    count = "amanda_count.cli:count"

    @amanda.cli.verb("count", "how many ops a model has")
    @click.argument("file")
    def count(file: str) -> Answer:
        ops = len(amanda.load(file))
        return Answer({"ops": ops}, [f"{ops} ops"])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from amanda.cli.group import VerbGroup, verb
    from amanda.cli.inputs.backend_options import (
        backend_label,
        backend_option,
        parse_backend_options,
    )
    from amanda.cli.output.answer import Answer, Table
    from amanda.cli.output.terminal import show_progress

__all__ = [
    "Answer",
    "Table",
    "VerbGroup",
    "backend_label",
    "backend_option",
    "main",
    "parse_backend_options",
    "run_command_line",
    "show_progress",
    "verb",
]

_HOME = {
    "Answer": "output.answer",
    "Table": "output.answer",
    "VerbGroup": "group",
    "backend_label": "inputs.backend_options",
    "backend_option": "inputs.backend_options",
    "parse_backend_options": "inputs.backend_options",
    "verb": "group",
    "show_progress": "output.terminal",
}


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and end the process with its exit code."""
    import sys

    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a name may hold what the terminal cannot
            stream.reconfigure(errors="backslashreplace")
    sys.exit(run_command_line(sys.argv[1:] if arguments is None else arguments))


def run_command_line(arguments: Sequence[str]) -> int:
    """Run the command line; its exit code, whatever happens."""
    try:
        from amanda.cli.exit_codes import run_and_report

        return run_and_report(list(arguments))
    except KeyboardInterrupt:  # while modules were still being imported
        import sys

        sys.stderr.write("amanda: interrupted\n")
        return 130


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _HOME:
        raise AttributeError(f"module 'amanda.cli' has no attribute {name!r}")
    return getattr(import_module(f"amanda.cli.{_HOME[name]}"), name)
