"""Write `core/src/amanda/addons.json`: the entry points of the plug-ins here.

    python tools/addon_table.py

Messages of the core use it to advise what to install.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "core" / "src" / "amanda" / "addons.json"
GROUP = "amanda."


def rows() -> Iterator[dict[str, Any]]:
    """A row for each entry point of each distribution but the core."""
    for project in sorted(ROOT.glob("plugins/[!_]*/pyproject.toml")):
        yield from _rows_of(project)
    yield from _rows_of(ROOT / "namespaces" / "pyproject.toml")


def _rows_of(file: Path) -> Iterator[dict[str, Any]]:
    project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
    manifest = _manifest(file.parent)
    for group, entries in project.get("entry-points", {}).items():
        kind = group.removeprefix(GROUP)
        if not group.startswith(GROUP) or kind == "hooks":
            continue
        for name in entries:
            told = manifest.get(kind, {}).get(name, {})
            row = {"dist": project["name"], "kind": kind, "name": name}
            optional = {
                "suffixes": told.get("suffixes"),
                "source": told.get("from"),
                "target": told.get("to"),
                "both": told.get("both"),
            }
            given = {key: value for key, value in optional.items() if value}
            yield (
                row | given | ({} if told.get("transit", True) else {"transit": False})
            )


def _manifest(folder: Path) -> dict[str, Any]:
    for file in folder.glob("src/*/amanda-plugin.toml"):
        return tomllib.loads(file.read_text(encoding="utf-8"))
    return {}


def file_text() -> str:
    """The text of the file, a row on each line."""
    return "[\n" + ",\n".join(json.dumps(row) for row in rows()) + "\n]\n"


if __name__ == "__main__":
    FILE.write_text(file_text(), encoding="utf-8")
