"""Verbs of plug-ins, listed without the host where possible.

`amanda --help` lists the verbs of plug-ins, and importing the host would dominate its
time. So this module scans the entry point files for names in one group. It falls back
to the host if there are settings, registered verbs, or folders that it cannot read.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import click

__all__ = ["PluginVerb", "load_plugin_verb", "list_plugin_verbs"]

GROUP = "amanda.commands"
INFO = (".dist-info", ".egg-info")


class PluginVerb(NamedTuple):
    """A verb, with its distribution and version."""

    name: str
    source: str


def list_plugin_verbs() -> list[PluginVerb]:
    """The verbs of plug-ins, by name. None of them is imported."""
    if "amanda.host" not in sys.modules and "AMANDA_PLUGINS" not in os.environ:
        try:
            return sorted(_declared_verbs())
        except OSError:  # an archive, or a folder that only the import system can read
            pass
    from amanda.host import default_host

    entries = default_host().entries("commands")
    return sorted(PluginVerb(entry.name, entry.source_text) for entry in entries)


def load_plugin_verb(name: str) -> click.Command:
    """Import the verb of this name; errors name its plug-in."""
    import click

    from amanda.errors import PluginBrokenError
    from amanda.host import default_host

    entry = default_host().find("commands", name)
    found = default_host().load(entry)
    if isinstance(found, click.Command):
        return found
    raise PluginBrokenError(
        f"{entry.what} cannot be used",
        expected="a click.Command, such as amanda.cli.verb makes",
        got=type(found).__name__,
        hint=f"report this to the authors of {entry.dist}",
    )


def _declared_verbs() -> Iterator[PluginVerb]:
    """The verbs of distributions on the import path; the first of duplicates."""
    seen = set()
    for place in sys.path:
        for folder in _metadata_folders(place or "."):
            stem = os.path.splitext(os.path.basename(folder))[0]
            dist, _, version = stem.partition("-")
            if dist in seen:
                continue
            seen.add(dist)
            source = f"{dist.replace('_', '-')} {version}".rstrip()
            yield from (PluginVerb(name, source) for name in _verb_names(folder))


def _metadata_folders(place: str) -> list[str]:
    try:
        with os.scandir(place) as found:
            return [entry.path for entry in found if entry.name.endswith(INFO)]
    except FileNotFoundError:
        return []


def _verb_names(folder: str) -> Iterator[str]:
    """The names in the group; invalid lines are left to the host."""
    try:
        with open(os.path.join(folder, "entry_points.txt"), encoding="utf-8") as file:
            text = file.read()
    except (FileNotFoundError, NotADirectoryError, UnicodeDecodeError):
        return
    if GROUP not in text:
        return
    group = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            group = line.strip("[] ")
        elif group == GROUP and "=" in line and not line.startswith(("#", ";")):
            yield line.partition("=")[0].strip()
