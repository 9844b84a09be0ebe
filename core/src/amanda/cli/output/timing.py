"""How long the parts of a verb take."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter

from amanda.cli.output.terminal import show_steps

__all__ = ["Timer"]


class Timer:
    """Seconds by name, in the order of measurement."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        """Measure the body of a `with` statement."""
        start = perf_counter()
        yield
        self.seconds[name] = perf_counter() - start

    def repeat(self, call: Callable[[], object], count: int, what: str) -> None:
        """Call several times, and record the median, the least and the greatest."""
        if not count:
            return
        found = []
        for _ in show_steps(what, count):
            start = perf_counter()
            call()
            found.append(perf_counter() - start)
        self.seconds["median"] = statistics.median(found)
        self.seconds["least"] = min(found)
        self.seconds["greatest"] = max(found)

    def line(self) -> str:
        """The times in one line."""
        return ", ".join(f"{n} {format_seconds(s)}" for n, s in self.seconds.items())


def format_seconds(seconds: float) -> str:
    """A time in s or ms.

    >>> format_seconds(2.5), format_seconds(0.01234)
    ('2.5 s', '12.3 ms')
    """
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"
