"""The opsets of ONNX as the releases that brought them had them.

onnx says of an old opset what it holds true today: experimental ops are gone since 1.5,
and some schemas were changed afterwards, without a number of their own. A model may
have been right when it was made, though. What an opset was then is raw data, taken from
the last release that ended with it; up to opset 7 that is onnx 1.2.3, since libraries
before it do not tell the defaults of attributes.

What onnx says beside its schemas, that an op draws random numbers or is a function of
other ops, is as it says it today: then it said less, and of some ops wrong things.
Where an op comes later than it says itself, it is believed: 1.4 had
MeanVarianceNormalization of opset 9 in a list of functions, not among its schemas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from amanda.dictionary import OpDef, OpHistory, definition_steps, version_key
from amanda_dictionaries_dev import ExtractedDictionary, InstalledOps, read_raw_data
from amanda_dictionaries_dev.onnx.extractor import OnnxExtractor, entry_of


class ReleasedOpsetsExtractor(OnnxExtractor):
    """The default domain. The installed onnx knows what its own newest opset is."""

    def __init__(self) -> None:
        super().__init__("onnx.released", "", "ai.onnx")
        self.header = replace(self.header, source="the libraries of onnx' releases")

    def installed(self) -> InstalledOps:
        source, versions = super().installed()
        newest = max(versions, key=version_key)
        return InstalledOps(source, {newest: versions[newest]})

    def extract(self, raw: Path | None) -> ExtractedDictionary | None:  # type: ignore[override]
        """From `onnx.released.jsonl`."""
        if raw is None:
            return None
        data = read_raw_data(raw / "onnx.released.jsonl")
        versions = tuple(sorted(data.versions, key=version_key))
        today = {
            (name, schema.since_version): entry_of(schema).traits & _SAID_BESIDE
            for name, schemas in self._asked()[2].items()
            for schema in schemas
        }
        blocks = []
        for name, found in data.ops.items():
            steps: list[tuple[str, OpDef | None]] = []
            for version, row in found:
                entry = None
                if row is not None:
                    entry = entry_of_row(name, row)
                    beside = today.get((name, row["since"]), frozenset())
                    traits = (entry.traits - _SAID_BESIDE) | beside
                    entry = replace(entry, traits=traits)
                    if (name, row["since"]) in today and not _is_there(steps):
                        version = min(version, str(row["since"]), key=version_key)
                steps.append((version, entry))
            blocks.append(
                OpHistory(name, _doc(found), definition_steps(steps, always=True))
            )
        return ExtractedDictionary(replace(self.header, versions=versions), blocks)


_SAID_BESIDE = frozenset({"function", "nondeterministic"})


def _is_there(steps: Sequence[tuple[str, OpDef | None]]) -> bool:
    return bool(steps) and steps[-1][1] is not None


def _doc(steps: Sequence[tuple[str, Any]]) -> str:
    """The line about an op: that of its newest schema."""
    return next(str(row["doc"]) for _, row in reversed(steps) if row is not None)


def entry_of_row(name: str, row: Mapping[str, Any]) -> OpDef:
    """A row of raw data as an entry.

    >>> port = {"name": "x", "type": "T"}
    >>> row = {"since": 6, "inputs": [port], "outputs": [], "attrs": {},
    ...        "types": {"T": ["tensor(float)"]}, "doc": ""}
    >>> print(entry_of_row("Sink", row))
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
    return entry_of(schema)


def _port(row: Mapping[str, Any]) -> SimpleNamespace:
    return SimpleNamespace(
        name=row["name"],
        type_str=row["type"],
        option=f".{row.get('option', 'single').capitalize()}",
        is_homogeneous=row.get("homogeneous", True),
        min_arity=row.get("min", 1),
    )


def _attr(name: str, row: Mapping[str, Any]) -> SimpleNamespace:
    from onnx import AttributeProto, helper

    kind = row["type"].upper()
    default = AttributeProto()
    if "default" in row:
        number = getattr(AttributeProto, kind)
        default = helper.make_attribute(name, row["default"], attr_type=number)
    return SimpleNamespace(
        type=f".{kind}", required=row["required"], default_value=default
    )


RELEASED = ReleasedOpsetsExtractor()
