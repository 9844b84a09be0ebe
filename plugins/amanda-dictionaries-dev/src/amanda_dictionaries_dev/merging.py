"""Merge the ops of an installed framework into a dictionary history."""

from __future__ import annotations

from dataclasses import replace

from amanda.dictionary import (
    GONE,
    DictionaryHistory,
    OpDef,
    OpHistory,
    argument_docs,
    definition_text,
    version_key,
)
from amanda_dictionaries_dev.extractor import (
    ExtractedDictionary,
    Extractor,
    InstalledOps,
    definitions_by_name,
)

__all__ = ["merge_versions"]


def merge_versions(
    history: DictionaryHistory | None, extractor: Extractor, installed: InstalledOps
) -> ExtractedDictionary:
    """Add the installed versions to a history, or replace them there.

    Waived ops keep their definitions. The documentation of an op is that of the newest
    version. `history` is None where there is none yet.
    """
    known = () if history is None else history.versions()
    versions = tuple(sorted({*known, *installed.versions}, key=version_key))
    found = {
        version: {
            name: definition
            for name, definition in definitions_by_name(
                extractor.path, version, definitions
            ).items()
            if name not in extractor.waivers
        }
        for version, definitions in installed.versions.items()
    }
    docs = {n: d.doc for v in versions for n, d in found.get(v, {}).items()}
    blocks = []
    for name in sorted({*docs, *(() if history is None else history.names)}):
        steps = _merge_steps(history, name, versions, found, extractor)
        record = None if history is None else history.record(name)
        before = "" if record is None else record.block.doc
        now = docs.get(name, "")
        if steps:
            doc = now or before if versions[-1] in found else before or now
            newest = argument_docs(
                found[v][name] for v in versions if name in found.get(v, {})
            )
            older = {} if record is None else dict(record.block.docs)
            blocks.append(OpHistory(name, doc, steps, {**older, **newest}))
    source = extractor.header.source or installed.source
    header = replace(extractor.header, versions=versions, source=source)
    return ExtractedDictionary(header, blocks)


def _merge_steps(
    history: DictionaryHistory | None,
    name: str,
    versions: tuple[str, ...],
    found: dict[str, dict[str, OpDef]],
    extractor: Extractor,
) -> tuple[tuple[str, str], ...]:
    """The changes of one op over all versions."""
    known = () if history is None else history.versions()
    steps: list[tuple[str, str]] = []
    for version in versions:
        text = _known_definition(history, name, version)
        if name in extractor.waivers and version not in known and steps:
            text = steps[-1][1]
        elif version in found and name not in extractor.waivers:
            definition = found[version].get(name)
            text = GONE if definition is None else definition_text(definition)
        if text != (steps[-1][1] if steps else GONE):
            steps.append((version, text))
    return tuple(steps)


def _known_definition(
    history: DictionaryHistory | None, name: str, version: str
) -> str:
    """The definition text of an op in a history; `GONE` where it has none."""
    record = None if history is None else history.record(name)
    if history is None or record is None or version not in history.order:
        return GONE
    step = record.step(history.order[version])
    return GONE if step is None else record.block.steps[step][1]
