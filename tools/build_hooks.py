"""Call the hooks of installed build backends, as PEP 517 and PEP 660 define them.

    python -P tools/build_hooks.py build BACKEND HOOK FOLDER
    python -P tools/build_hooks.py requires HOOK [BACKEND PROJECT ...]

The first builds the project in the current folder. The second prints what backends
require beside what projects declare, as JSON on the last line.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from importlib import import_module


def build(backend: str, hook: str, folder: str) -> None:
    getattr(import_module(backend), hook)(folder)


def requirements(
    hook: str, backends: Sequence[str], projects: Sequence[str]
) -> set[str]:
    """What backends require to build their projects; they need not have the hook."""
    found: set[str] = set()
    for backend, project in zip(backends, projects, strict=True):
        os.chdir(project)
        found.update(getattr(import_module(backend), hook, list)())
    return found


def main(arguments: Sequence[str]) -> None:
    match arguments:
        case ["build", backend, hook, folder]:
            build(backend, hook, folder)
        case ["requires", hook, *rest]:
            found = requirements(hook, rest[::2], rest[1::2])
            print()
            print(json.dumps(sorted(found)))
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
