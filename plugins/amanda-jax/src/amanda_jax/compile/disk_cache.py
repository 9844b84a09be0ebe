"""Disk cache: compiled programs in a folder, for the next process.

The key of a program is everything that determines it: the structure of the graph, the
types of its weights (not their elements), its small constants, the shapes of the feeds,
which of them may be overwritten, the settings, the number of cores, the versions, and
the device with its compiler. A file begins with the digest of the rest, keyed by a
secret of the user; one that does not match is refused, and written again. Files that
other users own or may write to are refused as well, since a serialized XLA program is
native code. Nothing is unpickled. When the folder exceeds its size limit, the least
recently used programs are deleted."""

from __future__ import annotations

import hashlib
import hmac
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
from amanda_jax.compile.cache_key_file import secret_key
from amanda_jax.cpu_tuning.cores import core_count
from amanda_jax.settings import Settings

__all__ = ["DiskCache"]

MAGIC: Final = b"amanda-jax compiled 2\n"
SUFFIX: Final = ".compiled"
UNFINISHED_SUFFIX: Final = ".unfinished"
"""The suffix while a file is written."""
ABANDONED_AFTER: Final = 3600
"""Seconds after which an unfinished file is taken to be abandoned."""
_PACKAGES: Final = ("amanda", "amanda_std", "amanda_jax", "amanda_onednn")
"""Packages that determine a program; the last one may be missing."""


class DiskCache:
    """The cache folder, as one executable uses it."""

    def __init__(
        self, folder: str | os.PathLike[str], max_bytes: int, device: Any
    ) -> None:
        self._folder = Path(folder).expanduser()
        self._max_bytes = max_bytes
        self._device = device
        self.counts: Counter[str] = Counter()
        """How many programs were `loaded`, `written`, `refused`, and `not written`."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                "the folder for compiled programs cannot be created",
                where="the option 'cache' of backend 'jax'",
                got=f"{self._folder}: {error.strerror}",
            ) from error

    def key(
        self,
        graph_digest: str,
        settings: Settings,
        donated: Sequence[int],
        shapes: Sequence[Any],
    ) -> str:
        """The file name of a program.

        `graph_digest`: the `structure_digest` of its graph. `donated`: indices of the
        inputs that may be overwritten; their names do not count."""
        device = self._device
        facts = (
            graph_digest, environment(), device.platform, device.device_kind,
            device.client.platform_version, settings.precision,
            sorted(settings.without), core_count(), [*donated],
            sorted(settings.compiler_options.items()), [str(shape) for shape in shapes],
        )  # fmt: skip
        return hashlib.sha256(repr(facts).encode()).hexdigest()

    def load(
        self, key: str, shapes: Sequence[tuple[Sequence[int], str]], weights: int
    ) -> tuple[Any, Mapping[str, Any]] | None:
        """Load a program of arrays with these shapes and types, the first of which are
        weights, and the facts stored with it; None if it is missing or refused."""
        from amanda_jax.compile.stored_program import load_program

        path = self._path(key)
        try:
            content = self._read_file(path)
            if content is None:
                return None
            facts, program = _parse_file(content, key)
            loaded = load_program(program, facts, self._device, shapes, weights)
        except (KeyError, RuntimeError, TypeError, ValueError):
            self.counts["refused"] += 1
            return None
        self.counts["loaded"] += 1
        with suppress(OSError):
            os.utime(path)
        return loaded, facts

    def store(self, key: str, compiled: Any, facts: Mapping[str, Any]) -> None:
        """Store a program; a failure to write is counted, not raised."""
        from amanda_jax.compile.stored_program import serialize_program

        try:
            program, own = serialize_program(compiled)
            header = json.dumps({"key": key, **own, **facts}).encode() + b"\n"
            content = header + program
            self._write(self._path(key), MAGIC + _digest(content) + b"\n" + content)
        except (AttributeError, OSError, RuntimeError, TypeError, ValueError):
            self.counts["not written"] += 1
            return
        self.counts["written"] += 1
        self._shrink()

    def _write(self, path: Path, content: bytes) -> None:
        """Write a temporary file and rename it, so that no reader sees half a file."""
        handle, name = tempfile.mkstemp(dir=self._folder, suffix=UNFINISHED_SUFFIX)
        temporary = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            temporary.replace(path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise

    def _path(self, key: str) -> Path:
        return self._folder / (key + SUFFIX)

    def _read_file(self, path: Path) -> bytes | None:
        """The content of a file, or None; ValueError if others may write to it."""
        flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        try:
            with os.fdopen(os.open(path, os.O_RDONLY | flags), "rb") as file:
                status = os.fstat(file.fileno())
                if hasattr(os, "geteuid") and status.st_uid != os.geteuid():
                    raise ValueError("the file belongs to another user")
                if os.name == "posix" and status.st_mode & 0o022:
                    raise ValueError("other users may write to the file")
                return file.read()
        except OSError:
            return None

    def _shrink(self) -> None:
        """Delete the least recently used programs above the size limit, and what
        processes that were ended have left unfinished."""
        for path in self._folder.glob("*" + UNFINISHED_SUFFIX):
            with suppress(OSError):
                if path.stat().st_mtime < time() - ABANDONED_AFTER:
                    path.unlink()
        files = []
        for path in self._folder.glob("*" + SUFFIX):
            with suppress(OSError):  # another process may delete it as well
                stat = path.stat()
                files.append((stat.st_mtime_ns, stat.st_size, path))
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files)[:-1]:
            if total <= self._max_bytes:
                return
            with suppress(OSError):
                path.unlink(missing_ok=True)
                total -= size


def _digest(content: bytes) -> bytes:
    """The keyed digest of a file's content."""
    return hmac.new(secret_key(), content, hashlib.sha256).hexdigest().encode()


def _parse_file(content: bytes, key: str) -> tuple[dict[str, Any], bytes]:
    """The facts and the program of a file; ValueError if it is corrupt."""
    rest = content.removeprefix(MAGIC)
    digest, _, rest = rest.partition(b"\n")
    if not content.startswith(MAGIC) or not hmac.compare_digest(digest, _digest(rest)):
        raise ValueError("the file is corrupt, or of another user")
    header, _, program = rest.partition(b"\n")
    facts = json.loads(header)
    if facts["key"] != key:
        raise ValueError("the file is for another program")
    return facts, program


@cache
def environment() -> str:
    """What else determines a program: versions, code, processor, flags."""
    facts = [f"{name} {version(name)}" for name in ("jax", "jaxlib", "amanda-jax")]
    facts += [_package_state(name) for name in _PACKAGES]
    facts += [platform.machine(), _processor(), os.environ.get("XLA_FLAGS", "")]
    return "; ".join(facts)


def _package_state(package: str) -> str:
    """The files of a package: its code may change before its version does."""
    from importlib.util import find_spec

    spec = find_spec(package)
    files = [
        path.stat()
        for folder in (spec.submodule_search_locations or () if spec else ())
        for path in Path(folder).rglob("*")
        if path.suffix in (".py", ".so")
    ]
    newest = max((file.st_mtime_ns for file in files), default=0)
    return f"{package} {len(files)} {newest} {sum(file.st_size for file in files)}"


def _processor() -> str:
    """The features of the processor, where the system lists them."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith(("flags", "Features")):
                return hashlib.sha256(line.encode()).hexdigest()
    return platform.processor()
