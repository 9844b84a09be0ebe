"""The dictionary of what TensorFlow 0.12 to 1.15 had in contrib.

Each of its parts has a library with ops of its own, which the main one does not list,
and a graph can have both. It ended with 2.0, so no installed TensorFlow can be asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from amanda.dictionary import DictionaryHeader, OpDef, version_key
from amanda.errors import PluginMissingError
from amanda_dictionaries_dev import (
    ExtractedDictionary,
    Extractor,
    InstalledOps,
    op_histories,
    read_raw_data,
)
from amanda_dictionaries_dev.tensorflow.op_definitions import entry_of


class ContribExtractor(Extractor):
    header = DictionaryHeader(
        namespace="amanda/tensorflow.contrib",
        versions=(),
        source="the libraries of contrib in TensorFlow's releases",
        recorded=True,
        hints=("_",),
    )

    def installed(self) -> InstalledOps:
        try:
            found = version("tensorflow")
        except PackageNotFoundError:
            found = ""
        raise PluginMissingError(
            "no TensorFlow that has contrib is installed; it ended with 1.15",
            got=f"TensorFlow {found}" if found else "none",
        )

    def extract(self, raw: Path | None) -> ExtractedDictionary | None:
        """From `tensorflow.contrib.jsonl`; lines about ops are the newest there are."""
        if raw is None:
            return None
        data = read_raw_data(raw / "tensorflow.contrib.jsonl")
        versions = tuple(sorted(data.versions, key=version_key))
        docs = {
            name: row["doc"]
            for table in data.tables().values()
            for name, row in table.items()
            if "doc" in row
        }
        header = replace(self.header, versions=versions)
        return ExtractedDictionary(header, op_histories(data, _entry, docs))


def _entry(name: str, row: Mapping[str, Any]) -> OpDef:
    return entry_of(name, row)
