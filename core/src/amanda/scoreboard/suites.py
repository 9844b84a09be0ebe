"""The suites of `amanda scoreboard`, and runs of their cases within a time limit."""

from __future__ import annotations

import multiprocessing
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol, Self

from amanda.errors import UsageError
from amanda.scoreboard.outcomes import Outcome

__all__ = ["Scoreboard", "Selection", "name_filter", "run_selection"]


class Scoreboard(Protocol):
    """A suite of test cases: an entry point of `amanda.scoreboards`, often a module."""

    @property
    def KINDS(self) -> Sequence[str]:  # noqa: N802
        """The kinds of cases."""

    @property
    def SECOND_DATA(self) -> bool:  # noqa: N802
        """Whether cases have a second data set."""

    @property
    def SECONDS(self) -> float | None:  # noqa: N802
        """How long a case may take; None: all cases run in the calling process."""

    def cases(
        self, kinds: Sequence[str], pattern: str | None, /
    ) -> Iterator[tuple[str, Any]]:
        """Yield the cases with their kinds; a case has a `name`."""

    def run_case(
        self, kind: str, case: Any, backend: str, /, *, second: bool,
        fallback: str | None, options: Mapping[str, Any],
    ) -> Outcome:  # fmt: skip
        """Run one case on a backend."""


@dataclass(frozen=True)
class Selection:
    """The cases of a suite that are run, and how."""

    suite: str
    """The name of the suite's entry point."""
    kinds: Sequence[str] = ()
    """All kinds if empty."""
    pattern: str | None = None
    every: int = 1
    """Every how many cases one is run."""
    backend: str = "numpy"
    second: bool = False
    fallback: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def load(self) -> Scoreboard:
        """The suite."""
        from amanda.host import default_host

        found: Scoreboard = default_host().get("scoreboards", self.suite)
        return found

    def cases(self, suite: Scoreboard) -> Iterator[tuple[str, Any]]:
        """The selected cases with their kinds."""
        found = suite.cases(self.kinds or suite.KINDS, self.pattern)
        return islice(found, 0, None, self.every)

    def run(self, suite: Scoreboard, kind: str, case: Any) -> Outcome:
        """Run one of the cases."""
        return suite.run_case(
            kind, case, self.backend, second=self.second,
            fallback=self.fallback, options=self.options,
        )  # fmt: skip


def name_filter(pattern: str | None) -> Callable[[str], bool]:
    """A function that is true of the names in which a pattern occurs."""
    try:
        wanted = re.compile(pattern or "")
    except re.error as error:
        raise UsageError(
            "invalid pattern",
            who="--match", expected="a regular expression", got=repr(pattern),
            hint=f"{error}; .*x.* matches all names with an x",
        ) from error  # fmt: skip
    return lambda name: wanted.search(name) is not None


def run_selection(
    selection: Selection, seconds: float | None = None
) -> Iterator[Outcome]:
    """Run the cases; `seconds` is the time for each, by default what the suite has.

    With a limit they run in another process, which is stopped and replaced where a
    case takes longer, or ends it.
    """
    suite = selection.load()
    limit = suite.SECONDS if seconds is None else seconds
    if limit is None:
        for kind, case in selection.cases(suite):
            yield selection.run(suite, kind, case)
        return
    with _Worker(selection, limit) as worker:
        for number, (kind, case) in enumerate(selection.cases(suite)):
            yield worker.outcome(number) or Outcome(
                case.name, kind, "stopped", worker.why
            )


class _Worker:
    """A process that runs cases one after the other, from a certain number on."""

    def __init__(self, selection: Selection, limit: float) -> None:
        self._selection = selection
        self._limit = limit
        self._process: Any = None
        self._receiver: Any = None
        self.why = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stop()

    def outcome(self, number: int) -> Outcome | None:
        """The outcome of the next case; None where its process had to be replaced."""
        try:
            if self._process is None:
                self._start(number)
            if self._receiver.poll(self._limit):
                found: Outcome = self._receiver.recv()
                return found
            self.why = f"took longer than {self._limit:g} s"
        except EOFError:
            self._process.join()
            self.why = f"the process ended with code {self._process.exitcode}"
        self._stop()
        return None

    def _start(self, first: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._receiver, sender = context.Pipe(duplex=False)
        self._process = context.Process(
            target=_run_cases, args=(self._selection, first, sender), daemon=True
        )
        self._process.start()
        sender.close()
        self._receiver.recv()  # when it has found the cases

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._receiver.close()
            self._process = None


def _run_cases(selection: Selection, first: int, sender: Any) -> None:
    """Run the cases from a number on, and send their outcomes."""
    import warnings

    warnings.simplefilter("ignore")
    suite = selection.load()
    cases = islice(selection.cases(suite), first, None)
    sender.send("ready")
    for kind, case in cases:
        sender.send(selection.run(suite, kind, case))
    sender.close()
