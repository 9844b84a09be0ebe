"""Extracts from the packages of old releases what no installed framework can tell.

    python -m tools.extract tensorflow RAW PYTHON     0.12 to 1.2, and contrib to 1.15
    python -m tools.extract torch RAW                 1.0 to 1.6
    python -m tools.extract onnx RAW PYTHON ...       schemas as they were released

RAW is a folder: files of raw data (see `amanda.dictionary.generating`) are written to
it, beside those of other origin that are there. PYTHON is an interpreter for which the
packages were made, which loads their libraries, in a process of its own; packages are
read through pip's client, as far as they are needed, and never imported.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from amanda.dictionary import version_key
from amanda.dictionary.generating import doc_line
from tools.wheels import Wheel, wheels

HERE = Path(__file__).resolve().parent
Table = Mapping[str, Any]


def main(what: str, folder: str, *rest: str) -> None:
    ROUTES[what](Path(folder), *rest)


def write(file: Path, tables: Mapping[str, Table]) -> None:
    """The raw data of some versions: ops in each, by name."""
    versions = sorted(tables, key=version_key)
    steps: dict[str, list[list[Any]]] = {}
    for place, version in enumerate(versions):
        for name in {*steps, *tables[version]}:
            row = tables[version].get(name)
            before = steps.setdefault(name, [])
            if row != (before[-1][1] if before else None):
                before.append([place, row])
    head = {"format": 1, "versions": versions}
    lines = [_line(head), *(_line([name, steps[name]]) for name in sorted(steps))]
    file.write_text("".join(lines), encoding="utf-8")
    told = f"{len(versions)} versions, {len(steps)} ops"
    print(f"{file.name}: {told}, {file.stat().st_size:,} bytes")


def _before(versions: Iterable[str], limit: str) -> list[str]:
    """
    >>> _before(["1.10.0", "1.9.0", "2.0.0"], "2.0.0")
    ['1.9.0', '1.10.0']
    """
    known = sorted(versions, key=version_key)
    return [v for v in known if version_key(v) < version_key(limit)]


def _line(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":")) + "\n"


# -- TensorFlow ------------------------------------------------------------------------


def tensorflow(folder: Path, python: str) -> None:
    """What libraries of contrib add to the ops of the main one, and generated files.

    Both know most of these ops; where they do, they must say the same. Before 1.3 the
    main library is asked in the same way, since it lists more than generated files do.
    """
    core: dict[str, Table] = {}
    contrib: dict[str, Table] = {}
    found = wheels("tensorflow", ("3.6", "3.5"))
    for version in _before(found, "2.0.0"):
        before, added = _registered(found[version], python)
        generated = _generated(found[version])
        contrib[version] = _contrib(before, added, generated)
        counts = len(before), len(added), len(generated), len(contrib[version])
        print(version, found[version].filename, *counts, flush=True)
        if version in _before(found, "1.3.0"):
            core[version] = before
    write(folder / "tensorflow.more.jsonl", core)
    write(folder / "tensorflow.contrib.jsonl", contrib)


def _registered(wheel: Wheel, python: str) -> tuple[Table, Table]:
    """The ops of the main library, and those that libraries of contrib add."""
    from amanda_tf.asking import rows

    names = [name for name in wheel.archive.namelist() if name.endswith((".so", ".so.1"))]
    main = [n for n in names if "/python/_pywrap_tensorflow" in n and "contrib" not in n]
    around = [name for name in names if "libtensorflow_framework" in name]
    added = [name for name in names if "/contrib/" in name and "wrap" not in name]
    libraries = [*around, max(main, key=len)]  # the longer name is the later one
    with tempfile.TemporaryDirectory() as place:
        here = Path(place)
        for name, content in wheel.read([*libraries, *added]).items():
            (here / name).parent.mkdir(parents=True, exist_ok=True)
            (here / name).write_bytes(content)
        out = here / "answer.json"
        command = [python, HERE / "registered_ops.py", out]
        given = [",".join(str(here / name) for name in libraries)]
        given += [str(here / name) for name in added]
        paths = ":".join(str((here / name).parent) for name in libraries)
        environment = {**os.environ, "LD_LIBRARY_PATH": paths}
        done = subprocess.run(
            [*command, *given], env=environment, capture_output=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"{wheel.filename}: {done.stderr.decode()[-1000:]}")
        answer = json.loads(out.read_text(encoding="utf-8"))
    before, after = (
        {name: _short(row) for name, row in rows(bytes.fromhex(answer[key])).items()}
        for key in ("before", "after")
    )
    return before, {name: row for name, row in after.items() if name not in before}


def _short(row: Mapping[str, Any]) -> Any:
    """A row without what says nothing: no ports, a trait that it does not have."""
    if isinstance(row, Mapping):
        kept = {key: _short(value) for key, value in row.items()}
        always = {"allowed", "default", "min", "shape"}
        return {k: v for k, v in kept.items() if v not in (False, [], "") or k in always}
    return [_short(item) for item in row] if isinstance(row, list) else row


def _generated(wheel: Wheel) -> dict[str, tuple[Any, str]]:
    """The ops of the generated files of contrib, with a line about each."""
    from amanda_tf import generated
    from amanda_tf.asking import rows
    from amanda_tf.vocabulary import doc_lines

    found = {}
    files = [
        name
        for name in wheel.archive.namelist()
        if "/contrib/" in name and Path(name).match("gen_*.py")
    ]
    for content in wheel.read(files).values():
        source = content.decode()
        lines = doc_lines(generated.docs(source))
        for name, row in rows(generated.op_list(source)).items():
            found[name] = _short(row), lines.get(name, "")
    return found


def _contrib(
    before: Table, added: Table, generated: Mapping[str, tuple[Any, str]]
) -> Table:
    for name, (row, _) in generated.items():
        for table in (before, added):
            if name in table and table[name] != row:
                raise SystemExit(f"{name}: {row} in Python, {table[name]} in a library")
    files = {name: row for name, (row, _) in generated.items() if name not in before}
    return {
        name: {**row, "doc": line} if (line := generated.get(name, ("", ""))[1]) else row
        for name, row in {**files, **added}.items()
    }


ROUTES: Mapping[str, Callable[..., None]] = {"tensorflow": tensorflow}

if __name__ == "__main__":
    main(*sys.argv[1:])
