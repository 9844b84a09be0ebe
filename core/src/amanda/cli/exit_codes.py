"""From arguments to an exit code, through every way a call can end."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

import click

from amanda.cli.group import Call, cli
from amanda.cli.output.answer import as_json, lines
from amanda.errors import AmandaError, InternalError, LimitError, UsageError

__all__ = ["answered"]

INTERRUPTED = 130  # 128 + SIGINT, as shells have it
COMPLETE = "_AMANDA_COMPLETE"  # set by the completion scripts of the shells
BROKEN_PIPE = 141  # 128 + SIGPIPE


def answered(arguments: list[str]) -> int:
    """Run one call; print what it answers, or what went wrong."""
    if instruction := os.environ.get(COMPLETE):
        return _completed(instruction)
    call = Call()
    try:
        return _invoked(arguments, call)
    except (KeyboardInterrupt, click.Abort):
        sys.stderr.write("amanda: interrupted\n")
        return INTERRUPTED
    except BrokenPipeError:
        _silence()
        return BROKEN_PIPE
    except Exception as error:  # noqa: BLE001  the last place that can tell of it
        return _told(error, arguments, call)


def _completed(instruction: str) -> int:
    """What may follow on the line that somebody types; a fault is no place to chat."""
    from click.shell_completion import shell_complete

    try:
        return shell_complete(cli, {}, "amanda", COMPLETE, instruction)
    except AmandaError as error:
        return error.exit_code


def _invoked(arguments: list[str], call: Call) -> int:
    try:
        with cli.make_context("amanda", arguments, obj=call) as ctx:
            code: int = cli.invoke(ctx)
            return code or 0
    except click.exceptions.Exit as done:
        return done.exit_code


def _told(error: Exception, arguments: list[str], call: Call) -> int:
    """Tell of an error: text on standard error, and JSON to who asked for that."""
    fault = _fault(error)
    code = fault.exit_code
    name = f"amanda {call.verb}" if call.verb else "amanda"
    if os.environ.get("AMANDA_DEBUG") == "1":
        import traceback

        traceback.print_exception(error)
    print(*lines([f"{name}: {fault}"]), sep="\n", file=sys.stderr)  # noqa: T201
    if "--json" in arguments:
        kind = type(fault).__name__
        told = {"kind": kind, "message": fault.message, **fault.parts()}
        told["problems"] = list(fault.problems)  # type: ignore[assignment]
        print(as_json(call.verb, code, {"error": told}))  # noqa: T201
    return code


def _fault(error: Exception) -> AmandaError:
    """Any exception as one of ours, so that all are told alike."""
    match error:
        case AmandaError():
            return error
        case click.UsageError(ctx=ctx):
            path = ctx.command_path if ctx else "amanda"
            return UsageError(
                _sentence(error), hint=f"{path} --help tells what it takes"
            )
        case click.ClickException():
            return UsageError(_sentence(error))
        case MemoryError():
            return LimitError("there is not enough memory for this")
        case OSError(strerror=str(why)):
            return AmandaError(why[:1].lower() + why[1:], who=error.filename)
    return InternalError(
        f"a bug of ours: {type(error).__name__}: {error}",
        hint="report it, with what `amanda doctor` says; "
        "AMANDA_DEBUG=1 shows where it happened",
    )


def _sentence(error: click.ClickException) -> str:
    """click's message in our manner: no capital, no full stop."""
    text = error.format_message().rstrip(".")
    return text[:1].lower() + text[1:]


def _silence() -> None:
    """Nobody reads any more: let the end of the process not complain about it."""
    with suppress(OSError, ValueError):  # not a file, so nothing of it is left to write
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
