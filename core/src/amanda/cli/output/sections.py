"""Sections of a report: rows with keys, from which text, JSON and HTML derive."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from amanda.cli.output.answer import Table

__all__ = ["Section", "html_page", "section_lines"]

Row = Mapping[str, object]


@dataclass(frozen=True)
class Section:
    """Rows of one kind, with a title; its key names it in JSON."""

    key: str
    title: str
    rows: Sequence[Row]

    @property
    def columns(self) -> list[str]:
        """The keys that some row has a value for."""
        keys = dict.fromkeys(key for row in self.rows for key in row)
        return [k for k in keys if any(_cell(row.get(k)) for row in self.rows)]

    @property
    def cells(self) -> list[list[str]]:
        return [[_cell(row.get(key)) for key in self.columns] for row in self.rows]


def _cell(value: object) -> str:
    """A value as text; lists with a line for each item."""
    if isinstance(value, list | tuple):
        return "\n".join(map(str, value))
    return "" if value is None else str(value)


def section_lines(section: Section) -> Iterator[str | Table]:
    """A section as text; none where it has no rows."""
    if section.rows:
        yield f"\n{section.title}:"
        rows = [[cell.replace("\n", "; ") for cell in row] for row in section.cells]
        yield Table(tuple(section.columns), rows)


_STYLE = """\
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem;
  padding: 0 1rem; color: #1c1c1c; background: #fff; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.05rem; margin: 1.8rem 0 .4rem; }
figure { margin: 1rem 0; } figure svg { max-width: 100%; height: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0;
  border-bottom: 1px solid #ddd; white-space: pre-line; overflow-wrap: break-word; }
th { color: #666; font-weight: 500; }
.yes { color: #166534; } .no { color: #b42318; }
@media (prefers-color-scheme: dark) {
  body { color: #e6e6e6; background: #181818; } th, td { border-color: #3a3a3a; }
  th { color: #a0a0a0; } .yes { color: #7ddf9b; } .no { color: #ff9c8f; } }
"""


def html_page(
    title: str,
    verdict: str,
    clear: bool,
    parts: Sequence[Section],
    pictures: Iterable[str] = (),
) -> str:
    """A page that needs no other file; pictures are SVG, above the sections."""
    mark = "yes" if clear else "no"
    figures = "".join(f"<figure>\n{picture}\n</figure>\n" for picture in pictures)
    tables = "".join(_html_section(section) for section in parts if section.rows)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{_STYLE}</style>\n</head>\n"
        f'<body>\n<h1>{escape(title)}</h1>\n<p class="{mark}">{escape(verdict)}</p>\n'
        f"{figures}{tables}</body>\n</html>\n"
    )


def _html_section(section: Section) -> str:
    head = "".join(f"<th>{escape(key)}</th>" for key in section.columns)
    rows = [
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>\n"
        for row in section.cells
    ]
    title = f"{section.title} ({len(rows)})" if len(rows) > 1 else section.title
    return (
        f"<h2>{escape(title)}</h2>\n<table>\n<tr>{head}</tr>\n{''.join(rows)}</table>\n"
    )
