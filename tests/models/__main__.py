"""Judge models one at a time, and write the table of docs/models.md.

    python tests/models table FOLDER [FILE]    all of them, to FILE (docs/models.md)
    python tests/models one NAME FOLDER        one, as a line of JSON

FOLDER keeps the published models for the next time; those that PyTorch exports are gone
afterwards. Each model has a process of its own, so that memory is what one needs.
AMANDA_TEST_DATA is the folder of test data, with models/get.py in it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def one(name: str, folder: Path) -> dict[str, Any]:
    """What is seen of one model; its process is to end afterwards."""
    import resource  # where there are processes of this kind

    from models.architectures import ARCHITECTURES, exported
    from models.judging import judged, of_onnxruntime
    from models.published import brought, fed

    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory(prefix="amanda-models-") as scratch:
        place = Path(scratch)
        if name in ARCHITECTURES:
            made = exported(name, place, small=False)
            seen = judged(name, *made, place, expected_of="PyTorch")
        else:
            path, feeds = brought(name, data(), folder), fed(name)
            expected = of_onnxruntime(path, feeds)
            seen = judged(name, path, feeds, expected, place, expected_of="onnxruntime")
    unit = 1 if sys.platform == "darwin" else 1024
    seen.peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return {**asdict(seen), "problems": seen.problems}


def apart(name: str, folder: Path) -> dict[str, Any]:
    """The same, seen from outside: a process for it alone."""
    line = [sys.executable, HERE, "one", name, folder]
    done = subprocess.run(line, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr or done.stdout}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def data() -> Path:
    root = os.environ.get("AMANDA_TEST_DATA")
    if not root:
        raise SystemExit("needs AMANDA_TEST_DATA, the folder of test data")
    return Path(root)


def table(folder: Path, file: Path) -> int:
    from models.architectures import ARCHITECTURES
    from models.page import page
    from models.published import listed

    seen, broken = [], []
    for name in (*ARCHITECTURES, *listed(data())):
        try:
            seen.append(apart(name, folder))
        except SystemExit as error:
            broken.append(str(error))
            print(error, flush=True)
        else:
            print(name, seen[-1]["problems"] or "", flush=True)
    if broken:
        raise SystemExit(f"{len(broken)} models broke, so that no page is written")
    file.write_text(page(seen), encoding="utf-8")
    return int(any(each["problems"] for each in seen))


def main(arguments: Sequence[str]) -> int:
    sys.path.insert(0, str(HERE.parent))  # as pytest has it
    match arguments:
        case ["one", name, folder]:
            print(json.dumps(one(name, Path(folder))))
            return 0
        case ["table", folder]:
            return table(Path(folder), ROOT / "docs" / "models.md")
        case ["table", folder, file]:
            return table(Path(folder), Path(file))
    raise SystemExit(__doc__)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
