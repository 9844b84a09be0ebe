"""Installed distributions, read lazily from their metadata.

`importlib_metadata` behaves alike on every Python from 3.11 on; the versions in the
standard library differ for damaged metadata.

Its `entry_points()` is not used: it raises for any damaged `entry_points.txt`, and
parses all files, most of which have no group of Amanda.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import importlib_metadata as metadata

from amanda.host._kinds import GROUP, KINDS, kind_of
from amanda.host._manifest import FILE, Manifest, parse
from amanda.host._requires import CORE, canonical, requirement_fault

Found: TypeAlias = Any
"""A distribution or entry point of the standard library or of `importlib_metadata`."""

_FIELD = re.compile(r"[A-Za-z][A-Za-z0-9-]*")
_VALUE = re.compile(
    r"(?P<module>[^\W\d]\w*(?:\.[^\W\d]\w*)*)\s*"
    r"(?::\s*(?P<attr>[^\W\d]\w*(?:\.[^\W\d]\w*)*))?\s*"
    r"(?:\[(?P<extras>[^\]]*)\])?"
)


class EntryPointName(NamedTuple):
    """One line of a distribution's entry points."""

    kind: str
    name: str
    value: str

    @property
    def target(self) -> tuple[str, str, tuple[str, ...]] | None:
        """Module, attribute and extras; None if the value is invalid."""
        found = _VALUE.fullmatch(self.value.strip())
        if found is None:
            return None
        extras = re.findall(r"[\w.-]+", found["extras"] or "")
        return found["module"], found["attr"] or "", tuple(extras)


class Fields(dict[str, list[str]]):
    """The header of a METADATA file: the values of each field, by its name in lower
    case. With this and without the `email` package, which takes longer to import than
    all headers to be read."""

    def __getitem__(self, name: str) -> Any:
        return next(iter(self.get(name.lower(), ())), None)

    def get_all(self, name: str) -> list[str] | None:
        return self.get(name.lower())


def parse_fields(text: str | None) -> Fields | None:
    """The fields of a METADATA file; None where a line is none, and for damaged ones.

    >>> parse_fields("Name: a\\nRequires-Dist: b\\nRequires-Dist: c\\n\\nText")
    {'name': ['a'], 'requires-dist': ['b', 'c']}
    """
    if not text:
        return None
    fields = Fields()
    values: list[str] = []
    for line in text.partition("\n\n")[0].splitlines():
        name, colon, value = line.partition(":")
        if colon and _FIELD.fullmatch(name):
            values = fields.setdefault(name.lower(), [])
            values.append(value.strip())
        elif values and line[:1] in (" ", "\t"):  # it continues the value
            values[-1] += f"\n{line}"
        else:
            return None
    return fields


class Distribution:
    """One installed distribution, or the running program (which has no metadata)."""

    def __init__(self, found: Found | None, key: str) -> None:
        self._found = found
        self.key = key
        self._faults: list[str] = []

    @cached_property
    def name(self) -> str:
        return self._field("Name") or self.key

    @cached_property
    def version(self) -> str:
        return self._field("Version") or "?"

    @cached_property
    def _metadata(self) -> Any:
        """Its metadata, which each access to that of `_found` parses again."""
        if not self._found:
            return None
        is_plain = type(self._found) is metadata.PathDistribution
        fields = parse_fields(self._found.read_text("METADATA")) if is_plain else None
        return self._found.metadata if fields is None else fields

    def _field(self, field: str) -> str:
        try:
            text = self._metadata[field] if self._found else None
        except Exception:  # noqa: BLE001  damaged metadata may raise anything
            return ""
        return str(text) if text else ""

    @cached_property
    def points(self) -> tuple[EntryPointName, ...]:
        """Its entry points in groups of Amanda; invalid lines are added to `faults`."""
        try:
            text = self._found.read_text("entry_points.txt") if self._found else None
        except Exception as error:  # noqa: BLE001  not text, or not readable
            if self.key.startswith("amanda"):  # other distributions may be as they are
                self._faults.append(f"its entry_points.txt cannot be read: {error}")
            return ()
        if text is None or GROUP not in text:
            return ()
        points, faults = parse_points(text)
        self._faults += faults
        return points

    @property
    def faults(self) -> tuple[str, ...]:
        """Faults of the distribution as a whole."""
        self.points  # noqa: B018  finds the faults
        return tuple(self._faults)

    def unfit(self, extras: Collection[str]) -> str:
        """Why it is incompatible with this core, or an empty string."""
        if self._found is None or self.key == CORE:
            return ""
        try:
            needs = self._metadata.get_all("Requires-Dist") or self._found.requires
            provided = self._metadata.get_all("Provides-Extra") or ()
        except Exception:  # noqa: BLE001  reported as missing metadata
            return ""
        return requirement_fault(needs or (), provided, extras)

    @cached_property
    def damage(self) -> str:
        """The fault of its metadata, or an empty string."""
        if self._found is None or (self._field("Name") and self._field("Version")):
            return ""
        return "its METADATA is missing or unreadable; reinstall it"

    @cached_property
    def manifest(self) -> Manifest:
        """Its manifest; a distribution without one is valid."""
        try:
            places = self._manifests()
            if not places:
                return Manifest({})
            if len(places) > 1:
                listed = ", ".join(map(str, places))
                return Manifest({}, (f"has {len(places)} of them: {listed}",))
            content = places[0].read_bytes()
        except Exception as error:  # noqa: BLE001  custom finders may raise anything
            return Manifest({}, (f"cannot be read: {error}",))
        named = {(point.kind, point.name) for point in self.points}
        return parse(content, named)

    def _manifests(self) -> list[Any]:
        """Paths of its manifests: in its files, or in its sources if it is editable."""
        if self._found is None:
            return []
        record = self._found.read_text("RECORD") or ""
        lines = [line for line in record.splitlines() if FILE in line]
        files = [row[0] for row in csv.reader(lines) if row]
        files = [file for file in files if file.rpartition("/")[2] == FILE]
        around = {folder for point in self.points for folder in _folders(point)}
        nearby = [file for file in files if file.rpartition("/")[0] in around]
        if files:  # a manifest apart from all entries is data, such as a template
            return [self._found.locate_file(file) for file in nearby or files]
        # An editable install lists a pointer to its sources instead of the files, and
        # the pointer may be of any make. The import system follows them all: it finds
        # a top-level package without running any of it.
        places = dict.fromkeys(
            place for point in self.points for place in _sibling_metadata(point)
        )
        return [place for place in places if place.is_file()]


def _folders(point: EntryPointName) -> list[str]:
    """The folders of a module, from its top-level package inwards."""
    parts = point.target[0].split(".") if point.target else []
    return ["/".join(parts[: i + 1]) for i in range(len(parts))]


def _sibling_metadata(point: EntryPointName) -> Iterator[Path]:
    """Where a manifest may be in the sources of a module.

    The import system is used for the top-level package only, since finding a submodule
    imports its parents.
    """
    folders = _folders(point)
    spec = find_spec(folders[0]) if folders else None
    for place in (spec.submodule_search_locations or ()) if spec else ():
        for folder in folders:
            yield Path(place, *folder.split("/")[1:], FILE)


def installed_distributions() -> Iterator[Distribution]:
    """Every installed distribution, the first one on the path for each name."""
    seen: set[str] = set()
    for found in metadata.distributions():
        key = _key(found)
        if key and key not in seen:
            seen.add(key)
            yield Distribution(found, key)


def distributions_of_points(points: Iterable[Found]) -> Iterator[Distribution]:
    """The distributions of explicit entry points."""
    dists: dict[str, Distribution] = {}
    for given in points:
        kind = kind_of(given.group)
        if kind is None:
            continue
        found = getattr(given, "dist", None)
        key = _key(found) if found is not None else "unknown"
        dist = dists.get(key)
        if dist is None:
            dist = dists[key] = Distribution(found, key)
            dist.points = ()
        dist.points = (*dist.points, EntryPointName(kind, given.name, given.value))
    yield from dists.values()


def _key(found: Found) -> str:
    """The canonical name, from the name of the folder if possible.

    The public `name` parses the whole METADATA file, which would dominate the time of
    listing an environment.
    """
    try:
        return canonical(getattr(found, "_normalized_name", None) or found.name)
    except Exception:  # noqa: BLE001  neither a valid folder name nor metadata
        return ""


def parse_points(text: str) -> tuple[tuple[EntryPointName, ...], list[str]]:
    """The entry points in groups of Amanda, and the faults of invalid lines.

    >>> parse_points("[amanda.backends]\\nfast = fast_one:Backend\\nslow\\n")
    ((EntryPointName(kind='backends', name='fast', value='fast_one:Backend'),),
     ["its entry_points.txt has 'slow' in line 3, not name = module:attribute"])
    """
    points: list[EntryPointName] = []
    faults: list[str] = []
    group = ""
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if line.startswith("[") and line.endswith("]"):
            group = line[1:-1].strip()
            if group.startswith(GROUP) and kind_of(group) is None:
                kinds = ", ".join(GROUP + kind for kind in KINDS)
                faults.append(f"there is no group {group!r}; the groups are {kinds}")
        elif line and not line.startswith(("#", ";")) and (kind := kind_of(group)):
            name, equals, value = (part.strip() for part in line.partition("="))
            if name and equals and value:
                points.append(EntryPointName(kind, name, value))
            else:
                faults.append(
                    f"its entry_points.txt has {line!r} in line {number}, "
                    f"not name = module:attribute"
                )
    return tuple(points), faults
