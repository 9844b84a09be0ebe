"""The entries of StableHLO and CHLO by the bindings of one jaxlib, as JSON.

    python dialect_entries.py OUT FOLDER

A process of its own, since a process loads one jaxlib: that of FOLDER, of which nothing
but bindings and version need be there. OUT gets the version of the dialects, and of
each op its definition and the line about it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def main(out: str, folder: str) -> None:
    sys.path.insert(0, folder)
    from amanda.dictionary import format_definition
    from amanda_dictionaries_dev.jax.dialects import CHLO, STABLEHLO

    answer: dict[str, Any] = {}
    for dialect in (STABLEHLO, CHLO):
        for version, entries in dialect.installed_ops().versions.items():
            answer["version"] = version
            answer[dialect.name] = {
                entry.name: {"text": format_definition(entry), "doc": entry.doc}
                for entry in entries
            }
    Path(out).write_text(json.dumps(answer), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
