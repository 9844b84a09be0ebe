"""From arguments to an exit code, through every way a call can end."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

import click

from amanda.cli.group import Invocation, cli
from amanda.cli.output.answer import plain_lines, to_json
from amanda.errors import AmandaError, InternalError, LimitError, UsageError

__all__ = ["run_and_report"]

INTERRUPTED = 130  # 128 + SIGINT, as shells have it
COMPLETE = "_AMANDA_COMPLETE"  # set by the completion scripts of the shells
BROKEN_PIPE = 141  # 128 + SIGPIPE


def run_and_report(arguments: list[str]) -> int:
    """Run one call; print what it answers, or what went wrong."""
    if instruction := os.environ.get(COMPLETE):
        return _complete_in_shell(instruction)
    call = Invocation()
    try:
        return _invoke(arguments, call)
    except (KeyboardInterrupt, click.Abort):
        sys.stderr.write("amanda: interrupted\n")
        return INTERRUPTED
    except BrokenPipeError:
        _silence_stdout()
        return BROKEN_PIPE
    except Exception as error:  # noqa: BLE001  the last place that can tell of it
        return _report_error(error, arguments, call)


def _complete_in_shell(instruction: str) -> int:
    """What may follow on the line that somebody types; a fault is no place to chat."""
    from click.shell_completion import shell_complete

    try:
        return shell_complete(cli, {}, "amanda", COMPLETE, instruction)
    except AmandaError as error:
        return error.exit_code


def _invoke(arguments: list[str], call: Invocation) -> int:
    try:
        with cli.make_context("amanda", arguments, obj=call) as ctx:
            code: int = cli.invoke(ctx)
            return code or 0
    except click.exceptions.Exit as done:
        return done.exit_code


def _report_error(error: Exception, arguments: list[str], call: Invocation) -> int:
    """Tell of an error: text on standard error, and JSON to who asked for that."""
    fault = _as_amanda_error(error)
    code = fault.exit_code
    name = f"amanda {call.verb}" if call.verb else "amanda"
    if os.environ.get("AMANDA_DEBUG") == "1":
        import traceback

        traceback.print_exception(error)
    print(*plain_lines([f"{name}: {fault}"]), sep="\n", file=sys.stderr)  # noqa: T201
    if "--json" in arguments:
        kind = type(fault).__name__
        told = {"kind": kind, "message": fault.message, **fault.parts()}
        told["problems"] = list(fault.problems)  # type: ignore[assignment]
        print(to_json(call.verb, code, {"error": told}))  # noqa: T201
    return code


def _as_amanda_error(error: Exception) -> AmandaError:
    """Any exception as one of ours, so that all are told alike."""
    match error:
        case AmandaError():
            return error
        case click.UsageError(ctx=ctx):
            path = ctx.command_path if ctx else "amanda"
            return UsageError(
                _message_of(error), hint=f"{path} --help tells what it takes"
            )
        case click.ClickException():
            return UsageError(_message_of(error))
        case MemoryError():
            return LimitError("there is not enough memory for this")
        case OSError(strerror=str(why)):
            return AmandaError(why[:1].lower() + why[1:], who=error.filename)
    return InternalError(
        f"a bug of ours: {type(error).__name__}: {error}",
        hint="report it, with what `amanda doctor` says; "
        "AMANDA_DEBUG=1 shows where it happened",
    )


def _message_of(error: click.ClickException) -> str:
    """click's message in our manner: no capital, no full stop."""
    text = error.format_message().rstrip(".")
    return text[:1].lower() + text[1:]


def _silence_stdout() -> None:
    """Nobody reads any more: let the end of the process not complain about it."""
    with suppress(OSError, ValueError):  # not a file, so nothing of it is left to write
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
