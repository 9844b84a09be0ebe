"""The secret key of a user's disk caches.

Programs in a cache folder are native code. Their digest is keyed, so only files are
loaded that this user's processes have written: not those of a folder that came with a
model."""

from __future__ import annotations

import os
import secrets
import stat
from functools import cache
from pathlib import Path
from typing import Final

from amanda.errors import UsageError

__all__ = ["secret_key"]

_LENGTH: Final = 32


def secret_key() -> bytes:
    """The key, which is generated on first use."""
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return _read_or_create(Path(base, "amanda", "cache-key"))


@cache
def _read_or_create(path: Path) -> bytes:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
            file.write(secrets.token_bytes(_LENGTH))
        try:
            os.link(temporary, path)  # unlike a rename, it keeps an existing key
        except FileExistsError:
            pass
        finally:
            temporary.unlink()
        return _read(path)
    except OSError:
        return secrets.token_bytes(
            _LENGTH
        )  # nothing is found again by the next process


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        key = file.read()
    foreign = hasattr(os, "geteuid") and status.st_uid != os.geteuid()
    if foreign or (stat.S_IMODE(status.st_mode) & 0o077 and os.name == "posix"):
        raise UsageError(
            "the key of the disk cache can be read by other users",
            where=str(path),
            hint="delete it; a new one is generated",
        )
    if len(key) != _LENGTH:
        raise UsageError("the key of the disk cache is damaged", where=str(path),
                         hint="delete it; a new one is generated")  # fmt: skip
    return key
