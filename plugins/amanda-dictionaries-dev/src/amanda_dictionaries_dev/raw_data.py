"""Raw data: what was extracted from many releases of a framework, in one file.

A file of JSON lines. The first has the versions; then comes a line for each op, with
its data and the index of the version from which it holds, or null where it was removed:

    {"versions": ["1.0", "1.1", "2.0"]}
    ["MatMul", [[0, {...}], [2, {...}]]]
    ["Wave", [[1, {...}], [2, null]]]
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from amanda.dictionary import OpDef, OpHistory, definition_steps, version_key
from amanda.errors import NamespaceError

__all__ = ["RawData", "op_histories", "read_raw_data"]


class RawData(NamedTuple):
    """Versions, and for each op its data by the version that changed it."""

    versions: tuple[str, ...]
    ops: Mapping[str, Sequence[tuple[str, Any]]]

    def tables(self) -> dict[str, dict[str, Any]]:
        """For each version, the data of each op that it has."""
        steps = {name: dict(changes) for name, changes in self.ops.items()}
        current: dict[str, Any] = {}
        tables: dict[str, dict[str, Any]] = {}
        for version in self.versions:
            current |= {n: by[version] for n, by in steps.items() if version in by}
            tables[version] = {n: row for n, row in current.items() if row is not None}
        return tables


def read_raw_data(file: Path, *others: Path) -> RawData:
    """Read raw data; versions in the later files replace those of the earlier ones.

    None in the steps of an op means that it was removed.
    """
    data = _read_file(file)
    if not others:
        return data
    tables = data.tables()
    for other in others:
        tables |= _read_file(other).tables()
    versions = tuple(sorted(tables, key=version_key))
    steps: dict[str, list[tuple[str, Any]]] = {}
    for version in versions:
        for name in sorted({*steps, *tables[version]}):
            row = tables[version].get(name)
            before = steps.setdefault(name, [])
            if row != (before[-1][1] if before else None):
                before.append((version, row))
    return RawData(versions, dict(sorted(steps.items())))


def _read_file(file: Path) -> RawData:
    try:
        first, *rest = file.read_text(encoding="utf-8").splitlines()
        versions = tuple(map(str, json.loads(first)["versions"]))
        lines = [json.loads(line) for line in rest]
        ops = {
            name: [(versions[index], row) for index, row in steps]
            for name, steps in lines
        }
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise NamespaceError(
            "this is not a raw data file of a dictionary",
            who=file,
            expected="JSON lines: the versions, then one op per line",
            got=error,
        ) from error
    return RawData(versions, ops)


def op_histories(
    raw: RawData,
    definition: Callable[[str, Any], OpDef],
    docs: Mapping[str, str] | None = None,
    arguments: Mapping[str, Mapping[str, str]] | None = None,
) -> list[OpHistory]:
    """The history of every op; `definition` converts a name and its raw data.

    `docs` and `arguments` have documentation by op: of itself, and as `OpDef.docs`."""
    docs, arguments = docs or {}, arguments or {}
    return [
        OpHistory(
            name,
            docs.get(name, ""),
            definition_steps(
                (version, None if row is None else definition(name, row))
                for version, row in steps
            ),
            arguments.get(name, {}),
        )
        for name, steps in raw.ops.items()
    ]
