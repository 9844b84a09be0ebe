"""Check models one at a time, and write the table of docs/models.md.

    python tests/models table FOLDER [FILE]    all models, to FILE (docs/models.md)
    python tests/models one NAME FOLDER        one model, as a line of JSON

FOLDER caches the published models; exports of PyTorch are temporary. Each model runs in
its own process, so that the peak memory is that of one model. AMANDA_TEST_DATA is the
folder of test data, with models/get.py in it.
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


def check_here(name: str, folder: Path) -> dict[str, Any]:
    """Check one model in this process, which should do nothing else."""
    import resource  # not available on Windows

    from models.architectures import ARCHITECTURES, export
    from models.checking import check_model, run_onnxruntime
    from models.published import fetch_model, make_feeds

    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory(prefix="amanda-models-") as scratch:
        work = Path(scratch)
        if name in ARCHITECTURES:
            exported = export(name, work, small=False)
            report = check_model(name, *exported, work, expected_of="PyTorch")
        else:
            path, feeds = fetch_model(name, data_folder(), folder), make_feeds(name)
            expected = run_onnxruntime(path, feeds)
            report = check_model(
                name, path, feeds, expected, work, expected_of="onnxruntime"
            )
    unit = 1 if sys.platform == "darwin" else 1024
    report.peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return {**asdict(report), "problems": report.problems}


def check_in_process(name: str, folder: Path) -> dict[str, Any]:
    """Check one model in a process of its own."""
    line = [sys.executable, HERE, "one", name, folder]
    process = subprocess.run(line, check=False, capture_output=True, text=True)
    if process.returncode:
        raise SystemExit(f"{name}: {process.stderr or process.stdout}")
    report: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    return report


def data_folder() -> Path:
    root = os.environ.get("AMANDA_TEST_DATA")
    if not root:
        raise SystemExit("needs AMANDA_TEST_DATA, the folder of test data")
    return Path(root)


def write_table(folder: Path, file: Path) -> int:
    from models.architectures import ARCHITECTURES
    from models.page import render_page
    from models.published import list_models

    reports, failures = [], []
    for name in (*ARCHITECTURES, *list_models(data_folder())):
        try:
            reports.append(check_in_process(name, folder))
        except SystemExit as error:
            failures.append(str(error))
            print(error, flush=True)
        else:
            print(name, reports[-1]["problems"] or "", flush=True)
    if failures:
        raise SystemExit(f"{len(failures)} models failed; the page is not written")
    file.write_text(render_page(reports), encoding="utf-8")
    return int(any(each["problems"] for each in reports))


def main(arguments: Sequence[str]) -> int:
    sys.path.insert(0, str(HERE.parent))  # like pytest
    match arguments:
        case ["one", name, folder]:
            print(json.dumps(check_here(name, Path(folder))))
            return 0
        case ["table", folder]:
            return write_table(Path(folder), ROOT / "docs" / "models.md")
        case ["table", folder, file]:
            return write_table(Path(folder), Path(file))
    raise SystemExit(__doc__)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
