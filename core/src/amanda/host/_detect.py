"""Detection of formats, from manifests.

Only the format that is chosen is imported; if it does not load, the next one that
matches is chosen, with a warning. The format that the caller names comes first. A live
object is matched by its type or nearest base class; a file by its first bytes, and by
its suffix if that is ambiguous; a folder by a file that must be in it; a path that does
not exist by a file of the same name with a suffix, as the prefix of a checkpoint.
"""

from __future__ import annotations

import logging
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amanda.addons import advise_suffix
from amanda.dictionary import parse_span
from amanda.errors import (
    FormatError,
    PluginClashError,
    PluginError,
    UnknownFormatError,
    UsageError,
)
from amanda.host._entry import PluginEntry
from amanda.host._manifest import Magic, parse_magic

if TYPE_CHECKING:
    from amanda.host._host import Host

_log = logging.getLogger("amanda.host")


def format_that_reads(host: Host, source: object, format: str | None) -> PluginEntry:
    """The format that reads a path or a live object."""
    if format is not None:
        return host.find("formats", format)
    if not isinstance(source, str | os.PathLike):
        return _of_object(host, source)
    path = Path(source)
    try:
        mode = path.stat().st_mode
    except OSError as error:
        found = _of_stem(host, path)
        if found is None:
            raise _unreadable_path(path, error) from error
        return found
    except ValueError as error:
        raise UsageError(f"{str(source)!r} is no path: {error}") from error
    if stat.S_ISDIR(mode):
        return _of_folder(host, path)
    if not stat.S_ISREG(mode):
        raise FormatError(
            f"{path} is not a regular file",
            hint="copy what it holds into a file, or name the format",
        )
    return _of_file(host, path)


def format_that_writes(
    host: Host, path: Path, format: str | None, namespace: str | None = None
) -> PluginEntry:
    """The format that writes a path: by its suffix, else that of folders."""
    if format is not None:
        return host.find("formats", format)

    def matching(formats: list[PluginEntry]) -> list[PluginEntry]:
        by_suffix = [] if path.is_dir() else _by_suffix(formats, path)
        return by_suffix or _of_new_folder(formats, path, namespace)

    found = _first_usable(host, matching, f"{path.name!r} is written")
    if found is None:
        raise _unknown_format(host, path, "writes", namespace)
    return found


def _of_file(host: Host, path: Path) -> PluginEntry:
    formats = host.entries("formats")
    magics = {entry: _magics(entry) for entry in formats}
    longest = max((_end(m) for all_of in magics.values() for m in all_of), default=0)
    head = _head(path, max(1, longest))
    if not head:
        raise FormatError(f"{path} is empty", expected="a model")
    by_bytes = {
        entry: max((_weight(m) for m in ways if _fits(m, head)), default=0)
        for entry, ways in magics.items()
    }

    def matching(formats: list[PluginEntry]) -> list[PluginEntry]:
        found = [entry for entry in formats if by_bytes[entry]]
        if len(found) != 1:
            found = _by_suffix(found or formats, path) or found
        most = max((by_bytes[entry] for entry in found), default=0)
        return [entry for entry in found if by_bytes[entry] == most]

    chosen = _first_usable(host, matching, f"{path.name!r} is read")
    if chosen is None:
        raise _unknown_format(host, path, "reads")
    return chosen


def _of_folder(host: Host, path: Path) -> PluginEntry:
    def matching(formats: list[PluginEntry]) -> list[PluginEntry]:
        rows = [(e, e.manifest.get("directories", ())) for e in formats]
        return [e for e, names in rows if any((path / n).exists() for n in names)]

    chosen = _first_usable(host, matching, f"the folder {path.name!r} is read")
    if chosen is None:
        raise FormatError(
            f"{path} is a folder, and no installed format reads it",
            hint="name the file in it, or a format that reads folders",
            problems=_suffixes_in_use(host, "directories"),
        )
    return chosen


def _of_stem(host: Host, path: Path) -> PluginEntry | None:
    """The format of a file whose name is this path and one of its `stems` suffixes."""

    def is_stem(suffixes: Iterable[str]) -> bool:
        return any(path.with_name(path.name + each).is_file() for each in suffixes)

    def matching(formats: list[PluginEntry]) -> list[PluginEntry]:
        return [e for e in formats if is_stem(e.manifest.get("stems", ()))]

    if not path.name:
        return None
    return _first_usable(host, matching, f"{path.name!r} is read")


def _of_new_folder(
    formats: list[PluginEntry], path: Path, namespace: str | None
) -> list[PluginEntry]:
    """The formats that write graphs of a namespace as folders, if a path may be one."""
    if namespace is None or (path.suffix and not path.is_dir()):
        return []
    goal = parse_span(namespace).path
    spans = [(e, e.manifest.get("namespace")) for e in formats]
    return [
        entry
        for entry, span in spans
        if entry.manifest.get("directories") and span and parse_span(span).path == goal
    ]


def _of_object(host: Host, thing: object) -> PluginEntry:
    line = type(thing).__mro__
    what = f"an object of type {line[0].__module__}.{line[0].__qualname__}"

    def matching(formats: list[PluginEntry]) -> list[PluginEntry]:
        near: dict[PluginEntry, int] = {}
        for entry in formats:
            for name in entry.manifest.get("objects", ()):
                places = [i for i, cls in enumerate(line) if _is_named(cls, name)]
                if places:
                    near[entry] = min(places[0], near.get(entry, len(line)))
        nearest = min(near.values(), default=0)
        return [entry for entry, i in near.items() if i == nearest]

    chosen = _first_usable(host, matching, f"{what} is read")
    if chosen is None:
        raise UnknownFormatError(
            f"no installed format reads {what}",
            hint="give a path, name the format, or install its plug-in",
            problems=_suffixes_in_use(host, "objects"),
        )
    return chosen


def _is_named(cls: type, name: str) -> bool:
    """Whether this is the class of this name, as documented or as defined."""
    if f"{cls.__module__}.{cls.__qualname__}" == name:
        return True
    parts = name.split(".")
    for i in range(len(parts) - 1, 0, -1):
        # the framework of a live object has been imported
        found: Any = sys.modules.get(".".join(parts[:i]))
        if found is not None:
            for part in parts[i:]:
                found = vars(found).get(part) if hasattr(found, "__dict__") else None
            return found is cls
    return False


def _by_suffix(formats: Iterable[PluginEntry], path: Path) -> list[PluginEntry]:
    """The formats with the longest suffix that matches."""
    name = path.name.lower()
    longest: dict[PluginEntry, int] = {}
    for entry in formats:
        fits = [len(s) for s in entry.manifest.get("suffixes", ()) if _ends(name, s)]
        if fits:
            longest[entry] = max(fits)
    most = max(longest.values(), default=0)
    return [entry for entry, length in longest.items() if length == most]


def _ends(name: str, suffix: str) -> bool:
    return name.endswith(suffix.lower()) and len(name) > len(suffix)


def _magics(entry: PluginEntry) -> Sequence[tuple[Magic, ...]]:
    return [parse_magic(text) for text in entry.manifest.get("magic", ())]


def _fits(ways: tuple[Magic, ...], head: bytes) -> bool:
    return all(head[m.offset : m.offset + len(m.content)] == m.content for m in ways)


def _weight(ways: tuple[Magic, ...]) -> int:
    return sum(len(magic.content) for magic in ways)


def _end(ways: tuple[Magic, ...]) -> int:
    return max(magic.offset + len(magic.content) for magic in ways)


def _head(path: Path, size: int) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(size)
    except OSError as error:
        raise _unreadable_path(path, error) from error


def _first_usable(
    host: Host, matching: Callable[[list[PluginEntry]], list[PluginEntry]], what: str
) -> PluginEntry | None:
    """The single format that matches best and loads; None if none matches.

    Those that match best but do not load are left out, with a warning, and the others
    are matched again. If none of them loads, the error is that of the first.
    """
    formats, broken = host.entries("formats"), list[PluginEntry]()
    while found := matching(formats):
        sound = [entry for entry in found if _loads(host, entry)]
        broken += [entry for entry in found if entry not in sound]
        if len(sound) > 1:
            raise _clash(sound, what)
        if sound:
            for entry in broken:
                _log.warning("%s is not used: %s", entry.what, entry.fault)
            return sound[0]
        formats = [entry for entry in formats if entry not in found]
    return broken[0] if broken else None


def _loads(host: Host, entry: PluginEntry) -> bool:
    try:
        host.load(entry)
    except PluginError:
        return False
    return True


def _clash(found: list[PluginEntry], what: str) -> PluginClashError:
    return PluginClashError(
        f"{what} by several formats: {', '.join(e.what for e in found)}",
        hint=f"choose a format: {' or '.join(e.choice for e in found)}",
    )


def _unknown_format(
    host: Host, path: Path, does: str, namespace: str | None = None
) -> UnknownFormatError:
    examples = [] if path.suffix else _example_names(host, path, namespace)
    if examples:
        return UnknownFormatError(
            f"no installed format {does} {path.name!r}",
            expected="a file name with a suffix",
            hint=f"write {examples[0]}" + "".join(f", or {e}" for e in examples[1:]),
        )
    return UnknownFormatError(
        f"no installed format {does} {path.name!r}",
        hint=advise_suffix(path.name)
        or "name the format, or install the plug-in that has it",
        problems=_suffixes_in_use(host, "suffixes"),
    )


def _example_names(host: Host, path: Path, namespace: str | None) -> list[str]:
    """Names of files that formats of a namespace write, instead of a path."""
    if namespace is None:
        return []
    goal = parse_span(namespace).path
    stem = path / "model" if path.is_dir() else path
    found = []
    for entry in host.entries("formats"):
        span, suffixes = entry.manifest.get("namespace"), entry.manifest.get("suffixes")
        if span and suffixes and parse_span(span).path == goal:
            doc = re.split(r" \(|[,;]", str(entry.manifest.get("doc", entry.name)))[0]
            found.append(f"{stem}{suffixes[0]} ({doc})")
    return found


def _suffixes_in_use(host: Host, field: str) -> list[str]:
    """One line for each installed format, with what it accepts."""
    shown: Callable[[PluginEntry], str] = lambda e: " ".join(e.manifest.get(field, ()))  # noqa: E731
    lines = [(entry, shown(entry)) for entry in host.entries("formats")]
    return [f"{entry.name}: {taken}" for entry, taken in lines if taken]


def _unreadable_path(path: Path, error: OSError) -> FormatError:
    if isinstance(error, FileNotFoundError):
        try:
            beside = [each.name for each in path.parent.iterdir()]
        except OSError:
            return FormatError(f"there is no file {path}, and no such folder")
        near = get_close_matches(path.name, beside, n=1)
        hint = f"did you mean {str(path.parent / near[0])!r}?" if near else None
        return FormatError(f"there is no file {path}", hint=hint)
    return FormatError(f"{path} cannot be read", got=error.strerror or str(error))
