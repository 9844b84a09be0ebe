"""The command line: a thin layer over the library.

The `amanda` command calls `main`. A verb is a function that returns an `Answer`; the
command group parses arguments, prints (text or JSON) and turns errors into exit codes.
Plug-ins offer verbs as entry points:

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
        parse_options_per_backend,
    )
    from amanda.cli.inputs.feeds import feed_options, read_feeds
    from amanda.cli.inputs.model import (
        dim_option,
        find_scopes,
        given_load_options,
        load_option,
        open_model,
        set_given_dims,
    )
    from amanda.cli.output.answer import Answer, Table
    from amanda.cli.output.terminal import show_progress

__all__ = [
    "Answer",
    "Table",
    "VerbGroup",
    "backend_label",
    "backend_option",
    "dim_option",
    "feed_options",
    "find_scopes",
    "given_load_options",
    "load_option",
    "main",
    "open_model",
    "parse_backend_options",
    "parse_options_per_backend",
    "read_feeds",
    "run_command_line",
    "set_given_dims",
    "show_progress",
    "verb",
]

_HOME = {
    "Answer": "output.answer",
    "Table": "output.answer",
    "VerbGroup": "group",
    "backend_label": "inputs.backend_options",
    "backend_option": "inputs.backend_options",
    "dim_option": "inputs.model",
    "feed_options": "inputs.feeds",
    "find_scopes": "inputs.model",
    "given_load_options": "inputs.model",
    "load_option": "inputs.model",
    "open_model": "inputs.model",
    "parse_backend_options": "inputs.backend_options",
    "parse_options_per_backend": "inputs.backend_options",
    "read_feeds": "inputs.feeds",
    "set_given_dims": "inputs.model",
    "verb": "group",
    "show_progress": "output.terminal",
}


_OBJECTS_PER_COLLECTION = 200_000


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and end the process with its exit code.

    What a command creates mostly lives as long as its process, so the cyclic garbage
    collector runs rarely, and not at the end."""
    import gc
    import sys

    gc.set_threshold(_OBJECTS_PER_COLLECTION)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(
            stream, "reconfigure"
        ):  # names may have characters that the terminal lacks
            stream.reconfigure(errors="backslashreplace")
    code = run_command_line(sys.argv[1:] if arguments is None else arguments)
    gc.freeze()
    sys.exit(code)


def run_command_line(arguments: Sequence[str]) -> int:
    """Run the command line; returns its exit code and never raises."""
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
