"""The extractor of the contrib ops of TensorFlow 0.12 to 1.15.

Each part of contrib has a library with its own ops, which the main op list lacks; a
graph can use both. TensorFlow 2.0 removed contrib, so there is raw data only.
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
from amanda_dictionaries_dev.tensorflow.op_definitions import op_def_of_row


class ContribExtractor(Extractor):
    header = DictionaryHeader(
        namespace="amanda/tensorflow.contrib",
        versions=(),
        source="the libraries of contrib in TensorFlow's releases",
        recorded=True,
        hints=("_",),
    )

    def installed_ops(self) -> InstalledOps:
        try:
            found = version("tensorflow")
        except PackageNotFoundError:
            found = ""
        raise PluginMissingError(
            "no TensorFlow with contrib is installed; 1.15 was the last",
            got=f"TensorFlow {found}" if found else "none",
        )

    def extract(self, raw: Path | None) -> ExtractedDictionary | None:
        """From `tensorflow.contrib.jsonl`, with the newest documentation."""
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
        return ExtractedDictionary(header, op_histories(data, _op_def, docs))


def _op_def(name: str, row: Mapping[str, Any]) -> OpDef:
    return op_def_of_row(name, row)
