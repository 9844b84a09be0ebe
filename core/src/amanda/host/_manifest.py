"""`amanda-plugin.toml`: static details of plug-ins.

    manifest = 1

    [formats.onnx]
    suffixes = [".onnx"]
    objects = ["onnx.ModelProto"]
    tier = "stable"

There is a table for each entry point with details, `[kind.name]`, and one of the
environment variables that the distribution reads, `[settings]`, with what they mean.
The file is part of the distribution and is read without importing the package.
`_FIELDS` is the schema.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

from amanda.dictionary import parse_span
from amanda.errors import NamespaceError
from amanda.host._kinds import KINDS

FILE: Final = "amanda-plugin.toml"
NEWEST: Final = 1
TIERS: Final = ("stable", "beta", "experimental")

_LARGEST = 1 << 20  # bytes of a manifest
_DEEPEST = 1 << 16  # bytes at the start of a file that magic may refer to


class Manifest(NamedTuple):
    """The content of a manifest, and its faults."""

    rows: dict[tuple[str, str], dict[str, Any]]
    """Tables by kind and name."""
    faults: tuple[str, ...] = ()
    settings: Mapping[str, str] = {}
    """Environment variables, with what they mean."""


class Magic(NamedTuple):
    """Bytes at an offset of a file."""

    offset: int
    content: bytes


def parse_magic(text: str) -> tuple[Magic, ...]:
    """Parse hexadecimal bytes, with an optional `@offset`; `+` means and.

    >>> parse_magic("504b0304+61@30")
    (Magic(offset=0, content=b'PK\\x03\\x04'), Magic(offset=30, content=b'a'))
    """
    parts = []
    for part in text.split("+"):
        found = re.fullmatch(r"((?:[0-9a-fA-F]{2})+)(?:@([0-9]{1,5}))?", part.strip())
        if found is None or int(found[2] or 0) > _DEEPEST:
            raise ValueError(f"{part.strip()!r} is not hexadecimal bytes@offset")
        parts.append(Magic(int(found[2] or 0), bytes.fromhex(found[1])))
    return tuple(parts)


def _text(value: object) -> str:
    return "" if isinstance(value, str) and value.strip() else "must be a string"


def _flag(value: object) -> str:
    return "" if isinstance(value, bool) else "must be true or false"


def _texts(value: object) -> str:
    fine = isinstance(value, list) and value and not any(map(_text, value))
    return "" if fine else "must be a list of strings"


def _suffixes(value: object) -> str:
    if fault := _texts(value):
        return fault
    assert isinstance(value, list)
    bad = [text for text in value if not re.fullmatch(r"(\.[^./\\\s]+)+", text)]
    return f"{bad[0]!r} is not a suffix such as '.onnx'" if bad else ""


def _magic(value: object) -> str:
    if fault := _texts(value):
        return fault
    assert isinstance(value, list)
    try:
        for text in value:
            parse_magic(text)
    except ValueError as error:
        return str(error)
    return ""


def _span(value: object) -> str:
    if not isinstance(value, str):
        return "must be a namespace such as 'amanda/onnx/7..18'"
    try:
        parse_span(value)
    except NamespaceError as error:
        return error.message
    return ""


def _tier(value: object) -> str:
    return "" if value in TIERS else f"must be one of {', '.join(TIERS)}"


_Check = Callable[[object], str]
_EVERY: Final[Mapping[str, _Check]] = {"doc": _text, "tier": _tier}
_FIELDS: Final[Mapping[str, Mapping[str, _Check]]] = {
    "namespaces": {"versions": _texts},
    "extractors": {},
    "mappings": {
        "from": _span,
        "to": _span,
        "both": _flag,
        "transit": _flag,
        "environment": _text,
    },
    "formats": {
        "suffixes": _suffixes,
        "magic": _magic,
        "objects": _texts,
        "directories": _texts,
        "stems": _suffixes,
        "namespace": _span,
    },
    "arrays": {"suffixes": _suffixes},
    "backends": {"namespace": _span, "devices": _texts},
    "kernels": {"backend": _text},
    "passes": {"namespace": _span, "pipelines": _texts, "conversions": _flag},
    "tools": {},
    "commands": {},
    "scoreboards": {},
    "callbacks": {},
    "hooks": {},
}
_REQUIRED: Final = {"mappings": ("from", "to"), "kernels": ("backend",)}


def faults_in_row(kind: str, row: object) -> list[str]:
    """The faults of the table of one entry."""
    if not isinstance(row, Mapping):
        return ["must be a table"]
    fields = {**_EVERY, **_FIELDS[kind]}
    faults = [f"has no {name!r}" for name in _REQUIRED.get(kind, ()) if name not in row]
    for name, value in row.items():
        if name not in fields:
            faults.append(f"{name!r} is not a field{_suggest(name, fields)}")
        elif fault := fields[name](value):
            faults.append(f"{name}: {fault}")
    return faults


def parse(content: bytes, points: Collection[tuple[str, str]]) -> Manifest:
    """The content of a manifest, with all of its faults.

    `points` are the entry points of the distribution; other tables are faults.
    """
    import tomllib

    if len(content) > _LARGEST:
        return Manifest({}, (f"larger than {_LARGEST:,} bytes",))
    try:
        document = tomllib.loads(content.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        return Manifest({}, (f"not TOML: {error}",))
    version = document.pop("manifest", None)
    if type(version) is not int or version < 1:
        return Manifest({}, ("does not begin with its version: manifest = 1",))
    if version > NEWEST:
        fault = f"version {version}; this core reads versions up to {NEWEST}"
        return Manifest({}, (fault,))
    settings, faults = _settings(document.pop("settings", {}))
    rows, more = _tables(document, points)
    return Manifest(rows, (*faults, *more), settings)


def _settings(table: object) -> tuple[dict[str, str], list[str]]:
    """The environment variables with valid names and meanings, and the faults."""
    if not isinstance(table, Mapping):
        return {}, ["[settings]: must be a table"]
    settings, faults = {}, []
    for name, meaning in table.items():
        if not re.fullmatch(r"AMANDA_[A-Z0-9_]*[A-Z0-9]", name):
            faults.append(f"[settings]: {name!r} is not a name such as 'AMANDA_PATH'")
        elif fault := _text(meaning):
            faults.append(f"[settings]: {name}: {fault}")
        else:
            settings[name] = meaning
    return settings, faults


def _tables(
    document: Mapping[str, Any], points: Collection[tuple[str, str]]
) -> tuple[dict[tuple[str, str], dict[str, Any]], list[str]]:
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    faults: list[str] = []
    for kind, tables in document.items():
        if kind not in KINDS:
            faults.append(f"[{kind}] is not a kind of plug-in{_suggest(kind, KINDS)}")
        elif not isinstance(tables, dict):
            faults.append(f"[{kind}]: must hold a table for each entry")
        else:
            for name, row in tables.items():
                at = f"[{kind}.{name}]"
                if (kind, name) not in points:
                    faults.append(f"{at} is not an entry point of this distribution")
                wrong = faults_in_row(kind, row)
                faults += [f"{at}: {fault}" for fault in wrong]
                if not wrong:
                    rows[kind, name] = row
    return rows, faults


def _suggest(name: str, known: Collection[str]) -> str:
    near = get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
