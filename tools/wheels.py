"""Package files of the index that pip is configured with, read through its client.

Members of a wheel are read where the wheel lies, a range of bytes at a time; what is
read is never imported. No address is kept: pip knows where its packages come from.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from typing import Any

# What pip is told to look for: Pythons, newest last, and the systems of their files.
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
TRIED = ("2.7", "3.6", "3.9", "3.11")
_NEAR = 1 << 18  # bytes between two members that are read together


@dataclass(frozen=True)
class Wheel:
    """One package file; `python` says for which Python it was found."""

    filename: str
    sha256: str
    python: str
    link: Any
    session: Any

    @cached_property
    def archive(self) -> zipfile.ZipFile:
        """What is in it. Only the table at its end is read."""
        lazy = import_module("pip._internal.network.lazy_wheel").LazyZipOverHTTP
        return zipfile.ZipFile(lazy(self.link.url_without_fragment, self.session))

    def read(self, members: Iterable[str]) -> dict[str, bytes]:
        """The content of members; those that lie side by side in one request."""
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
def wheels(package: str, pythons: tuple[str, ...] = TRIED) -> dict[str, Wheel]:
    """The file of each release: of several, the one for the first of these Pythons.

    pip has no public way to ask for this.
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
            if link.hash_name == "sha256":  # one of a local folder has none
                wheel = Wheel(link.filename, link.hash, python, link, session)
                found.setdefault(str(candidate.version), wheel)
    return found
