"""Compiled programs in a folder, for the next process: nothing is traced there again.

A program is found by what decides it: the structure of the graph, the types of its
weights (not what is in them), its small constants, the shapes of the feeds, which of
them may be written over, the settings, how many cores there are, the versions and the
device, with that of what compiles for it. A file begins with the digest of the rest;
what does not fit it is refused, and written anew. XLA's own form of a program can run
anything, so files of other users are refused as well. What was not used for longest
goes when the folder holds more than it may.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from time import time
from typing import Any, Final

from amanda.errors import UsageError
from amanda_jax.settings import Settings, cores

__all__ = ["Kept"]

MAGIC: Final = b"amanda-jax compiled 1\n"
ENDING: Final = ".compiled"
UNFINISHED: Final = ".unfinished"
"""The ending while a file is written."""
LONGEST: Final = 3600
"""Seconds after which nobody is writing it any more."""
_PACKAGES: Final = ("amanda", "amanda_std", "amanda_jax")


class Kept:
    """The folder, as one executable uses it."""

    def __init__(self, folder: str | os.PathLike[str], most: int, device: Any) -> None:
        self._folder = Path(folder).expanduser()
        self._most = most
        self._device = device
        self.counts: Counter[str] = Counter()
        """How many programs were `loaded`, `written`, `refused`, and `not written`."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                "no folder can be made for compiled programs",
                where="the option 'cache' of backend 'jax'",
                got=f"{self._folder}: {error.strerror}",
            ) from error

    def key(
        self,
        what: str,
        settings: Settings,
        donated: Sequence[int],
        forms: Sequence[Any],
    ) -> str:
        """The name of a program, by `structure` of its graph and what it is fed.

        `donated`: which of its inputs may be written over. Their names do not count."""
        device = self._device
        told = (
            what, surroundings(), device.platform, device.device_kind,
            device.client.platform_version, settings.precision,
            sorted(settings.without), cores(), [*donated],
            sorted(settings.switches.items()), [str(form) for form in forms],
        )  # fmt: skip
        return hashlib.sha256(repr(told).encode()).hexdigest()

    def load(self, key: str, count: int) -> tuple[Any, Mapping[str, Any]] | None:
        """A program that takes so many arrays, and what was noted of it."""
        from jax.experimental.serialize_executable import deserialize_and_load
        from jax.tree import structure as tree

        path = self._path(key)
        try:
            content = self._content(path)
            if content is None:
                return None
            facts, program = _read(content, key)
            given = tree(((0,) * count, {}))
            made = deserialize_and_load(
                program,
                given,
                tree([0] * facts["results"]),
                backend=self._device.platform,
                execution_devices=[self._device],
            )
        except (KeyError, RuntimeError, TypeError, ValueError):
            self.counts["refused"] += 1
            return None
        self.counts["loaded"] += 1
        with suppress(OSError):
            os.utime(path)
        return made, facts

    def store(self, key: str, compiled: Any, facts: Mapping[str, Any]) -> None:
        """Written beside and renamed into place; what cannot be written is not."""
        from jax.experimental.serialize_executable import serialize

        try:
            program = serialize(compiled)[0]
            head = json.dumps({"key": key, **facts}).encode() + b"\n"
            digest = hashlib.sha256(head + program).hexdigest().encode()
            self._write(self._path(key), MAGIC + digest + b"\n" + head + program)
        except (OSError, RuntimeError, TypeError, ValueError):
            self.counts["not written"] += 1
            return
        self.counts["written"] += 1
        self._shrink()

    def _write(self, path: Path, content: bytes) -> None:
        """Nobody ever sees half of a file, and none is left where this fails."""
        handle, name = tempfile.mkstemp(dir=self._folder, suffix=UNFINISHED)
        beside = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            beside.replace(path)
        except BaseException:
            with suppress(OSError):
                beside.unlink()
            raise

    def _path(self, key: str) -> Path:
        return self._folder / (key + ENDING)

    def _content(self, path: Path) -> bytes | None:
        """What a file holds; None where there is none, an error for a foreign one."""
        try:
            with path.open("rb") as file:
                owner = os.fstat(file.fileno()).st_uid
                if hasattr(os, "geteuid") and owner != os.geteuid():
                    raise ValueError("the file is of another user")
                return file.read()
        except OSError:
            return None

    def _shrink(self) -> None:
        """Deletes what was used longest ago, as far as there is too much, and what
        processes that were ended have left half-written."""
        for path in self._folder.glob("*" + UNFINISHED):
            with suppress(OSError):
                if path.stat().st_mtime < time() - LONGEST:
                    path.unlink()
        found = []
        for path in self._folder.glob("*" + ENDING):
            with suppress(OSError):  # another process deletes, too
                about = path.stat()
                found.append((about.st_mtime_ns, about.st_size, path))
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found)[:-1]:
            if total <= self._most:
                return
            with suppress(OSError):
                path.unlink(missing_ok=True)
                total -= size


def _read(content: bytes, key: str) -> tuple[dict[str, Any], bytes]:
    """The facts and the program of a file; ValueError for what is no longer whole."""
    rest = content.removeprefix(MAGIC)
    digest, _, rest = rest.partition(b"\n")
    if digest != hashlib.sha256(rest).hexdigest().encode():
        raise ValueError("the file is not as it was written")
    head, _, program = rest.partition(b"\n")
    facts = json.loads(head)
    if facts["key"] != key:
        raise ValueError("the file is for another program")
    return facts, program


@cache
def surroundings() -> str:
    """What else a program is made by and for: versions, code, processor, flags."""
    told = [f"{name} {version(name)}" for name in ("jax", "jaxlib", "amanda-jax")]
    told += [_state(name) for name in _PACKAGES]
    told += [platform.machine(), _processor(), os.environ.get("XLA_FLAGS", "")]
    return "; ".join(told)


def _state(package: str) -> str:
    """How a package is on the disk: its code may change before its version does."""
    from importlib.util import find_spec

    spec = find_spec(package)
    files = [
        path.stat()
        for folder in (spec.submodule_search_locations or () if spec else ())
        for path in Path(folder).rglob("*.py")
    ]
    newest = max((file.st_mtime_ns for file in files), default=0)
    return f"{package} {len(files)} {newest} {sum(file.st_size for file in files)}"


def _processor() -> str:
    """What the processor can do, where the system tells."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith(("flags", "Features")):
                return hashlib.sha256(line.encode()).hexdigest()
    return platform.processor()
