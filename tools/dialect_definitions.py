"""Write the op definitions of StableHLO and CHLO in one jaxlib as JSON.

    python dialect_definitions.py OUT FOLDER

This is a separate process, since a process can load only one jaxlib: that of FOLDER,
which needs only the bindings and the version. OUT has the version of the dialects, and
for each op its definition and documentation.
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
        for version, op_defs in dialect.installed_ops().versions.items():
            answer["version"] = version
            answer[dialect.name] = {
                op_def.name: {"text": format_definition(op_def), "doc": op_def.doc}
                for op_def in op_defs
            }
    Path(out).write_text(json.dumps(answer), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
