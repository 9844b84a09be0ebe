"""The opsets of ONNX as they were when they were released.

The current onnx has corrected schemas of old opsets: experimental ops were removed in
1.5, and some schemas were changed without a new version. So a valid old model may be
invalid today. The opsets as released are raw data, from the last release with each as
its newest; up to opset 7 that is onnx 1.2.3, since earlier libraries lack the defaults
of attributes.

The traits `function` and `nondeterministic` are those of the current onnx, since early
releases had fewer, and some wrong ones. An op that first appears later than its own
version states is dated back: 1.4 had MeanVarianceNormalization of opset 9 in a list of
functions, not among its schemas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from amanda.dictionary import (
    OpDef,
    OpHistory,
    argument_docs,
    definition_steps,
    version_key,
)
from amanda_dictionaries_dev import ExtractedDictionary, InstalledOps, read_raw_data
from amanda_dictionaries_dev.onnx.extractor import OnnxExtractor, op_def_of_schema


class ReleasedOpsetsExtractor(OnnxExtractor):
    """The default domain. The installed onnx has the newest opset only."""

    def __init__(self) -> None:
        super().__init__("onnx.released", "", "ai.onnx")
        self.header = replace(self.header, source="the libraries of onnx' releases")

    def installed_ops(self) -> InstalledOps:
        source, versions = super().installed_ops()
        newest = max(versions, key=version_key)
        return InstalledOps(source, {newest: versions[newest]})

    def extract(self, raw: Path | None) -> ExtractedDictionary | None:  # type: ignore[override]
        """From `onnx.released.jsonl`."""
        if raw is None:
            return None
        data = read_raw_data(raw / "onnx.released.jsonl")
        versions = tuple(sorted(data.versions, key=version_key))
        installed = {
            name: {s.since_version: op_def_of_schema(s) for s in schemas}
            for name, schemas in self._schemas()[2].items()
        }
        today = {
            (name, since): op_def.traits & _CURRENT_TRAITS
            for name, op_defs in installed.items()
            for since, op_def in op_defs.items()
        }
        blocks = []
        for name, found in data.ops.items():
            steps: list[tuple[str, OpDef | None]] = []
            for version, row in found:
                op_def = None
                if row is not None:
                    op_def = op_def_of_row(name, row)
                    current = today.get((name, row["since"]), frozenset())
                    traits = (op_def.traits - _CURRENT_TRAITS) | current
                    op_def = replace(op_def, traits=traits)
                    if (name, row["since"]) in today and not _is_defined(steps):
                        version = min(version, str(row["since"]), key=version_key)
                steps.append((version, op_def))
            blocks.append(
                OpHistory(
                    name,
                    _newest_doc(found),
                    definition_steps(steps, always=True),
                    argument_docs(installed.get(name, {}).values()),
                )
            )
        return ExtractedDictionary(replace(self.header, versions=versions), blocks)


_CURRENT_TRAITS = frozenset({"function", "nondeterministic"})


def _is_defined(steps: Sequence[tuple[str, OpDef | None]]) -> bool:
    return bool(steps) and steps[-1][1] is not None


def _newest_doc(steps: Sequence[tuple[str, Any]]) -> str:
    """The documentation line of the newest schema."""
    return next(str(row["doc"]) for _, row in reversed(steps) if row is not None)


def op_def_of_row(name: str, row: Mapping[str, Any]) -> OpDef:
    """Convert a row of raw data to an op definition.

    >>> port = {"name": "x", "type": "T"}
    >>> row = {"since": 6, "inputs": [port], "outputs": [], "attrs": {},
    ...        "types": {"T": ["tensor(float)"]}, "doc": ""}
    >>> print(op_def_of_row("Sink", row))
    Sink(x: T) -> ()  T in {f32}
    """
    schema = SimpleNamespace(
        name=name,
        since_version=row["since"],
        deprecated=row.get("deprecated", False),
        support_level=f".{row.get('support', '').upper()}",
        node_determinism="",
        has_function=False,
        has_context_dependent_function=False,
        type_constraints=[
            SimpleNamespace(type_param_str=variable, allowed_type_strs=allowed)
            for variable, allowed in row["types"].items()
        ],
        inputs=[_port(port) for port in row["inputs"]],
        outputs=[_port(port) for port in row["outputs"]],
        attributes={each: _attr(each, attr) for each, attr in row["attrs"].items()},
        doc=row["doc"],
    )
    return op_def_of_schema(schema)


def _port(row: Mapping[str, Any]) -> SimpleNamespace:
    return SimpleNamespace(
        name=row["name"],
        type_str=row["type"],
        option=f".{row.get('option', 'single').capitalize()}",
        is_homogeneous=row.get("homogeneous", True),
        min_arity=row.get("min", 1),
        description="",
    )


def _attr(name: str, row: Mapping[str, Any]) -> SimpleNamespace:
    from onnx import AttributeProto, helper

    kind = row["type"].upper()
    default = AttributeProto()
    if "default" in row:
        number = getattr(AttributeProto, kind)
        default = helper.make_attribute(name, row["default"], attr_type=number)
    return SimpleNamespace(
        type=f".{kind}",
        required=row["required"],
        default_value=default,
        description="",
    )


RELEASED = ReleasedOpsetsExtractor()
