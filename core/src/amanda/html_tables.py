"""Small HTML for notebooks: tables of what an object has, escaped and bounded.

>>> print(html_page("op <a>", {"type": "Relu", "name": None}))
<div><b>op &lt;a&gt;</b><table><tr><th>type</th><td>Relu</td></tr></table></div>
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Final

__all__ = ["html_page", "html_table"]

MAX_ROWS: Final = 20
MAX_TEXT: Final = 120
"""Characters of a cell; what is more is cut."""


def html_page(
    title: str, facts: Mapping[str, object], tables: Iterable[str] = ()
) -> str:
    """A title, the facts that are not None or empty, and tables."""
    known = [(key, fact) for key, fact in facts.items() if fact not in (None, "")]
    rows = "".join(
        f"<tr><th>{_cell(key)}</th><td>{_cell(fact)}</td></tr>"
        for key, fact in known[:MAX_ROWS]
    )
    table = f"<table>{rows}</table>" if rows else ""
    return f"<div><b>{_cell(title)}</b>{table}{''.join(tables)}</div>"


def html_table(
    headings: Sequence[str], rows: Sequence[Sequence[object]], count: int | None = None
) -> str:
    """A table of the first rows, and how many there are more; empty without rows.

    `count` is the number of all rows where `rows` are the first of them.

    >>> html_table(["n"], [[1]], 3)
    '<table><tr><th>n</th></tr><tr><td>1</td></tr></table><p>and 2 more</p>'
    """
    if not rows:
        return ""
    head = "".join(f"<th>{_cell(text)}</th>" for text in headings)
    body = "".join(
        f"<tr>{''.join(f'<td>{_cell(cell)}</td>' for cell in row)}</tr>"
        for row in rows[:MAX_ROWS]
    )
    more = (len(rows) if count is None else count) - min(len(rows), MAX_ROWS)
    rest = f"<p>and {more:,} more</p>" if more > 0 else ""
    return f"<table><tr>{head}</tr>{body}</table>{rest}"


def _cell(value: object) -> str:
    text = "" if value is None else str(value)
    cut = text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"
    return escape(cut)
