"""The extractor of Keras: its layers, with their constructor arguments.

Layers change in minor releases, so each of them is a version.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

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
from amanda_dictionaries_dev.keras.class_sources import LayerSource, read_layers
from amanda_dictionaries_dev.keras.op_definitions import layer_definitions


class KerasExtractor(Extractor):
    header = DictionaryHeader(
        namespace="amanda/keras",
        versions=(),
        source="the sources of the layers in Keras' releases",
    )

    def installed_ops(self) -> InstalledOps:
        found, classes = _read_installed()
        rows = {layer.name: layer.row for layer in classes}
        minor = ".".join(found.split(".")[:2]) + ".0"
        return InstalledOps(
            f"Keras {found}", {minor: list(layer_definitions(rows, _docs(classes)))}
        )

    def extract(self, raw: Path | None) -> ExtractedDictionary | None:
        """From `keras_layers.jsonl`, and `keras_kinds.jsonl` with kinds of arguments.

        Documentation is that of the installed Keras.
        """
        if raw is None:
            return None
        raw_rows = read_raw_data(raw / "keras_layers.jsonl").tables()
        kinds = read_raw_data(raw / "keras_kinds.jsonl").tables()
        versions = tuple(sorted(raw_rows, key=version_key))
        docs = _docs(_read_installed()[1])
        tables: list[tuple[str, dict[str, OpDef]]] = []
        for each in versions:
            rows = {
                name: {**row, "kinds": kinds[each].get(name, {})}
                for name, row in raw_rows[each].items()
            }
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


def _read_installed() -> tuple[str, list[LayerSource]]:
    """The version of the installed Keras, and its layers."""
    with requires_framework("keras", "keras"):
        spec = find_spec("keras")
        if spec is None or not spec.submodule_search_locations:
            raise ImportError("no module named 'keras'")
    folder = Path(spec.submodule_search_locations[0]) / "src" / "layers"
    return version("keras"), list(read_layers(folder))


def _docs(classes: list[LayerSource]) -> dict[str, str]:
    return {layer.name: first_sentence(layer.doc) for layer in classes if layer.doc}
