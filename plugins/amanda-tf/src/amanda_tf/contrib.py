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

from amanda.dictionary import OpDef, version_key
from amanda.dictionary.datafile import Header
from amanda.dictionary.generating import Generator, Live, Made, blocks_of, raw_data
from amanda.errors import PluginMissingError
from amanda_tf.rows import entry_of


class Contrib(Generator):
    header = Header(
        namespace="amanda/tensorflow.contrib",
        versions=(),
        source="the libraries of contrib in TensorFlow's releases",
        recorded=True,
        hints=("_",),
    )

    def live(self) -> Live:
        try:
            found = version("tensorflow")
        except PackageNotFoundError:
            found = ""
        raise PluginMissingError(
            "no TensorFlow that has contrib is installed; it ended with 1.15",
            got=f"TensorFlow {found}" if found else "none",
        )

    def made(self, raw: Path | None) -> Made | None:
        """From `tensorflow.contrib.jsonl`; lines about ops are the newest there are."""
        if raw is None:
            return None
        data = raw_data(raw / "tensorflow.contrib.jsonl")
        versions = tuple(sorted(data.versions, key=version_key))
        docs = {
            name: row["doc"]
            for table in data.tables().values()
            for name, row in table.items()
            if "doc" in row
        }
        header = replace(self.header, versions=versions)
        return Made(header, blocks_of(data, _entry, docs))


def _entry(name: str, row: Mapping[str, Any]) -> OpDef:
    return entry_of(name, row)
