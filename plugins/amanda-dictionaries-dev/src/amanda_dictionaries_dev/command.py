"""`amanda namespace`: regenerate dictionaries, and compare them with frameworks."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import click

from amanda.cli import Answer, Table, VerbGroup, show_progress, verb
from amanda.dictionary import INDEX_FILE, DictionaryHistory, parse_name
from amanda.errors import NamespaceError, PluginMissingError
from amanda.host import PluginEntry, default_host
from amanda_dictionaries_dev import (
    Comparison,
    ExtractedDictionary,
    Extractor,
    compare,
    merge_versions,
    save,
)

__all__ = ["command"]


@click.group(
    cls=VerbGroup,
    short_help="regenerate dictionaries, and compare them with frameworks",
)
def command() -> None:
    """Regenerate op dictionaries, and compare them with installed frameworks."""


@verb("regenerate", "regenerate the data file of a dictionary")
@click.argument("name")
@click.option(
    "--raw",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="A folder of raw data, extracted from many releases.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="The output folder; the default is that of the installed dictionary.",
)
def regenerate(name: str, raw: Path | None, output: Path | None) -> Answer:
    """Regenerate the data file of NAME, such as `tensorflow`, and the index.

    Without --raw, op definitions come from the installed framework: of all versions
    where it has them, else of its own version, which is merged into the history.

    Examples:
        amanda namespace regenerate onnx --output folder
    """
    extractor = _load_extractor(_find_entry(name))
    folder = output or _data_folder(extractor.path)
    with show_progress(f"extracting {extractor.path}"):
        extracted = _extract(extractor, raw)
        result = _compare_if_installed(extractor, extracted)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / save(extracted, folder, "" if result is None else result.summary)
    versions = extracted.header.versions
    faults = () if result is None else result.faults
    data = {
        "namespace": extractor.path,
        "file": str(file),
        "versions": list(versions),
        "ops": len(extracted.blocks),
        "source": extracted.header.source,
        "faults": list(faults),
    }
    text = [
        f"{file}: {len(extracted.blocks):,} ops, from {extracted.header.source}",
        f"versions: {len(versions)}, {versions[0]} to {versions[-1]}",
        "compared with: " + (result.summary if result else "nothing installed"),
    ]
    return Answer(data, [*text, *faults], int(bool(faults)))


@verb("check", "compare dictionaries with the installed frameworks")
@click.argument("names", nargs=-1, metavar="[NAME ...]")
def check(names: tuple[str, ...]) -> Answer:
    """Compare dictionaries with the op definitions of the installed frameworks.

    NAME is a dictionary such as `tensorflow`; the default is all of them. A framework
    that is not installed is reported, but is a fault only if NAME was given.

    Examples:
        amanda namespace check onnx
    """
    found: list[Comparison] = []
    absent: list[tuple[str, str]] = []
    for entry in [_find_entry(name) for name in names] or _entries():
        extractor = _load_extractor(entry)
        try:
            with show_progress(f"comparing {extractor.path}"):
                found.append(compare(extractor, _installed_history(extractor.path)))
        except PluginMissingError as error:
            if names:
                raise
            absent.append((extractor.path, error.message))
    return _report(found, absent)


def _report(found: Sequence[Comparison], absent: Sequence[tuple[str, str]]) -> Answer:
    rows = [
        (each.path, each.source, each.compared, len(each.faults), len(each.waived))
        for each in found
    ]
    headings = ("dictionary", "compared with", "entries", "differ", "waived")
    text: list[str | Table] = [Table(headings, rows)] if rows else []
    for each in found:
        text += [f"{each.path}: {line}" for line in each.faults]
        text += [f"{each.path}: waived: {line}" for line in each.waived]
        text += [f"{each.path}: the dictionary has no {v}" for v in each.unknown]
    text += [f"{path}: not compared: {why}" for path, why in absent]
    data = {
        "checks": [_as_json(each) for each in found],
        "absent": [{"namespace": path, "why": why} for path, why in absent],
    }
    is_same = all(each.is_same for each in found) and bool(found)
    return Answer(data, text or ["nothing can be compared here"], int(not is_same))


def _as_json(each: Comparison) -> dict[str, object]:
    return {
        "namespace": each.path,
        "source": each.source,
        "versions": list(each.versions),
        "compared": each.compared,
        "faults": list(each.faults),
        "waived": list(each.waived),
        "unknown": list(each.unknown),
    }


def _extract(extractor: Extractor, raw: Path | None) -> ExtractedDictionary:
    extracted = extractor.extract(raw)
    if extracted is not None:
        return extracted
    if raw is not None:
        raise NamespaceError(
            f"{extractor.path} is not extracted from raw data", hint="omit --raw"
        )
    path = extractor.path
    history = _installed_history(path) if _namespace_entries(path) else None
    return merge_versions(history, extractor, extractor.installed_ops())


def _compare_if_installed(
    extractor: Extractor, extracted: ExtractedDictionary
) -> Comparison | None:
    """The new data compared with the framework; None where that is not installed."""
    try:
        return compare(extractor, DictionaryHistory(extractor.path, extracted.encode))
    except PluginMissingError:
        return None


# -- what is installed -------------------------------------------------------------


def _entries() -> list[PluginEntry]:
    return default_host().entries("extractors")


def _find_entry(name: str) -> PluginEntry:
    return default_host().find("extractors", name.removeprefix("amanda/"))


def _load_extractor(entry: PluginEntry) -> Extractor:
    extractor: Extractor = default_host().load(entry)
    return extractor


def _namespace_entries(path: str) -> list[PluginEntry]:
    """Installed dictionaries of a path; nothing is imported."""
    entries = default_host().entries("namespaces")
    return [entry for entry in entries if parse_name(entry.name).path == path]


def _installed_history(path: str) -> DictionaryHistory:
    for entry in _namespace_entries(path):
        history = default_host().load(entry)
        if isinstance(history, DictionaryHistory):
            return history
    raise NamespaceError(
        f"no dictionary of {path} is installed to compare with",
        hint=f"amanda namespace regenerate {path.removeprefix('amanda/')} -o FOLDER",
    )


def _data_folder(path: str) -> Path:
    """The folder of the installed data: the package that the entry point names."""
    for entry in _namespace_entries(path):
        module = entry.value.partition(":")[0]
        spec = find_spec(module) if module else None  # None if registered in a program
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            if Path(folder, INDEX_FILE).is_file():
                return Path(folder)
    raise NamespaceError(
        f"no dictionary of {path} is installed",
        hint="give the output folder with -o FOLDER",
    )


command.add_command(regenerate)
command.add_command(check)
