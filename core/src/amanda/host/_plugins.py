"""The state of each distribution, found without import."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from amanda.host._dist import Distribution
from amanda.host._entry import PluginEntry
from amanda.host._kinds import KINDS
from amanda.host._requires import canonical

# The state of a distribution, given those of its entries: the first that applies.
_GRAVEST: Final = ("broken", "incompatible", "clash", "slow", "loaded", "found")


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """A distribution with plug-ins.

    `state` is that of its worst entry (see `Entry.state`), `clash` if another
    distribution has one of its names, or `off` if AMANDA_PLUGINS excludes it. A probe
    returns `usable`, `slow`, `broken`, `hangs` or `crashes`. `why` has the reason.
    """

    dist: str
    version: str
    entries: tuple[PluginEntry, ...]
    state: str
    why: str = ""
    clashing: tuple[PluginEntry, ...] = ()
    """The entries whose names other distributions have, too."""

    @property
    def settings(self) -> Mapping[str, str]:
        """The environment variables that it reads, with what they mean."""
        return self.entries[0].source.manifest.settings if self.entries else {}


def overview(
    entries: Sequence[PluginEntry],
    off: Iterable[Distribution],
    faulty: Iterable[Distribution],
) -> list[PluginInfo]:
    """The state of each distribution, by name. Imports nothing."""
    of: dict[str, list[PluginEntry]] = {dist.key: [] for dist in faulty}
    sources = {dist.key: dist for dist in faulty}
    claims: dict[tuple[str, str], set[str]] = {}
    for entry in entries:
        of.setdefault(entry.source.key, []).append(entry)
        sources[entry.source.key] = entry.source
        if entry.kind != "hooks":
            claims.setdefault((entry.kind, entry.name), set()).add(entry.dist)
    infos = [_info(sources[key], of[key], claims) for key in of]
    for dist in off:
        parts = tuple(PluginEntry(dist, point) for point in dist.points)
        why = "left out by AMANDA_PLUGINS"
        infos.append(PluginInfo(dist.name, dist.version, parts, "off", why))
    return sorted(infos, key=lambda info: canonical(info.dist))


def _info(
    dist: Distribution,
    entries: list[PluginEntry],
    claims: dict[tuple[str, str], set[str]],
) -> PluginInfo:
    states = {entry.state for entry in entries}
    whys = list(dist.faults)
    if whys:
        states.add("broken")
    for fault in dict.fromkeys(entry.fault for entry in entries if entry.fault):
        named = [title(entry) for entry in entries if entry.fault == fault]
        whys.append(f"{' and '.join(named)}: {fault}" if len(named) < 3 else fault)
    clashing = []
    for entry in entries:
        others = claims.get((entry.kind, entry.name), set()) - {entry.dist}
        if others:
            states.add("clash")
            clashing.append(entry)
            whys.append(f"{title(entry)} is also in {' and '.join(sorted(others))}")
        if entry.state == "slow":
            whys.append(f"{title(entry)} took {entry.seconds:.1f} s to import")
    state = next(state for state in _GRAVEST if state in states)
    why = "; ".join(whys)
    return PluginInfo(
        dist.name, dist.version, tuple(entries), state, why, tuple(clashing)
    )


def title(entry: PluginEntry) -> str:
    """Its label beside the name of its distribution."""
    return f"{KINDS[entry.kind].one} {entry.name!r}"
