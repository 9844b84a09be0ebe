"""Read members of wheels from the package index that pip is configured with.

Byte ranges of a wheel are read remotely, through pip's own client. Nothing that is read
is imported, and no address is stored.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from typing import Any

# Pythons and platform tags to search for, oldest first.
_LINUX = ("manylinux1", "manylinux2010", "manylinux2014", "linux")
_NEWER = ("manylinux_2_17", "manylinux_2_24", "manylinux_2_27", "manylinux_2_28")
_SYSTEMS: Mapping[str, tuple[str, ...]] = {
    "2.7": _LINUX,
    "3.5": _LINUX,
    "3.6": _LINUX,
    "3.7": (*_LINUX, *_NEWER),
    "3.8": (*_LINUX, *_NEWER),
    "3.9": (*_LINUX, *_NEWER),
    "3.11": (*_LINUX, *_NEWER),
}
DEFAULT_PYTHONS = ("2.7", "3.6", "3.9", "3.11")
_NEAR = 1 << 18  # bytes between members that are read in one request


@dataclass(frozen=True)
class Wheel:
    """One wheel; `python` is the Python that it was found for."""

    filename: str
    sha256: str
    python: str
    link: Any
    session: Any

    @cached_property
    def archive(self) -> zipfile.ZipFile:
        """The archive; only its central directory is read."""
        lazy = import_module("pip._internal.network.lazy_wheel").LazyZipOverHTTP
        return zipfile.ZipFile(lazy(self.link.url_without_fragment, self.session))

    def read(self, members: Iterable[str]) -> dict[str, bytes]:
        """Read members; neighbors in one request."""
        infos = [self.archive.getinfo(name) for name in members]
        spans: list[list[int]] = []
        for info in sorted(infos, key=lambda info: info.header_offset):
            start = info.header_offset
            end = start + info.compress_size + len(info.filename.encode()) + 1024
            if spans and start - spans[-1][1] < _NEAR:
                spans[-1][1] = max(end, spans[-1][1])
            else:
                spans.append([start, end])
        stream: Any = self.archive.fp
        for start, end in spans:
            stream.seek(start)
            stream.read(end - start)
        return {info.filename: self.archive.read(info) for info in infos}


@cache
def wheels(
    package: str, pythons: tuple[str, ...] = DEFAULT_PYTHONS
) -> dict[str, Wheel]:
    """The wheel of each release; of several, that of the first of these Pythons.

    pip has no public API for this.
    """
    found: dict[str, Wheel] = {}
    for python in pythons:
        command = import_module("pip._internal.commands").create_command("download")
        options = ["--no-deps", "--only-binary=:all:", "--python-version", python]
        options += [f"--platform={system}_x86_64" for system in _SYSTEMS[python]]
        parsed, _ = command.parse_args([*options, package])
        target = import_module("pip._internal.cli.cmdoptions").make_target_python
        session = command._build_session(parsed)
        finder = command._build_package_finder(
            options=parsed,
            session=session,
            target_python=target(parsed),
            ignore_requires_python=True,
        )
        for candidate in finder.find_all_candidates(package):
            link = candidate.link
            if link.hash_name == "sha256":  # those of a local folder have none
                wheel = Wheel(link.filename, link.hash, python, link, session)
                found.setdefault(str(candidate.version), wheel)
    return found
