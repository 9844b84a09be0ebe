"""The extractor of PyTorch: the operators of aten, and higher-order operators.

The installed version comes from the operator registry. The others come from raw data:
declarations in the packages of the releases and, in 1.0, 1.1 and 1.4, schemas among the
strings of their libraries.
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
from amanda_dictionaries_dev.torch import exported_ops, higher_order, registry
from amanda_dictionaries_dev.torch.quantized_ops import op_defs_of_quantization
from amanda_dictionaries_dev.torch.schemas import (
    op_def_of_row,
    op_family,
    overload_name,
    seeded_families,
)

_CELLS = "a cell of quantized RNNs, registered beside the declarations of aten"
# Nested quotes, which raw data has parsed differently from the registry.
_CORRECTIONS: Mapping[str, Any] = {
    "aten::_test_string_default": {
        "args": [
            {"name": "dummy", "type": "Tensor"},
            {"name": "a", "type": "str", "default": "\"'\\"},
            {"name": "b", "type": "str", "default": "\"'\\"},
        ],
        "returns": [{"type": "Tensor"}],
    }
}

_ELSEWHERE = (
    ".. ",
    "See ",
    "In-place version",
    "Alias for",
)  # no documentation of its own
_ROLE = re.compile(r":[a-z]+:`~?([^`]*)`")

Table = Mapping[str, Mapping[str, Any]]


class TorchExtractor(Extractor):
    header = DictionaryHeader(
        namespace="amanda/torch",
        versions=(),
        source="the declarations in PyTorch's releases",
        overload=".",
        hints=("torch:",),
        named_inputs=True,
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

    def installed_ops(self) -> InstalledOps:
        version, rows, functions, docs = _query_installed()
        seeded = seeded_families(rows)
        op_defs = [
            replace(op_def, doc=docs.get(_function_name(name), ""))
            for name, row in rows.items()
            for op_def in [_op_def(name, row, seeded)]
        ]
        op_defs += [higher_order.op_def_of_name(name) for name in functions]
        op_defs += exported_ops.op_defs_of_exports(version)
        op_defs += op_defs_of_quantization(version)
        return InstalledOps(f"PyTorch {version}", {version: op_defs})

    def extract(self, raw: Path | None) -> ExtractedDictionary | None:
        """From `pytorch_aten.jsonl`, and `pytorch_aten.more.jsonl` before 1.7.

        Documentation is that of the installed PyTorch.
        """
        if raw is None:
            return None
        files = (f"pytorch_aten{part}.jsonl" for part in ("", ".more"))
        tables = _definition_tables(
            read_raw_data(*(raw / file for file in files)).tables()
        )
        versions = tuple(sorted(tables, key=version_key))
        docs = _query_installed()[-1]
        blocks = histories_of_versions([(v, tables[v]) for v in versions], docs)
        return ExtractedDictionary(replace(self.header, versions=versions), blocks)


def histories_of_versions(
    versions: list[tuple[str, dict[str, OpDef]]], docs: Mapping[str, str]
) -> list[OpHistory]:
    """The op histories of all versions, from the definitions of each."""
    names = sorted({name for _, table in versions for name in table})
    return [
        OpHistory(
            name,
            docs.get(name.split(".")[1], "") if "." in name else "",
            definition_steps((version, table.get(name)) for version, table in versions),
        )
        for name in names
    ]


def _definition_tables(raw: Mapping[str, Table]) -> dict[str, dict[str, OpDef]]:
    """Definitions of every version; a row shared by versions is converted once."""
    every = {(n, id(row)): row for table in raw.values() for n, row in table.items()}
    seeded: set[str] = set()
    for (name, _), row in every.items():
        seeded |= seeded_families({name: row})
    made = {key: _op_def(key[0], row, seeded) for key, row in every.items()}
    tables = {}
    for version, rows in raw.items():
        found = [made[name, id(row)] for name, row in rows.items()]
        found += higher_order.op_defs_of_version(version)
        found += exported_ops.op_defs_of_exports(version)
        found += op_defs_of_quantization(version)
        tables[version] = {op_def.name: op_def for op_def in found}
    return tables


def _op_def(name: str, row: Mapping[str, Any], seeded: set[str]) -> OpDef:
    """Convert a row; `name` is that of the registry, or of exported programs."""
    row = _CORRECTIONS.get(name, row)
    name = name if "::" not in name else overload_name(name)
    space, base, *_ = name.split(".")
    return op_def_of_row(name, row, seeded=op_family(f"{space}::{base}") in seeded)


def _function_name(name: str) -> str:
    """
    >>> _function_name("aten::add.Tensor")
    'add'
    """
    return name.partition("::")[2].partition(".")[0]


@cache
def _query_installed() -> tuple[str, Table, list[str], dict[str, str]]:
    """The installed PyTorch: version, schemas, higher-order operators, docs."""
    with requires_framework("torch", "torch"):
        import torch
    version = torch.__version__.partition("+")[0]
    rows = registry.read_schemas()
    texts = registry.read_docs({_function_name(name) for name in rows})
    docs = {name: doc_line(text) for name, text in texts.items()}
    docs = {name: line for name, line in docs.items() if line}
    return version, rows, sorted(registry.list_higher_order_ops()), docs


def doc_line(text: str) -> str:
    """The first sentence of a docstring, after the call signature.

    >>> doc_line("abs(input) -> Tensor\\n\\nThe absolute value of :attr:`input`.")
    'The absolute value of input.'
    """
    for part in text.strip().split("\n\n"):
        first = part.strip().partition("\n")[0]
        if first and "->" not in first and not first.startswith(_ELSEWHERE):
            line = first_sentence(_ROLE.sub(r"\1", part))
            return "" if "\\" in line else line  # LaTeX formulas
    return ""
