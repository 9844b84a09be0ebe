"""Writes the README's table of vocabularies, from the index of amanda-namespaces.

    python tools/dictionary_table.py            puts it into README.md
    python tools/dictionary_table.py --check    exits with 1 where it is another

Nobody edits the table by hand: it says what the data files hold.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
INDEX = ROOT / "namespaces" / "src" / "amanda_namespaces" / "index.json"

BEGIN = "<!-- dictionaries: written by tools/dictionary_table.py -->"
END = "<!-- end of dictionaries -->"


def table(index: Mapping[str, Mapping[str, Any]]) -> str:
    """The table, a row for each vocabulary of an index."""
    return "\n".join(_lines(index))


def _lines(index: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    yield "| dictionary | versions | ops ever | newest | source | checked against |"
    yield "|---|---|---:|---:|---|---|"
    for path, row in sorted(index.items()):
        cells = (
            f"`{path.removeprefix('amanda/')}`",
            _versions(row["versions"]),
            f"{row['ops']:,}",
            f"{row['newest']:,}",
            row["source"],
            row.get("checked") or "not yet",
        )
        yield f"| {' | '.join(cells)} |"


def _versions(versions: list[str]) -> str:
    """
    >>> _versions(["1", "2", "3"]), _versions(["5"])
    ('3: 1 to 3', '5')
    """
    if len(versions) == 1:
        return versions[0]
    return f"{len(versions)}: {versions[0]} to {versions[-1]}"


def replaced(text: str, block: str) -> str:
    """A page with the block between its marks."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{README.name} lacks the marks {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{block}\n\n{END}{after}"


def main(*arguments: str) -> int:
    index = json.loads(INDEX.read_text(encoding="utf-8"))["namespaces"]
    text = README.read_text(encoding="utf-8")
    made = replaced(text, table(index))
    if "--check" in arguments:
        return int(made != text)
    README.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
