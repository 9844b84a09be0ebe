"""The index of entries by name: an immutable value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from importlib.metadata import EntryPoint
from typing import Final, NamedTuple

from amanda.addons import advise_entry
from amanda.errors import PluginClashError, PluginMissingError
from amanda.host._dist import (
    Distribution,
    distributions_of_points,
    installed_distributions,
)
from amanda.host._entry import PluginEntry
from amanda.host._kinds import KINDS
from amanda.host._requires import CORE, canonical

PREFIX: Final = "amanda-"
"""The prefix of distributions with plug-ins, which users may omit."""

_NONE: Final = "none"


class Index(NamedTuple):
    """The entries of a host; registering creates a new index."""

    entries: Mapping[str, tuple[PluginEntry, ...]]
    """By kind; each sorted by name, then distribution."""
    off: tuple[Distribution, ...]
    """The distributions that AMANDA_PLUGINS leaves out."""
    faulty: tuple[Distribution, ...]
    """Distributions with a fault that is not one of an entry."""
    notices: tuple[str, ...]

    def by_name(self, kind: str, name: str) -> tuple[PluginEntry, ...]:
        return tuple(entry for entry in self.entries[kind] if entry.name == name)

    def claiming(self, kind: str, name: str) -> tuple[PluginEntry, ...]:
        """The entries of this name; if there are none, those of `dist:name`."""
        found = self.by_name(kind, name)
        if found or ":" not in name:
            return found
        dist, _, rest = name.partition(":")
        key = canonical(dist)
        return tuple(e for e in self.by_name(kind, rest) if e.source.key == key)

    def choose(self, kind: str, name: str) -> PluginEntry:
        """The single entry of this name, which may be `dist:name`."""
        found = self.claiming(kind, name)
        if not found:
            raise self._missing(kind, name)
        if len(found) > 1:
            raise _clash(kind, name, found)
        return found[0]

    def _missing(self, kind: str, name: str) -> PluginMissingError:
        names = sorted({entry.name for entry in self.entries[kind]})
        one = KINDS[kind].one
        return PluginMissingError(
            f"no {one} {name!r} is installed",
            expected=f"one of {', '.join(names)}" if names else None,
            hint=self._instead(kind, name, names),
        )

    def _instead(self, kind: str, name: str, names: list[str]) -> str:
        for dist in self.off:
            if any((p.kind, p.name) == (kind, name) for p in dist.points):
                return f"{dist.name} has it, but AMANDA_PLUGINS leaves it out"
        near = get_close_matches(name, names, n=1)
        if near:
            return f"did you mean {near[0]!r}?"
        others = [KINDS[k].one for k in KINDS if k != kind and self.by_name(k, name)]
        if others:
            return f"{name!r} is installed as a {' and a '.join(others)} only"
        return advise_entry(kind, name) or "`amanda plugins` lists what is installed"


def _clash(kind: str, name: str, found: Iterable[PluginEntry]) -> PluginClashError:
    dists = sorted({entry.dist for entry in found})
    choices = " or ".join(f"{dist}:{name}" for dist in dists)
    claim = " and ".join(dists) if len(dists) > 1 else f"{dists[0]}, twice"
    return PluginClashError(
        f"{KINDS[kind].one} {name!r} is claimed by {claim}",
        hint=f"choose {choices}" if len(dists) > 1 else f"report this to {dists[0]}",
    )


def discover(points: Iterable[EntryPoint] | None, only: str | None) -> Index:
    """Index what is installed, or `points`, limited by `only`."""
    dists = list(
        installed_distributions() if points is None else distributions_of_points(points)
    )
    dists = [dist for dist in dists if dist.points or dist.faults]
    chosen, notices = _select_distributions(dists, only)
    faulty = tuple(dist for dist in chosen if dist.faults)
    entries = [PluginEntry(dist, point) for dist in chosen for point in dist.points]
    off = tuple(dist for dist in dists if dist not in chosen)
    return Index(by_kind(entries), off, faulty, notices)


def by_kind(entries: Iterable[PluginEntry]) -> Mapping[str, tuple[PluginEntry, ...]]:
    sorts: dict[str, list[PluginEntry]] = {kind: [] for kind in KINDS}
    for entry in sorted(entries, key=lambda entry: (entry.name, entry.source.key)):
        sorts[entry.kind].append(entry)
    return {kind: tuple(found) for kind, found in sorts.items()}


def _select_distributions(
    dists: list[Distribution], only: str | None
) -> tuple[list[Distribution], tuple[str, ...]]:
    """The distributions that AMANDA_PLUGINS names, and notices of unknown names."""
    if not only or not only.strip():
        return dists, ()
    names = {canonical(part.strip()): part.strip() for part in only.split(",")}
    names = {key: name for key, name in names.items() if key not in ("", _NONE)}
    keys = {dist.key for dist in dists}
    wanted = {key if key in keys else PREFIX + key: name for key, name in names.items()}
    known = ", ".join(sorted(key.removeprefix(PREFIX) for key in keys - {CORE}))
    notices = [
        f"AMANDA_PLUGINS names {name!r}, which is no installed plug-in; "
        f"there are: {known or 'none'}"
        for key, name in wanted.items()
        if key not in keys
    ]
    return [dist for dist in dists if dist.key in {*wanted, CORE}], tuple(notices)
