"""Writes docs/faces.md: the packages that plug-ins may import, with their names.

python tools/face_table.py
"""

from __future__ import annotations

import textwrap
from importlib import import_module
from pathlib import Path

FACES = (
    "amanda",
    "amanda.argument_checks",
    "amanda.backend",
    "amanda.cli",
    "amanda.comparison",
    "amanda.dictionary",
    "amanda.errors",
    "amanda.feeds",
    "amanda.files",
    "amanda.formatkit",
    "amanda.frontend",
    "amanda.graph",
    "amanda.host",
    "amanda.instrument",
    "amanda.mapping",
    "amanda.passes",
    "amanda.scoreboard",
    "amanda.tensors",
    "amanda.testing",
    "amanda.types",
    "amanda_native",
    "amanda_std",
    "amanda_std.backends",
    "amanda_std.dataflow",
    "amanda_std.mappings",
    "amanda_std.ops",
)
"""What a plug-in may import; everything below is private to its room."""
PAGE = Path(__file__).resolve().parent.parent / "docs" / "faces.md"
INTRODUCTION = """\
# Faces

What a plug-in may import: these packages, by the names listed. Everything below them
may change in any release. Written by `tools/face_table.py`; tests compare.
"""


def page_text() -> str:
    return "\n".join([INTRODUCTION, *map(_section, FACES)])


def _section(face: str) -> str:
    module = import_module(face)
    names = sorted(getattr(module, "__all__", ()), key=str.lower)
    listed = ", ".join(f"`{name}`" for name in names) or "See [std.md](std.md)."
    text = textwrap.fill(listed, 96, break_long_words=False, break_on_hyphens=False)
    return f"## `{face}`\n\n{text}\n"


if __name__ == "__main__":
    PAGE.write_text(page_text(), encoding="utf-8")
