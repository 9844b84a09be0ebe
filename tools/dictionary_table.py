"""Generate the README's table of dictionaries from the index of amanda-namespaces.

    python tools/dictionary_table.py            write it into README.md
    python tools/dictionary_table.py --check    exit with 1 if it differs

The table is never edited by hand.
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
    """The table, with a row for each dictionary of an index."""
    return "\n".join(_table_rows(index))


def _table_rows(index: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    yield "| dictionary | versions | ops ever | newest | source | checked against |"
    yield "|---|---|---:|---:|---|---|"
    for path, row in sorted(index.items()):
        cells = (
            f"`{path.removeprefix('amanda/')}`",
            _version_range(row["versions"]),
            f"{row['ops']:,}",
            f"{row['newest']:,}",
            row["source"],
            row.get("checked") or "not yet",
        )
        yield f"| {' | '.join(cells)} |"


def _version_range(versions: list[str]) -> str:
    """
    >>> _version_range(["1", "2", "3"]), _version_range(["5"])
    ('3: 1 to 3', '5')
    """
    if len(versions) == 1:
        return versions[0]
    return f"{len(versions)}: {versions[0]} to {versions[-1]}"


def replace_table(text: str, block: str) -> str:
    """Replace the block between the marks of a page."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{README.name} lacks the marks {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{block}\n\n{END}{after}"


def main(*arguments: str) -> int:
    index = json.loads(INDEX.read_text(encoding="utf-8"))["namespaces"]
    text = README.read_text(encoding="utf-8")
    made = replace_table(text, table(index))
    if "--check" in arguments:
        return int(made != text)
    README.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
