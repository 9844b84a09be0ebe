"""`amanda namespace`: dictionaries made anew, and compared with the frameworks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from amanda.cli.group import VerbGroup, verb
from amanda.cli.output.answer import Answer, Table
from amanda.cli.output.terminal import working
from amanda.errors import NamespaceError, PluginMissingError

if TYPE_CHECKING:
    from amanda.dictionary import History
    from amanda.dictionary.generating import Check, Generator, Made
    from amanda.host import Entry

__all__ = ["command"]


@click.group(
    cls=VerbGroup,
    short_help="make dictionaries anew, and compare them with the frameworks",
)
def command() -> None:
    """Make dictionaries anew, and compare them with the frameworks."""


@verb("regenerate", "make the data file of a vocabulary anew")
@click.argument("name")
@click.option(
    "--raw",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="A folder of data extracted from many releases.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder to write to; that of the data in use, unless told.",
)
def regenerate(name: str, raw: Path | None, output: Path | None) -> Answer:
    """Make the data file of NAME, such as `tensorflow`, and list it in the index.

    Without --raw the framework that is installed is asked: for all versions where it
    knows them, else for its own, which is put into the history that there is.
    """
    from amanda.dictionary.generating import save

    generator = _generator(_entry(name))
    folder = output or _folder(generator.path)
    with working(f"making {generator.path}"):
        made = _made(generator, raw)
        result = _compared(generator, made)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / save(made, folder, "" if result is None else result.told)
    versions = made.header.versions
    faults = () if result is None else result.faults
    data = {
        "namespace": generator.path,
        "file": str(file),
        "versions": list(versions),
        "ops": len(made.blocks),
        "source": made.header.source,
        "faults": list(faults),
    }
    text = [
        f"{file}: {len(made.blocks):,} ops, from {made.header.source}",
        f"versions: {len(versions)}, {versions[0]} to {versions[-1]}",
        "compared with: " + (result.told if result else "nothing that is installed"),
    ]
    return Answer(data, [*text, *faults], int(bool(faults)))


@verb("check", "compare dictionaries with the frameworks that are installed")
@click.argument("names", nargs=-1, metavar="[NAME ...]")
def check(names: tuple[str, ...]) -> Answer:
    """Ask each framework that is installed what it has, and compare the data with it.

    NAME is a vocabulary such as `tensorflow`; without one, all. A framework that is not
    installed is told of, and is no fault unless its vocabulary was named.
    """
    from amanda.dictionary.generating import checked

    found: list[Check] = []
    absent: list[tuple[str, str]] = []
    for entry in [_entry(name) for name in names] or _entries():
        generator = _generator(entry)
        try:
            with working(f"comparing {generator.path}"):
                found.append(checked(generator, _data(generator.path)))
        except PluginMissingError as error:
            if names:
                raise
            absent.append((generator.path, error.message))
    return _told(found, absent)


def _told(found: Sequence[Check], absent: Sequence[tuple[str, str]]) -> Answer:
    rows = [
        (each.path, each.source, each.compared, len(each.faults), len(each.waived))
        for each in found
    ]
    headings = ("vocabulary", "compared with", "entries", "differ", "waived")
    text: list[str | Table] = [Table(headings, rows)] if rows else []
    for each in found:
        text += [f"{each.path}: {line}" for line in each.faults]
        text += [f"{each.path}: waived: {line}" for line in each.waived]
        text += [f"{each.path}: the data has no {v}" for v in each.unknown]
    text += [f"{path}: not compared: {why}" for path, why in absent]
    data = {
        "checks": [
            {
                "namespace": each.path,
                "source": each.source,
                "versions": list(each.versions),
                "compared": each.compared,
                "faults": list(each.faults),
                "waived": list(each.waived),
                "unknown": list(each.unknown),
            }
            for each in found
        ],
        "absent": [{"namespace": path, "why": why} for path, why in absent],
    }
    well = all(each.is_same for each in found) and bool(found)
    return Answer(data, text or ["nothing can be compared here"], int(not well))


def _made(generator: Generator, raw: Path | None) -> Made:
    from amanda.dictionary.generating import merged

    made = generator.made(raw)
    if made is not None:
        return made
    if raw is not None:
        raise NamespaceError(
            f"{generator.path} is not made from raw data", hint="leave out --raw"
        )
    before = _data(generator.path) if _offers(generator.path) else None
    return merged(before, generator, generator.live())


def _compared(generator: Generator, made: Made) -> Check | None:
    """What was made beside the installed framework; None where none is."""
    from amanda.dictionary import History
    from amanda.dictionary.generating import checked

    try:
        return checked(generator, History(generator.path, made.packed))
    except PluginMissingError:
        return None


# -- what is installed -------------------------------------------------------------


def _entries() -> list[Entry]:
    from amanda.host import default_host

    return default_host().entries("vocabularies")


def _entry(name: str) -> Entry:
    from amanda.host import default_host

    return default_host().find("vocabularies", name.removeprefix("amanda/"))


def _generator(entry: Entry) -> Generator:
    from amanda.host import default_host

    found: Generator = default_host().load(entry)
    return found


def _offers(path: str) -> list[Entry]:
    """What is installed under the path of a vocabulary; nothing is imported."""
    from amanda.dictionary import parse_name
    from amanda.host import default_host

    entries = default_host().entries("namespaces")
    return [entry for entry in entries if parse_name(entry.name).path == path]


def _data(path: str) -> History:
    """The data in use."""
    from amanda.dictionary import History
    from amanda.host import default_host

    for entry in _offers(path):
        found = default_host().load(entry)
        if isinstance(found, History):
            return found
    raise NamespaceError(
        f"there is no data of {path} to compare with",
        hint=f"amanda namespace regenerate {path.removeprefix('amanda/')} -o FOLDER",
    )


def _folder(path: str) -> Path:
    """Where the data in use stands: the package that its entry point names."""
    from importlib.util import find_spec

    from amanda.dictionary.shelf import INDEX

    for entry in _offers(path):
        module = entry.value.partition(":")[0]
        spec = find_spec(module) if module else None  # none where a program gave it
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            if Path(folder, INDEX).is_file():
                return Path(folder)
    raise NamespaceError(
        f"nothing that is installed has data of {path}",
        hint="name the folder to write to with -o FOLDER",
    )


command.add_command(regenerate)
command.add_command(check)
