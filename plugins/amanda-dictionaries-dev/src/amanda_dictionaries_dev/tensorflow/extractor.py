"""The dictionary of TensorFlow.

A version is what its own library lists (`TF_GetAllOpList`), asked in a process of its
own. The versions that are not installed come from raw data, which holds the same lists.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from amanda.dictionary import DictionaryHeader, version_key
from amanda.errors import NamespaceError
from amanda_dictionaries_dev import (
    ExtractedDictionary,
    Extractor,
    InstalledOps,
    first_sentence,
    op_histories,
    read_raw_data,
    requires_framework,
)
from amanda_dictionaries_dev.tensorflow.op_definitions import entry_of

_UNWRITTEN = "TODO: add doc"  # what TensorFlow says where nobody wrote anything


class TensorFlowExtractor(Extractor):
    header = DictionaryHeader(
        namespace="amanda/tensorflow",
        versions=(),
        source="the libraries of TensorFlow's releases",
        recorded=True,
        hints=("_",),
    )

    def installed(self) -> InstalledOps:
        found = _asked()
        version, lines = found["version"], doc_lines(found["docs"])
        entries = [
            entry_of(name, row, lines.get(name, ""))
            for name, row in found["ops"].items()
        ]
        return InstalledOps(f"TensorFlow {version}", {version: entries})

    def extract(self, raw: Path | None) -> ExtractedDictionary | None:
        """From `tensorflow.jsonl`, and what is before 1.3 from a file beside it.

        Lines about ops are those of the installed one.
        """
        if raw is None:
            return None
        data = read_raw_data(raw / "tensorflow.jsonl", raw / "tensorflow.more.jsonl")
        versions = tuple(sorted(data.versions, key=version_key))
        docs = doc_lines(_asked()["docs"])
        header = replace(self.header, versions=versions)
        return ExtractedDictionary(header, op_histories(data, entry_of, docs))


def doc_lines(docs: dict[str, str]) -> dict[str, str]:
    """A line about each op, of the texts that TensorFlow has.

    >>> doc_lines({"Abs": "Computes it.  Really.", "Cos": "TODO: add doc."})
    {'Abs': 'Computes it.'}
    """
    told = {name: first_sentence(text) for name, text in sorted(docs.items())}
    return {n: line for n, line in told.items() if not line.startswith(_UNWRITTEN)}


@cache
def _asked() -> dict[str, Any]:
    """The answer of the installed TensorFlow; it costs seconds, so it is asked once."""
    with requires_framework("tensorflow", "tensorflow-cpu"):
        spec = find_spec("tensorflow")
        if spec is None or not spec.submodule_search_locations:
            raise ImportError("no module named 'tensorflow'")
    folder = spec.submodule_search_locations[0]
    command = [
        sys.executable,
        "-m",
        "amanda_dictionaries_dev.tensorflow.registered_ops",
        "all",
        folder,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NamespaceError(
            "the installed TensorFlow does not say what its ops are",
            who=folder,
            got=f"exit code {done.returncode}: {done.stderr.strip()[-500:]}",
            hint="reinstall it",
        )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
