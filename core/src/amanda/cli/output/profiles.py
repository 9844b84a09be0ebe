"""Profiles for people, for programs, and for viewers of traces."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from amanda.cli.output.answer import Table
from amanda.cli.output.json_text import json_text
from amanda.errors import PluginError, UsageError
from amanda.files import replace_file
from amanda.host import default_host

if TYPE_CHECKING:
    from amanda.backend import OpTime, Profile

__all__ = ["expect_profiles", "profile_data", "profile_lines", "write_trace"]

_TOP: Final = 20


def expect_profiles(backend: str | None) -> None:
    """Raise UsageError for a backend that times no ops, with those that do."""
    from amanda.api.compilation import choose_backend

    host = default_host()
    name = choose_backend(host, backend, None)[0].name
    if _has_profiles(name):
        return
    known = [each for each in host.names("backends") if _has_profiles(each)]
    raise UsageError(
        f"backend {name!r} times no ops",
        expected=f"one of {', '.join(known)}" if known else "a backend that does",
        hint="--repeat N times whole calls on every backend",
    )


def _has_profiles(name: str) -> bool:
    host = default_host()
    try:
        return bool(getattr(host.get("backends", name), "profiles", False))
    except PluginError:
        return False  # it is not usable here, and other verbs say why


def profile_data(found: Profile) -> dict[str, Any]:
    """The profile for `--json`: seconds by op, by source op and by type."""
    return {
        "how": found.how,
        "call": found.call,
        "ops": found.by_op(),
        "sources": found.by_source(),
        "types": found.by_type(),
        "steps": [_step_data(each) for each in found.ops],
    }


def _step_data(each: OpTime) -> dict[str, Any]:
    return {
        "op": each.label.name,
        "type": each.label.type,
        "sources": list(each.label.sources),
        "start": each.start,
        "seconds": each.seconds,
        "bytes": each.memory,
    }


def profile_lines(found: Profile) -> Iterator[str | Table]:
    """The slowest ops and types of ops."""
    total = found.seconds or 1.0
    count = len(found.ops)
    yield (
        f"{count} {'op' if count == 1 else 'ops'} in {found.seconds * 1e3:.4g} ms, "
        f"{found.how}; a whole call takes {found.call * 1e3:.4g} ms"
    )
    slowest = sorted(found.ops, key=lambda each: -each.seconds)[:_TOP]
    rows = [
        (
            f"{each.seconds * 1e3:.3g}",
            f"{each.seconds / total:.1%}",
            "" if each.memory is None else f"{each.memory / 1024:,.0f}",
            each.label.type,
            each.label.name,
            ", ".join(each.label.sources),
        )
        for each in slowest
    ]
    yield Table(("ms", "share", "peak KiB", "type", "op", "from"), rows)
    yield ""
    kinds = [
        (f"{seconds * 1e3:.3g}", f"{seconds / total:.1%}", _count(found, type_), type_)
        for type_, seconds in [*found.by_type().items()][:_TOP]
    ]
    yield Table(("ms", "share", "ops", "type"), kinds)


def _count(found: Profile, type_: str) -> int:
    return sum(each.label.type == type_ for each in found.ops)


def write_trace(path: str, found: Profile) -> None:
    """Write the trace of a profile, which Perfetto and chrome://tracing open."""
    with replace_file(Path(path)) as file:
        file.write(json_text(found.trace(), 1).encode())
