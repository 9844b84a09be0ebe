"""Known plug-ins that are not a part of the core, for advice on what to install.

`addons.json` lists their entry points; `tools/addon_table.py` writes it from the
distributions of the repository. Nothing else reads it: what is installed is found by
its metadata.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

__all__ = [
    "Addon",
    "addon_hint",
    "advise_dictionary",
    "advise_entry",
    "advise_route",
    "advise_suffix",
    "known_addons",
]


class Addon(NamedTuple):
    """An entry point of a known plug-in; the fields after `name` are optional."""

    dist: str
    kind: str
    name: str
    suffixes: tuple[str, ...] = ()
    source: str = ""
    target: str = ""
    both: bool = False
    """Whether a mapping runs in both directions."""
    transit: bool = True
    """Whether a route may go on from the target of a mapping."""


@cache
def known_addons() -> tuple[Addon, ...]:
    """Every entry point in `addons.json`."""
    import json
    from importlib.resources import files

    text = files("amanda").joinpath("addons.json").read_text(encoding="utf-8")
    return tuple(
        Addon(**{**row, "suffixes": tuple(row.get("suffixes", ()))})
        for row in json.loads(text)
    )


def addon_hint(dists: Iterable[str]) -> str | None:
    """The command that installs those of these distributions that are missing."""
    missing = [dist for dist in dict.fromkeys(dists) if not _is_installed(dist)]
    return f"pip install {' '.join(missing)}" if missing else None


def advise_entry(kind: str, name: str) -> str | None:
    """What to install for an entry of this kind and name."""
    rows = known_addons()
    return addon_hint([r.dist for r in rows if (r.kind, r.name) == (kind, name)][:1])


def advise_suffix(file_name: str) -> str | None:
    """What to install for files with this suffix."""
    rows = (row for row in known_addons() if file_name.lower().endswith(row.suffixes))
    return addon_hint([row.dist for row in rows][:1])


def advise_dictionary(path: str) -> str | None:
    """What to install for the dictionary of a namespace."""
    names = {path, path.removeprefix("amanda/")}
    rows = [r for r in known_addons() if r.kind == "namespaces" and r.name in names]
    return addon_hint([row.dist for row in rows][:1])


def advise_route(start: str, goal: str) -> str | None:
    """What to install for a conversion between two frameworks, by their paths."""
    return addon_hint(row.dist for row in _shortest_route(start, goal))


def _shortest_route(start: str, goal: str) -> list[Addon]:
    """The mappings of known plug-ins that lead from one framework to another."""
    reached: dict[str, list[Addon]] = {start: []}
    waiting = [start]
    for place in waiting:  # it grows while it is read
        for row, after, transit in _steps_from(place):
            if after not in reached and (transit or after == goal):
                reached[after] = [*reached[place], row]
                waiting.append(after)
    return reached.get(goal, [])


def _steps_from(path: str) -> Iterator[tuple[Addon, str, bool]]:
    """Mappings from a framework: the mapping, its end, whether a route may go on."""
    for row in known_addons():
        ends = [end.rpartition("/")[0] for end in (row.source, row.target)]
        if row.kind == "mappings" and ends[0] == path:
            yield row, ends[1], row.transit
        if row.both and ends[1] == path:
            yield row, ends[0], True


def _is_installed(dist: str) -> bool:
    from importlib import metadata

    try:
        metadata.version(dist)
    except metadata.PackageNotFoundError:
        return False
    return True
