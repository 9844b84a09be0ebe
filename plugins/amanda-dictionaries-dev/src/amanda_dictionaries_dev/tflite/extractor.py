"""The extractor of TensorFlow Lite, from the schema in TensorFlow's packages."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import packages_distributions, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from amanda.dictionary import (
    DictionaryHeader,
    OpDef,
    OpHistory,
    definition_steps,
    version_key,
)
from amanda_dictionaries_dev import (
    ExtractedDictionary,
    Extractor,
    InstalledOps,
    read_raw_data,
    requires_framework,
)
from amanda_dictionaries_dev.tflite.op_definitions import operator_definitions
from amanda_dictionaries_dev.tflite.schema import parse_schema

_FILE = "lite/python/schema_py_generated.py"


class TFLiteExtractor(Extractor):
    header = DictionaryHeader(
        namespace="amanda/tflite",
        versions=(),
        source="the schemas in TensorFlow's releases",
    )

    def installed_ops(self) -> InstalledOps:
        with requires_framework("tensorflow", "tensorflow-cpu"):
            spec = find_spec("tensorflow")
            if spec is None or not spec.submodule_search_locations:
                raise ImportError("no module named 'tensorflow'")
        folder = Path(spec.submodule_search_locations[0])
        rows = parse_schema((folder / _FILE).read_text(encoding="utf-8"))
        dist = packages_distributions()["tensorflow"][0]
        found = version(dist)
        return InstalledOps(
            f"TensorFlow {found}", {found: list(operator_definitions(rows))}
        )

    def extract(self, raw: Path | None) -> ExtractedDictionary | None:
        """From `tflite_tensorflow_cpu.jsonl`."""
        if raw is None:
            return None
        data = read_raw_data(raw / "tflite_tensorflow_cpu.jsonl")
        versions = tuple(sorted(data.versions, key=version_key))
        steps = {name: dict(found) for name, found in data.ops.items()}
        now: dict[str, Any] = {}
        tables: list[tuple[str, dict[str, OpDef]]] = []
        for each in versions:
            now |= {name: row[each] for name, row in steps.items() if each in row}
            rows = {name: row for name, row in now.items() if row is not None}
            tables.append(
                (each, {each.name: each for each in operator_definitions(rows)})
            )
        names = sorted({name for _, table in tables for name in table})
        blocks = [
            OpHistory(
                name, "", definition_steps((v, table.get(name)) for v, table in tables)
            )
            for name in names
        ]
        return ExtractedDictionary(replace(self.header, versions=versions), blocks)
