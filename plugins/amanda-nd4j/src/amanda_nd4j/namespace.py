"""The dictionary of nd4j, built from Deeplearning4j's op descriptors.

No file of Deeplearning4j is included: `AMANDA_ND4J_OPS` is the path of the user's
`nd4j-op-def.pbtxt`, which is read when the dictionary is used; it may be the binary
form of that file, with the suffix `.pb`. The file has no version, so a single one is
version 1; several are given versions by the user:

    AMANDA_ND4J_OPS=nd4j-op-def.pbtxt
    AMANDA_ND4J_OPS=2021=old/nd4j-op-def.pbtxt:2025=new/nd4j-op-def.pbtxt

nd4j identifies an argument by its kind and its index among those of that kind. Names
are not unique, and some contain parts of the C++ code that they were taken from.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

from amanda.dictionary import (
    Attr,
    Dictionary,
    DictionaryHeader,
    DictionaryHistory,
    OpDef,
    OpHistory,
    Port,
    definition_steps,
    encode_data_file,
    version_key,
)
from amanda.errors import FormatError, NamespaceError
from amanda.types import unknown
from amanda_nd4j import op_descriptors
from amanda_nd4j.textproto import Message

__all__ = [
    "ND4J",
    "PATH",
    "VARIABLE",
    "Argument",
    "Descriptor",
    "InstalledHistory",
    "descriptors",
    "definition_of",
    "from_file",
    "from_files",
    "installed_descriptors",
    "installed_files",
]

VARIABLE: Final = "AMANDA_ND4J_OPS"
PATH: Final = "amanda/nd4j"
_VERSION: Final = "1"
_KINDS: Final = {
    "BOOL": "bool",
    "DATA_TYPE": "dtype",
    "DOUBLE": "double",
    "FLOAT": "double",
    "INT32": "int",
    "INT64": "int",
    "STRING": "string",
}
_INPUT, _OUTPUT = "INPUT_TENSOR", "OUTPUT_TENSOR"
_TENSOR: Final = unknown
_FEEDBACK: Final = "next_iteration"  # the only feedback op; files do not mark it


class Argument(NamedTuple):
    """An argument of an op, identified by `kind` and `place` (`argIndex`).

    `name` is the one in the file, `called` the one in the op definition: cleaned, and
    with its kind appended where the name is used already.
    """

    name: str
    kind: str
    place: int
    called: str


class Descriptor(NamedTuple):
    """An op in the file; `declared` is its kind of C++ declaration, or empty."""

    name: str
    arguments: tuple[Argument, ...]
    declared: str

    def of(self, *kinds: str) -> list[Argument]:
        """The arguments of these kinds, by index."""
        found = [each for each in self.arguments if each.kind in kinds]
        return sorted(found, key=lambda each: each.place)


def descriptors(file: Path) -> list[Descriptor]:
    """The ops in a file of descriptors."""
    try:
        found = op_descriptors.read(file)
    except (OSError, UnicodeDecodeError) as error:
        raise NamespaceError(
            "the op descriptors of nd4j cannot be read",
            who=file,
            got=error,
            hint=f"{VARIABLE} names nd4j-op-def.pbtxt of Deeplearning4j",
        ) from error
    return [_descriptor(row, file) for row in found]


def _descriptor(row: Message, file: Path) -> Descriptor:
    name = _single_value(row, "name", "", file)
    if re.fullmatch(r"[^\s()]+", name) is None:
        raise FormatError("this is no name of an op", who=file, got=repr(name))
    taken: set[str] = set()
    arguments = []
    for given in row.get("argDescriptor", ()):
        told = str(_single_value(given, "name", "", file))
        kind = str(_single_value(given, "argType", "FLOAT", file))
        if kind not in (*_KINDS, _INPUT, _OUTPUT):
            raise FormatError(
                f"op {name!r} has an argument of an unknown kind",
                who=file,
                where=f"argument {told!r}",
                expected=", ".join((*_KINDS, _INPUT, _OUTPUT)),
                got=kind,
            )
        index = _single_value(given, "argIndex", 0, file)
        arguments.append(
            Argument(told, kind, index, _signature_name(told, kind, taken))
        )
    declared = str(_single_value(row, "opDeclarationType", "", file))
    return Descriptor(name, tuple(arguments), declared)


def _single_value(row: Any, field: str, default: Any, file: Path) -> Any:
    """The value of a field that is not repeated; the last one counts."""
    values = row.get(field, (default,)) if isinstance(row, dict) else ()
    if not values or not isinstance(values[-1], type(default)):
        raise FormatError(
            f"field {field!r} of an op descriptor is invalid",
            who=file,
            expected=type(default).__name__,
            got=values[-1:] or row,
        )
    return values[-1]


def _signature_name(name: str, kind: str, taken: set[str]) -> str:
    """A valid name in a signature that no earlier argument has.

    Inputs, outputs and attributes have separate names.
    """
    plain = re.sub(r"[^A-Za-z0-9_.]", "", name).lstrip("0123456789.") or "arg"
    side = kind if kind in (_INPUT, _OUTPUT) else "attribute"
    tries = [plain, f"{plain}.{kind.lower()}"]
    tries += [f"{tries[1]}.{i}" for i in range(2, len(taken) + 3)]
    found = next(each for each in tries if f"{side} {each}" not in taken)
    taken.add(f"{side} {found}")
    return found


def definition_of(op: Descriptor) -> OpDef:
    """A descriptor as an op definition.

    Attributes are in the order of their indices, kind by kind. The file does not mark
    optional ones, so none is required.
    """
    attrs = [
        Attr(argument.called, _KINDS[kind], required=False)
        for kind in sorted(_KINDS)
        for argument in op.of(kind)
    ]
    return OpDef(
        op.name,
        tuple(Port(each.called, _TENSOR, "optional") for each in op.of(_INPUT)),
        tuple(Port(each.called, _TENSOR, "optional") for each in op.of(_OUTPUT)),
        tuple(attrs),
        traits=frozenset(["feedback"] if op.name == _FEEDBACK else []),
        tags=frozenset([f"declared={op.declared}"] if op.declared else []),
    )


def from_file(file: str | Path, version: str = _VERSION) -> DictionaryHistory:
    """The dictionary of one file.

    `from_file(path).at("1")` is the dictionary.
    """
    return from_files({version: file})


def from_files(files: Mapping[str, str | Path]) -> DictionaryHistory:
    """The dictionaries of several states of the file, by version."""
    versions = tuple(sorted(files, key=version_key))
    found = {v: dict(_definitions_in(Path(files[v]))) for v in versions}
    names = sorted({name for entries in found.values() for name in entries})
    blocks = [
        OpHistory(name, "", definition_steps((v, found[v].get(name)) for v in versions))
        for name in names
    ]
    sources = ", ".join(str(files[version]) for version in versions)
    content = encode_data_file(
        DictionaryHeader(PATH, versions, f"nd4j: {sources}"), blocks
    )
    return DictionaryHistory(PATH, lambda: content)


def _definitions_in(file: Path) -> Iterator[tuple[str, OpDef]]:
    seen: set[str] = set()
    for op in descriptors(file):
        if op.name in seen:
            raise FormatError("an op is described twice", who=file, got=repr(op.name))
        seen.add(op.name)
        yield op.name, definition_of(op)


class InstalledHistory:
    """The dictionaries of the files in `AMANDA_ND4J_OPS`, read once."""

    def versions(self) -> Sequence[str]:
        return self.history.versions()

    def at(self, version: str, *, assume: bool = False) -> Dictionary:
        return self.history.at(version, assume=assume)

    @cached_property
    def history(self) -> DictionaryHistory:
        return from_files(installed_files())


def parse_files(text: str) -> Iterable[tuple[str, str]]:
    """Versions and paths: `path`, or a list of `version=path`.

    >>> list(parse_files("ops.pbtxt"))
    [('1', 'ops.pbtxt')]
    """
    parts = [part for part in text.split(os.pathsep) if part]
    if not parts:
        raise NamespaceError(
            "the ops of nd4j are read from a file of yours, and none is named",
            hint=f"set {VARIABLE} to the nd4j-op-def.pbtxt of Deeplearning4j",
        )
    for part in parts:
        found = re.fullmatch(r"(?:([0-9][\w.+-]*)=)?(.+)", part, re.DOTALL)
        assert found is not None, part  # `.+` matches any part
        yield found[1] or _VERSION, found[2]


def installed_files() -> dict[str, str]:
    """The files of descriptors that `AMANDA_ND4J_OPS` names, by version."""
    return dict(parse_files(os.environ.get(VARIABLE, "")))


def installed_descriptors() -> list[Descriptor]:
    """The ops of the newest of these files."""
    files = installed_files()
    return descriptors(Path(files[max(files, key=version_key)]))


ND4J = InstalledHistory()
