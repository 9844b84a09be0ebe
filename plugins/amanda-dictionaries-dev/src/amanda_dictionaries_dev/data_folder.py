"""Write the data file of a dictionary, with the index and manifest of its folder."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from amanda.dictionary import GONE, INDEX_FILE
from amanda.files import replace_file
from amanda_dictionaries_dev.extractor import ExtractedDictionary

__all__ = ["manifest_text", "save"]


def save(dictionary: ExtractedDictionary, folder: Path, checked: str = "") -> str:
    """Write a data file, and update index and manifest; return the file's name.

    `checked` is recorded in the index: what the data was compared with.
    """
    header, blocks = dictionary
    data = dictionary.encode()
    file = f"{header.namespace.partition('/')[2]}.ops"
    _write(folder / file, data)
    index_file = folder / INDEX_FILE
    index: dict[str, Any] = {"schema": 1, "namespaces": {}}
    if index_file.exists():
        index = json.loads(index_file.read_text(encoding="utf-8"))
    index["namespaces"][header.namespace] = {
        "file": file,
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "source": header.source,
        "versions": list(header.versions),
        "ops": len(blocks),
        "newest": sum(block.steps[-1][1] != GONE for block in blocks),
        "checked": checked,
    }
    index["namespaces"] = dict(sorted(index["namespaces"].items()))
    _write(index_file, _index_text(index).encode())
    manifest = manifest_text(index["namespaces"])
    _write(folder / "amanda-plugin.toml", manifest.encode())
    return file


def _write(file: Path, content: bytes) -> None:
    with replace_file(file) as stream:
        stream.write(content)


def _index_text(index: Mapping[str, Any]) -> str:
    """JSON with each list on one line, so that a new version changes one line."""
    text = json.dumps(index, indent=2)
    lists = re.compile(r"\[\s+([^\]]*?)\s+\]")
    return lists.sub(lambda m: "[" + re.sub(r",\s+", ", ", m[1]) + "]", text) + "\n"


def manifest_text(namespaces: Mapping[str, Mapping[str, Any]]) -> str:
    """The `amanda-plugin.toml` of the dictionaries of an index."""
    parts = [
        "# The dictionaries here; `amanda namespace regenerate` writes this file.\n"
        "manifest = 1\n"
    ]
    for path, row in namespaces.items():
        name = path.removeprefix("amanda/")
        versions = ", ".join(json.dumps(version) for version in row["versions"])
        parts.append(
            f'[namespaces."{name}"]\n'
            f'doc = "{row["newest"]} ops, from {row["source"]}"\n'
            f"versions = [{versions}]\n"
            'tier = "beta"\n'
        )
    return "\n".join(parts)
