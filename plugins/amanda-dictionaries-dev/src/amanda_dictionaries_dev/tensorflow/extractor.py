"""The extractor of TensorFlow, from the op list of its library (`TF_GetAllOpList`).

The library is loaded in a separate process. Other versions come from raw data, which
has the same lists.
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
from amanda_dictionaries_dev.tensorflow.argument_docs import docs_of_arguments
from amanda_dictionaries_dev.tensorflow.op_definitions import op_def_of_row

_NO_DOC = "TODO: add doc"  # TensorFlow's text for undocumented ops


class TensorFlowExtractor(Extractor):
    header = DictionaryHeader(
        namespace="amanda/tensorflow",
        versions=(),
        source="the libraries of TensorFlow's releases",
        recorded=True,
        hints=("_",),
    )

    def installed_ops(self) -> InstalledOps:
        found = _query_installed()
        version, lines = found["version"], doc_lines(found["docs"])
        op_defs = [
            op_def_of_row(name, row, lines.get(name, "")).with_docs(
                docs_of_arguments(found["docs"].get(name, ""), row)
            )
            for name, row in found["ops"].items()
        ]
        return InstalledOps(f"TensorFlow {version}", {version: op_defs})

    def extract(self, raw: Path | None) -> ExtractedDictionary | None:
        """From `tensorflow.jsonl`, and `tensorflow.more.jsonl` for those before 1.3.

        Documentation is that of the installed TensorFlow.
        """
        if raw is None:
            return None
        data = read_raw_data(raw / "tensorflow.jsonl", raw / "tensorflow.more.jsonl")
        versions = tuple(sorted(data.versions, key=version_key))
        found = _query_installed()
        docs = doc_lines(found["docs"])
        arguments = {
            name: docs_of_arguments(found["docs"].get(name, ""), row)
            for name, row in found["ops"].items()
        }
        header = replace(self.header, versions=versions)
        blocks = op_histories(data, op_def_of_row, docs, arguments)
        return ExtractedDictionary(header, blocks)


def doc_lines(docs: dict[str, str]) -> dict[str, str]:
    """One line of documentation for each op.

    >>> doc_lines({"Abs": "Computes it.  Really.", "Cos": "TODO: add doc."})
    {'Abs': 'Computes it.'}
    """
    lines = {name: first_sentence(text) for name, text in sorted(docs.items())}
    return {n: line for n, line in lines.items() if not line.startswith(_NO_DOC)}


@cache
def _query_installed() -> dict[str, Any]:
    """Version, ops and docs of the installed TensorFlow; cached, it takes seconds."""
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
            "the op list of the installed TensorFlow cannot be read",
            who=folder,
            got=f"exit code {done.returncode}: {done.stderr.strip()[-500:]}",
            hint="reinstall it",
        )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
