"""The extractor of Keras: layers and operations, with their constructor arguments.

Layers change in minor releases, so each of them is a version.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import version
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
    first_sentence,
    read_raw_data,
    requires_framework,
)
from amanda_dictionaries_dev.keras.class_sources import (
    LayerSource,
    read_layers,
    read_operations,
)
from amanda_dictionaries_dev.keras.op_definitions import layer_definitions


class KerasExtractor(Extractor):
    header = DictionaryHeader(
        namespace="amanda/keras",
        versions=(),
        source="the sources of layers and operations in Keras' releases",
        hints=("keras:", "call", "variables"),  # of amanda-keras
    )

    def installed_ops(self) -> InstalledOps:
        found, classes, operations = _read_installed()
        rows = {layer.name: layer.row for layer in classes} | operations
        minor = ".".join(found.split(".")[:2]) + ".0"
        return InstalledOps(
            f"Keras {found}", {minor: list(layer_definitions(rows, _docs(classes)))}
        )

    def extract(self, raw: Path | None) -> ExtractedDictionary | None:
        """From `keras_layers.jsonl`, `keras_kinds.jsonl` with kinds of arguments, and
        `keras_operations.jsonl`.

        Documentation is that of the installed Keras.
        """
        if raw is None:
            return None
        raw_rows = read_raw_data(raw / "keras_layers.jsonl").tables()
        kinds = read_raw_data(raw / "keras_kinds.jsonl").tables()
        operations = read_raw_data(raw / "keras_operations.jsonl").tables()
        versions = tuple(sorted(raw_rows, key=version_key))
        docs = _docs(_read_installed()[1])
        tables: list[tuple[str, dict[str, OpDef]]] = []
        for each in versions:
            rows = {
                name: {**row, "kinds": kinds[each].get(name, {})}
                for name, row in raw_rows[each].items()
            } | dict(operations.get(each, {}))
            tables.append(
                (each, {each.name: each for each in layer_definitions(rows, {})})
            )
        names = sorted({name for _, table in tables for name in table})
        blocks = [
            OpHistory(
                name,
                docs.get(name, ""),
                definition_steps((v, table.get(name)) for v, table in tables),
            )
            for name in names
        ]
        return ExtractedDictionary(replace(self.header, versions=versions), blocks)


def _read_installed() -> tuple[str, list[LayerSource], dict[str, Any]]:
    """The version of the installed Keras, its layers, and rows of its operations."""
    with requires_framework("keras", "keras"):
        spec = find_spec("keras")
        if spec is None or not spec.submodule_search_locations:
            raise ImportError("no module named 'keras'")
    folder = Path(spec.submodule_search_locations[0]) / "src"
    files = sorted((folder / "ops").glob("*.py"))
    sources = [f.read_text("utf-8") for f in files if not f.stem.endswith("_test")]
    return (
        version("keras"),
        list(read_layers(folder / "layers")),
        read_operations(sources),
    )


def _docs(classes: list[LayerSource]) -> dict[str, str]:
    return {layer.name: first_sentence(layer.doc) for layer in classes if layer.doc}
