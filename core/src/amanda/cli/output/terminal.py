"""What only a terminal gets: colour, and progress where something takes long.

rich is imported when there is something to draw, never before.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from amanda.cli.output.answer import Table, lines

__all__ = ["show_coloured", "working"]

_PATIENCE = 0.5  # seconds that pass before anybody wonders


def show_coloured(text: Iterable[str | Table]) -> None:
    """Print on a terminal: tables by rich, lines as they are."""
    for block in text:
        if isinstance(block, Table):
            _draw(block)
        else:
            for line in lines([block]):
                sys.stdout.write(line + "\n")


def _draw(table: Table) -> None:
    from rich.console import Console
    from rich.table import Table as Drawn
    from rich.text import Text

    drawn = Drawn(box=None, pad_edge=False, header_style="bold")
    for heading, numeric in zip(table.headings, table.numeric, strict=True):
        drawn.add_column(heading, justify="right" if numeric else "left")
    for row in table.texts:
        drawn.add_row(*(Text("\n".join(lines([cell]))) for cell in row))
    Console().print(drawn)


@contextmanager
def working(what: str) -> Iterator[None]:
    """Say on a terminal what takes so long; elsewhere, and if it is quick, nothing.

    >>> with working("reading model.amanda"):
    ...     pass
    """
    if not sys.stderr.isatty():
        yield
        return
    over = threading.Event()
    teller = threading.Thread(target=_tell, args=(what, over), daemon=True)
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join()  # the line is gone before anything else is written


def _tell(what: str, over: threading.Event) -> None:
    if over.wait(_PATIENCE):
        return
    from rich.console import Console
    from rich.markup import escape

    (line,) = lines([what.replace("\n", " ")])
    with Console(stderr=True).status(f"{escape(line)} ..."):
        over.wait()
