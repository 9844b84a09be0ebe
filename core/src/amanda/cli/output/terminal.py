"""Output for terminals only: color, and progress of long operations.

rich is imported on first use.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from amanda.cli.output.answer import Table, plain_lines

__all__ = ["print_colored", "show_progress", "show_steps"]

_PATIENCE = 0.5  # seconds before progress is shown


def print_colored(text: Iterable[str | Table]) -> None:
    """Print on a terminal: tables by rich, lines unchanged."""
    for block in text:
        if isinstance(block, Table):
            _print_table(block)
        else:
            for line in plain_lines([block]):
                sys.stdout.write(line + "\n")


def _print_table(table: Table) -> None:
    from rich.console import Console
    from rich.table import Table as Drawn
    from rich.text import Text

    drawn = Drawn(box=None, pad_edge=False, header_style="bold")
    for heading, numeric in zip(table.headings, table.numeric, strict=True):
        drawn.add_column(heading, justify="right" if numeric else "left")
    for row in table.texts:
        drawn.add_row(*(Text("\n".join(plain_lines([cell]))) for cell in row))
    Console().print(drawn)


@contextmanager
def show_progress(what: str) -> Iterator[None]:
    """Show on a terminal what is running, if it takes long.

    >>> with show_progress("reading model.amanda"):
    ...     pass
    """
    if not sys.stderr.isatty():
        yield
        return
    over = threading.Event()
    teller = threading.Thread(target=_show_status, args=(what, over), daemon=True)
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join()  # removes the line before anything else is written


def _show_status(what: str, over: threading.Event) -> None:
    if over.wait(_PATIENCE):
        return
    from rich.console import Console
    from rich.markup import escape

    (line,) = plain_lines([what.replace("\n", " ")])
    with Console(stderr=True).status(f"{escape(line)} ..."):
        over.wait()


def show_steps(what: str, count: int) -> Iterator[int]:
    """The numbers of steps, with a bar on a terminal, if they take long.

    >>> list(show_steps("timing", 3))
    [0, 1, 2]
    """
    if not sys.stderr.isatty():
        yield from range(count)
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress

    (line,) = plain_lines([what.replace("\n", " ")])
    start = time.monotonic()
    bar: Progress | None = None
    try:
        for number in range(count):
            if bar is None and time.monotonic() - start > _PATIENCE:
                bar = Progress(console=Console(stderr=True), transient=True)
                task = bar.add_task(escape(line), total=count)
                bar.start()
            if bar is not None:
                bar.update(task, completed=number)
            yield number
    finally:
        if bar is not None:
            bar.stop()
