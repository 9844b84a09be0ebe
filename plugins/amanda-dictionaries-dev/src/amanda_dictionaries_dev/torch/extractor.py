"""The dictionary of PyTorch: the operators of aten, and those that take functions.

A version is what the registry of an installed PyTorch has. The others come from raw
data: declarations in the packages of the releases and, in 1.0, 1.1 and 1.4, schemas
among the strings of their libraries.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
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
from amanda_dictionaries_dev.torch import higher_order, registry
from amanda_dictionaries_dev.torch.schemas import (
    called,
    entry_of,
    family,
    seeded_families,
)

_CELLS = "a cell of quantized RNNs, registered beside the declarations of aten"
# Quotes in quotes, which the raw data has not read as the registry does.
_REREAD: Mapping[str, Any] = {
    "aten::_test_string_default": {
        "args": [
            {"name": "dummy", "type": "Tensor"},
            {"name": "a", "type": "str", "default": "\"'\\"},
            {"name": "b", "type": "str", "default": "\"'\\"},
        ],
        "returns": [{"type": "Tensor"}],
    }
}

_ELSEWHERE = (".. ", "See ", "In-place version", "Alias for")  # no text of its own
_ROLE = re.compile(r":[a-z]+:`~?([^`]*)`")

Table = Mapping[str, Mapping[str, Any]]


class TorchExtractor(Extractor):
    header = DictionaryHeader(
        namespace="amanda/torch",
        versions=(),
        source="the declarations in PyTorch's releases",
        overload=".",
    )
    waivers = MappingProxyType(
        {
            "aten.get_gradients.default": "distributed autograd registers it beside "
            "the declarations of aten",
            **{
                f"aten.quantized_{kind}.{form}": _CELLS
                for kind in ("gru", "lstm")
                for form in ("data", "data_legacy", "input", "input_legacy")
            },
        }
    )

    def installed(self) -> InstalledOps:
        version, rows, functions, docs = _asked()
        seeded = seeded_families(rows)
        entries = [
            replace(entry, doc=docs.get(_function(name), ""))
            for name, row in rows.items()
            for entry in [_entry(name, row, seeded)]
        ]
        entries += [higher_order.entry_of(name) for name in functions]
        return InstalledOps(f"PyTorch {version}", {version: entries})

    def extract(self, raw: Path | None) -> ExtractedDictionary | None:
        """From `pytorch_aten.jsonl`, and what is before 1.7 from a file beside it.

        Lines about ops are those of the installed one.
        """
        if raw is None:
            return None
        files = (f"pytorch_aten{part}.jsonl" for part in ("", ".more"))
        tables = _tables(read_raw_data(*(raw / file for file in files)).tables())
        versions = tuple(sorted(tables, key=version_key))
        docs = _asked()[-1]
        blocks = blocks_of_versions([(v, tables[v]) for v in versions], docs)
        return ExtractedDictionary(replace(self.header, versions=versions), blocks)


def blocks_of_versions(
    versions: list[tuple[str, dict[str, OpDef]]], docs: Mapping[str, str]
) -> list[OpHistory]:
    """The history of all versions, of what each has."""
    names = sorted({name for _, entries in versions for name in entries})
    return [
        OpHistory(
            name,
            docs.get(name.split(".")[1], ""),
            definition_steps(
                (version, entries.get(name)) for version, entries in versions
            ),
        )
        for name in names
    ]


def _tables(raw: Mapping[str, Table]) -> dict[str, dict[str, OpDef]]:
    """Every entry of every version. A row that lasts is made an entry once."""
    every = {(n, id(row)): row for table in raw.values() for n, row in table.items()}
    seeded: set[str] = set()
    for (name, _), row in every.items():
        seeded |= seeded_families({name: row})
    made = {key: _entry(key[0], row, seeded) for key, row in every.items()}
    tables = {}
    for version, rows in raw.items():
        found = [made[name, id(row)] for name, row in rows.items()]
        found += higher_order.entries(version)
        tables[version] = {entry.name: entry for entry in found}
    return tables


def _entry(name: str, row: Mapping[str, Any], seeded: set[str]) -> OpDef:
    """`name` as the registry has it, or as exported programs do."""
    row = _REREAD.get(name, row)
    name = name if "::" not in name else called(name)
    space, base, *_ = name.split(".")
    return entry_of(name, row, seeded=family(f"{space}::{base}") in seeded)


def _function(name: str) -> str:
    """
    >>> _function("aten::add.Tensor")
    'add'
    """
    return name.partition("::")[2].partition(".")[0]


@cache
def _asked() -> tuple[str, Table, list[str], dict[str, str]]:
    """The installed PyTorch: version, schemas, ops that take functions, lines."""
    with requires_framework("torch", "torch"):
        import torch
    version = torch.__version__.partition("+")[0]
    rows = registry.rows()
    texts = registry.texts({_function(name) for name in rows})
    docs = {name: line_of(text) for name, text in texts.items()}
    docs = {name: line for name, line in docs.items() if line}
    return version, rows, sorted(registry.higher_order()), docs


def line_of(text: str) -> str:
    """The first sentence of a text that begins with how a function is called.

    >>> line_of("abs(input) -> Tensor\\n\\nThe absolute value of :attr:`input`.")
    'The absolute value of input.'
    """
    for part in text.strip().split("\n\n"):
        first = part.strip().partition("\n")[0]
        if first and "->" not in first and not first.startswith(_ELSEWHERE):
            line = first_sentence(_ROLE.sub(r"\1", part))
            return "" if "\\" in line else line  # formulas are for a browser
    return ""
