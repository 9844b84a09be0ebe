"""Exit codes of the command line, for results and errors."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TextIO

import click

from amanda.cli.group import Invocation, cli
from amanda.cli.output.answer import plain_lines, to_json
from amanda.current_host import Plugin, plugin_error
from amanda.errors import (
    AmandaError,
    InternalError,
    LimitError,
    PluginBrokenError,
    UsageError,
)

__all__ = ["run_and_report"]

INTERRUPTED = 130  # 128 + SIGINT, as in shells
COMPLETE = "_AMANDA_COMPLETE"  # set by the completion scripts of the shells
BROKEN_PIPE = 141  # 128 + SIGPIPE


def run_and_report(arguments: list[str]) -> int:
    """Run a command line, and print its answer or its error."""
    _open_missing_streams()
    if instruction := os.environ.get(COMPLETE):
        return _complete_in_shell(instruction)
    call = Invocation()
    try:
        return _invoke(arguments, call)
    except (KeyboardInterrupt, click.Abort):
        sys.stderr.write("amanda: interrupted\n")
        return INTERRUPTED
    except BrokenPipeError:
        _silence(sys.stdout)
        return BROKEN_PIPE
    except BaseException as error:  # noqa: BLE001  the last place to report it
        fault = _as_amanda_error(error, call.plugin)
        with suppress(OSError):  # no place to report it to
            _report_error(error, fault, arguments, call)
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:  # a full device; Python would report it again at its end
                _silence(stream)
        return fault.exit_code


def _open_missing_streams() -> None:
    """Discard what is written to streams that the caller closed, as daemons do."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115


def _complete_in_shell(instruction: str) -> int:
    """Print completions for a shell; errors are not printed."""
    from click.shell_completion import shell_complete

    try:
        return shell_complete(cli, {}, "amanda", COMPLETE, instruction)
    except AmandaError as error:
        return error.exit_code
    except click.ClickException as error:  # an unknown verb, for one
        return error.exit_code


def _invoke(arguments: list[str], call: Invocation) -> int:
    try:
        with cli.make_context("amanda", arguments, obj=call) as ctx:
            code: object = cli.invoke(ctx)
            return code if isinstance(code, int) else 0
    except click.exceptions.Exit as done:
        return done.exit_code


def _report_error(
    error: BaseException, fault: AmandaError, arguments: list[str], call: Invocation
) -> None:
    """Print an error to standard error, and as JSON if requested."""
    name = f"amanda {call.verb}" if call.verb else "amanda"
    if os.environ.get("AMANDA_DEBUG") == "1":
        import traceback

        traceback.print_exception(error)
    print(*plain_lines([f"{name}: {fault}"]), sep="\n", file=sys.stderr)  # noqa: T201
    if "--json" in arguments:
        kind = type(fault).__name__
        told = {"kind": kind, "message": fault.message, **fault.parts()}
        told["problems"] = list(fault.problems)  # type: ignore[assignment]
        print(to_json(call.verb, fault.exit_code, {"error": told}))  # noqa: T201


def _as_amanda_error(error: BaseException, plugin: Plugin | None) -> AmandaError:
    """Any exception as an AmandaError; `plugin` is that of the verb."""
    match error:
        case AmandaError():
            return error
        case click.UsageError(ctx=ctx):
            path = ctx.command_path if ctx else "amanda"
            return UsageError(_message_of(error), hint=f"{path} --help describes it")
        case click.ClickException():
            return UsageError(_message_of(error))
        case MemoryError():
            return LimitError("there is not enough memory for this")
        case OSError(strerror=str(why)):
            return AmandaError(why[:1].lower() + why[1:], who=error.filename)
    if plugin is not None:
        return plugin_error(plugin, "running", error, PluginBrokenError)
    return InternalError(
        f"a bug in Amanda: {type(error).__name__}: {error}",
        hint="report it, with the output of `amanda doctor`; "
        "AMANDA_DEBUG=1 prints the traceback",
    )


def _message_of(error: click.ClickException) -> str:
    """The message of click, without capital and full stop."""
    text = error.format_message().rstrip(".")
    return text[:1].lower() + text[1:]


def _silence(stream: TextIO) -> None:
    """Redirect an output that cannot be written to: it raises nothing at exit then."""
    with suppress(OSError, ValueError):  # not a file: nothing to flush
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
