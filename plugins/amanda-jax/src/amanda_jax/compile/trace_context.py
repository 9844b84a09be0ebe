"""The context of a trace: what kernels note, and which optimizations are enabled."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from amanda.errors import AmandaError
from amanda_jax.cpu_tuning import steps
from amanda_jax.cpu_tuning.steps import CPU_ONLY, TuningStep

__all__ = [
    "PythonDrivenError",
    "enabled_steps",
    "is_python_driven",
    "note",
    "trace_context",
    "why_untraceable",
]


class PythonDrivenError(AmandaError):
    """Control flow that only Python can drive; the message gives the reason."""


class _TraceContext:
    """One trace, or one run of ops by Python."""

    def __init__(self, python_driven: bool, without: Collection[str]) -> None:
        self.python_driven = python_driven
        self.without = without
        self.notes: dict[str, None] = {}


_current: ContextVar[_TraceContext | None] = ContextVar(
    "amanda_jax_trace", default=None
)


@contextmanager
def trace_context(
    *, python_driven: bool, without: Collection[str] = ()
) -> Iterator[dict[str, None]]:
    """Call kernels in here; yields what they note.

    `without`: the names of the optimization steps that are disabled."""
    context = _TraceContext(python_driven, without)
    token = _current.set(context)
    try:
        yield context.notes
    finally:
        _current.reset(token)


def is_python_driven() -> bool:
    context = _current.get()
    return context is not None and context.python_driven


def enabled_steps() -> list[TuningStep]:
    """The optimization steps that are enabled in this trace."""
    context = _current.get()
    return steps.enabled_steps(CPU_ONLY if context is None else context.without)


def note(text: str) -> None:
    """Add a line to the report of the program that is being traced."""
    context = _current.get()
    if context is not None:
        context.notes[text] = None


def why_untraceable(error: BaseException) -> str | None:
    """Why tracing failed, if that was because a value is not static; else None."""
    from jax import errors

    not_static: Any = (
        errors.ConcretizationTypeError,
        errors.TracerArrayConversionError,
        errors.TracerBoolConversionError,
        errors.TracerIntegerConversionError,
        errors.NonConcreteBooleanIndexError,
    )
    if isinstance(error, PythonDrivenError):
        return error.message
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, not_static):
            message = getattr(error, "message", str(error))
            return f"{message}: it needs a value that is known only at run time"
        cause = cause.__cause__
    return None
