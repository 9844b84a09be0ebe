"""Record the package file that each version of a dictionary can be compared with.

    python -m tools.sources [DICTIONARY ...]

Names and digests of files come from the package index that pip is configured with,
through pip's own client; nothing is downloaded, and no address is stored. They are
written to `sources.json` in the data folder. Of the files of a release, the first match
of the table below is used, in the order of packages and then of Pythons. If all
versions come from one release of the framework, `*` stands for them.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tools.wheels import DEFAULT_PYTHONS, wheels

HERE = Path(__file__).resolve().parent.parent
PACKAGE = HERE / "namespaces" / "src" / "amanda_namespaces"
RAW = HERE / "namespaces" / "raw"
FILE = "sources.json"


class Origin(NamedTuple):
    """The packages of a dictionary; the first that has the version is used."""

    packages: tuple[str, ...]
    whole: bool = False  # one release has every version
    pythons: tuple[str, ...] = DEFAULT_PYTHONS  # in order of preference
    raw: str = ""  # raw data with the release of each version


ORIGINS = {
    "amanda/chlo": Origin(("jaxlib",), pythons=("3.11",), raw="chlo.jsonl"),
    "amanda/jax": Origin(("jax",), whole=True),
    "amanda/keras": Origin(("keras",)),
    "amanda/onnx": Origin(("onnx",), whole=True),
    "amanda/onnx.ml": Origin(("onnx",), whole=True),
    "amanda/onnx.preview": Origin(("onnx",), whole=True),
    "amanda/onnx.preview.training": Origin(("onnx",), whole=True),
    "onnx/com.microsoft": Origin(("onnxruntime",), whole=True),
    "onnx/com.microsoft.nchwc": Origin(("onnxruntime",), whole=True),
    "amanda/openvino": Origin(("openvino",), whole=True),
    "amanda/stablehlo": Origin(("jaxlib",), pythons=("3.11",), raw="stablehlo.jsonl"),
    "amanda/onnx.released": Origin(
        ("onnx",),
        pythons=("3.6", "3.7", "3.8", "3.9", "3.11"),
        raw="onnx.released.jsonl",
    ),
    "amanda/tensorflow": Origin(
        ("tensorflow-cpu", "tensorflow"), pythons=("3.6", "3.5", "3.9", "3.11")
    ),
    "amanda/tensorflow.contrib": Origin(("tensorflow",), pythons=("3.6", "3.5")),
    "amanda/tflite": Origin(("tensorflow-cpu",)),
    "amanda/torch": Origin(("torch",)),
}


def main(chosen: Sequence[str]) -> None:
    index = json.loads((PACKAGE / "index.json").read_text(encoding="utf-8"))
    rows: dict[str, Any] = index["namespaces"]
    file = PACKAGE / FILE
    found = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    for path in chosen or [path for path in rows if path in ORIGINS]:
        found[path] = dict(_version_files(path, rows[path]))
        print(f"{path}: {len(found[path])} files")
    file.write_text(format_json(found), encoding="utf-8")


def _version_files(
    path: str, row: dict[str, Any]
) -> Iterator[tuple[str, dict[str, str]]]:
    origin = ORIGINS[path]
    if origin.whole:
        release = re.search(r"\d+(?:\.\d+)+", row["source"])
        if release is None:
            raise SystemExit(f"{path}: no release in {row['source']!r}")
        yield "*", _package_file(origin, release[0])
        return
    releases: dict[str, str] = {}
    if origin.raw:
        with (RAW / origin.raw).open(encoding="utf-8") as stream:
            releases = json.loads(stream.readline())["releases"]
    for version in row["versions"]:
        yield version, _package_file(origin, releases.get(version, version))


def _package_file(origin: Origin, version: str) -> dict[str, str]:
    for package in origin.packages:
        if (wheel := wheels(package, origin.pythons).get(version)) is not None:
            return {"file": wheel.filename, "sha256": wheel.sha256}
    raise SystemExit(f"{' and '.join(origin.packages)} have no {version}")


def format_json(found: dict[str, Any]) -> str:
    """JSON with a version on each line, sorted by dictionary."""
    text = json.dumps(dict(sorted(found.items())), indent=2)
    return re.sub(r"\{\n\s+(\"file\".*?),\n\s+(.*?)\n\s+\}", r"{\1, \2}", text) + "\n"


if __name__ == "__main__":
    main(sys.argv[1:])
