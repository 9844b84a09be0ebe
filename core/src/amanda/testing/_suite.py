"""Suites: checks, cases, waivers, and reports."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, NoReturn, Self, TypeVar

from amanda.errors import UsageError
from amanda.host import Host, default_host

_Function = TypeVar("_Function", bound=Callable[..., None])
_CHECK = "check_"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The outcome of a check, for one case if it has cases.

    `outcome` is passed, failed, waived (failed as expected) or skipped; `why` has the
    reason.
    """

    name: str
    outcome: str
    why: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class SuiteReport:
    """The outcome of a suite.

    >>> checks = CheckResult("a", "passed"), CheckResult("b", "waived", "slow")
    >>> print(SuiteReport("TestFast", checks))
    TestFast: 2 checks ran, 1 waived
    """

    suite: str
    checks: tuple[CheckResult, ...]

    def count(self, outcome: str) -> int:
        return sum(check.outcome == outcome for check in self.checks)

    @property
    def ran(self) -> int:
        return len(self.checks) - self.count("skipped")

    @property
    def passed(self) -> bool:
        """Whether something ran, and nothing failed."""
        return self.ran > 0 and not self.count("failed")

    def __str__(self) -> str:
        return summary(
            self.suite, self.ran, *map(self.count, ("waived", "failed", "skipped"))
        )


def summary(suite: str, ran: int, waived: int, failed: int, skipped: int) -> str:
    """One line about a suite."""
    parts = [f"{ran} check{'' if ran == 1 else 's'} ran"]
    others = {"waived": waived, "failed": failed, "skipped": skipped}
    parts += [f"{number} {outcome}" for outcome, number in others.items() if number]
    return f"{suite}: {', '.join(parts)}"


class SkippedCheck(Exception):
    """Raised by a check that does not apply."""


def skip(why: str) -> NoReturn:
    """Skip a check that does not apply."""
    raise SkippedCheck(why)


def for_each(cases: str) -> Callable[[_Function], _Function]:
    """Run a check once for each key of the mapping that the method `cases` returns.

    The check gets the key as its argument.
    """

    def mark(check: _Function) -> _Function:
        check.case_method = cases  # type: ignore[attr-defined]
        return check

    return mark


class Suite:
    """Checks to inherit: methods `check_NAME`, each a separate test.

    A subclass whose name begins with `Test` is found by pytest. `xfails` waives checks
    by name (`round_trip`, or `round_trip[nested]` for one case), each with the reason.
    """

    xfails: ClassVar[Mapping[str, str]] = {}
    amanda_suite: ClassVar[bool] = True

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._expect_waivers()
        for name in cls.all_checks():
            test = f"test_{name}"
            if test not in vars(cls):
                setattr(cls, test, _as_test(name, getattr(cls, _CHECK + name)))

    @classmethod
    def all_checks(cls) -> list[str]:
        """The checks of this suite, in order of definition."""
        found: dict[str, None] = {}
        for base in reversed(cls.__mro__):
            for name in vars(base):
                if name.startswith(_CHECK) and callable(getattr(cls, name)):
                    found[name.removeprefix(_CHECK)] = None
        return list(found)

    @classmethod
    def _expect_waivers(cls) -> None:
        names = cls.all_checks()
        problems = []
        for name, reason in cls.xfails.items():
            if name.partition("[")[0] not in names:
                problems.append(f"{name!r} is no check")
            elif len(reason.split()) < 2:
                problems.append(f"{name!r} has no reason")
        if problems:
            raise UsageError(
                f"the waivers of {cls.__name__} are faulty",
                expected=f"a reason for each of: {', '.join(names)}",
                problems=problems,
            )

    @classmethod
    def run(cls) -> SuiteReport:
        """Run every check, without pytest."""
        return SuiteReport(cls.__name__, tuple(cls._check_results()))

    @classmethod
    def _check_results(cls) -> Iterator[CheckResult]:
        for name in cls.all_checks():
            method = getattr(cls, _CHECK + name)
            try:
                cases = cls._cases(method)
            except Exception as error:  # noqa: BLE001  the outcome of the check
                yield CheckResult(name, "failed", f"{type(error).__name__}: {error}")
                continue
            for case in cases:
                yield cls()._perform(name, method, case)

    @classmethod
    def _cases(cls, method: Callable[..., None]) -> list[tuple[str, ...]]:
        cases = getattr(method, "case_method", None)
        return [(key,) for key in getattr(cls(), cases)()] if cases else [()]

    def _perform(
        self, name: str, method: Callable[..., None], case: tuple[str, ...]
    ) -> CheckResult:
        began = time.perf_counter()
        title = _title(name, case)
        waiver = self._waiver(name, case)
        outcome, why = "passed", ""
        try:
            method(self, *case)
        except SkippedCheck as skipped:
            outcome, why = "skipped", str(skipped)
        except Exception as error:  # noqa: BLE001  the outcome of the check
            outcome, why = "failed", f"{type(error).__name__}: {error}"
        finally:
            self._tidy()
        if waiver and outcome == "failed":
            outcome, why = "waived", waiver
        elif waiver and outcome == "passed":
            outcome, why = "failed", unnecessary_waivers(waiver)
        return CheckResult(title, outcome, why, time.perf_counter() - began)

    def _waiver(self, name: str, case: tuple[str, ...]) -> str | None:
        return self.xfails.get(_title(name, case)) or self.xfails.get(name)

    def _tidy(self) -> None:
        if "_temporary" in self.__dict__:
            self._temporary.cleanup()
            del self._temporary

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Give pytest the cases of each test.

        This runs during collection, where an error would hide all other tests, so an
        error of the cases is raised by the check instead.
        """
        cases = getattr(metafunc.function, "case_method", None)
        if cases:
            try:
                keys = list(getattr(self, cases)())
            except Exception as error:  # noqa: BLE001  raised again by the check
                keys = [_CaseError(error)]
            metafunc.parametrize("case", keys)

    # What checks use

    def host(self) -> Host:
        """The host whose plug-ins are tested; a suite may override it."""
        return default_host()

    @cached_property
    def _temporary(self) -> TemporaryDirectory[str]:
        return TemporaryDirectory(prefix="amanda-check-")

    @property
    def folder(self) -> Path:
        """An empty folder for the check."""
        return Path(self._temporary.name)


class _CaseError(str):
    """Stands for cases that raised an error."""

    __slots__ = ("error",)
    error: Exception

    def __new__(cls, error: Exception) -> Self:
        made = super().__new__(cls, "cases")
        made.error = error
        return made


def _title(name: str, case: tuple[str, ...]) -> str:
    return f"{name}[{case[0]}]" if case else name


def unnecessary_waivers(waiver: str) -> str:
    """The message for a waived check that passes."""
    return f"passes, so its waiver ({waiver}) must go"


def _as_test(name: str, check: Callable[..., None]) -> Callable[..., None]:
    """The check as a test of pytest."""

    def perform(self: Suite, *case: str) -> None:
        pytest: Any = sys.modules["pytest"]  # only pytest calls this
        waiver = self._waiver(name, case)
        try:
            if case and isinstance(case[0], _CaseError):
                raise case[0].error
            check(self, *case)
        except SkippedCheck as skipped:
            pytest.skip(str(skipped))
        except Exception:
            if waiver is None:
                raise
            pytest.xfail(waiver)
        finally:
            self._tidy()
        if waiver is not None:
            pytest.fail(unnecessary_waivers(waiver), pytrace=False)

    @wraps(check)
    def test(self: Suite) -> None:
        perform(self)

    @wraps(check)
    def test_of_case(self: Suite, case: str) -> None:
        perform(self, case)

    return test_of_case if hasattr(check, "case_method") else test
