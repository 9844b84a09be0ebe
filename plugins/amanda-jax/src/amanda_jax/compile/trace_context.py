"""What kernels tell of a program while it is traced, and how it is being run."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from amanda.errors import AmandaError
from amanda_jax.settings import ON_CPU

__all__ = [
    "HostDrivenError",
    "is_host_driven",
    "is_on",
    "note",
    "running",
    "why_untraceable",
]


class HostDrivenError(AmandaError):
    """A program that only the host can drive; the message says why."""


class _Run:
    """One tracing, or one run that the host drives."""

    def __init__(self, host_driven: bool, without: Collection[str]) -> None:
        self.host_driven = host_driven
        self.without = without
        self.notes: dict[str, None] = {}


_current: ContextVar[_Run | None] = ContextVar("amanda_jax_run", default=None)


@contextmanager
def running(
    *, host_driven: bool, without: Collection[str] = ()
) -> Iterator[dict[str, None]]:
    """Kernels called in here; gives what they note. `without`: see `is_on`."""
    run = _Run(host_driven, without)
    token = _current.set(run)
    try:
        yield run.notes
    finally:
        _current.reset(token)


def is_host_driven() -> bool:
    run = _current.get()
    return run is not None and run.host_driven


def is_on(step: str) -> bool:
    """Whether a step towards speed, named in `settings.STEPS`, is to be taken."""
    run = _current.get()
    return step not in (ON_CPU if run is None else run.without)


def note(text: str) -> None:
    run = _current.get()
    if run is not None:
        run.notes[text] = None


def why_untraceable(error: BaseException) -> str | None:
    """Why a program could not be traced, if it was for want of a number."""
    from jax import errors

    wanting: Any = (
        errors.ConcretizationTypeError,
        errors.TracerArrayConversionError,
        errors.TracerBoolConversionError,
        errors.TracerIntegerConversionError,
        errors.NonConcreteBooleanIndexError,
    )
    if isinstance(error, HostDrivenError):
        return error.message
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, wanting):
            message = getattr(error, "message", str(error))
            return f"{message}: it needs a number that only a run tells"
        cause = cause.__cause__
    return None
