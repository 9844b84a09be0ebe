"""Making data files: from a framework, from what was extracted before, and comparing.

A vocabulary is made by a `Generator`, which a plug-in offers under the name of the
vocabulary in the entry-point group `amanda.vocabularies`. `live` asks the framework
that is installed; `made` gives the history of all versions, from raw data where the
framework knows one version only. What is here is what all of them share: packing,
putting one more version into a history, writing files and index, comparing.

Raw data is a text of JSON lines. The first has the versions, then comes a line for each
op, with what it is from which version on (by place), null where it is gone:

    {"versions": ["1.0", "1.1", "2.0"]}
    ["MatMul", [[0, {...}], [2, {...}]]]
    ["Wave", [[1, {...}], [2, null]]]
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from amanda.dictionary.datafile import GONE, Block, Header, packed
from amanda.dictionary.history import Dictionary, History
from amanda.dictionary.model import OpDef
from amanda.dictionary.names import version_key
from amanda.dictionary.patterns import Pattern
from amanda.dictionary.shelf import INDEX
from amanda.dictionary.signature import parse_signature, terms
from amanda.errors import AmandaError, NamespaceError, PluginMissingError
from amanda.files.atomic import replacing
from amanda.types import DType
from amanda.types.dtypes import all_names

__all__ = [
    "Check",
    "Generator",
    "Live",
    "Made",
    "Raw",
    "blocks_of",
    "checked",
    "doc_line",
    "framework",
    "history",
    "manifest_text",
    "merged",
    "ordered",
    "raw_data",
    "save",
]

_ORDER = {name: i for i, name in enumerate(all_names())}


class Made(NamedTuple):
    """All of a vocabulary: what a data file holds."""

    header: Header
    blocks: list[Block]

    def packed(self) -> bytes:
        return packed(self.header, self.blocks)


class Live(NamedTuple):
    """What an installed framework says of itself: every entry, by version.

    Most frameworks know one version, their own. `source` says where it was read, such
    as `onnx 1.23.2`.
    """

    source: str
    versions: Mapping[str, Sequence[OpDef]]


class Generator:
    """Makes one vocabulary. Plug-ins derive from it; `live` is enough to begin with.

    - `header`: what holds for the vocabulary, without its versions
    - `waivers`: where data and framework may differ: the op, and the reason. One that
      is not needed is a fault.
    """

    header: Header
    waivers: Mapping[str, str] = MappingProxyType({})

    @property
    def path(self) -> str:
        """The vocabulary, such as `amanda/tensorflow`."""
        return self.header.namespace

    def live(self) -> Live:
        """What the installed framework says; `PluginMissingError` where none is."""
        raise NotImplementedError

    def made(self, raw: Path | None) -> Made | None:  # noqa: ARG002
        """All versions, from a folder of raw data, or from the framework alone.

        None where `raw` is not what this vocabulary is made from: the version that is
        installed is then put into the history that there is.
        """
        return None


@contextmanager
def framework(module: str, install: str) -> Iterator[None]:
    """Around importing a framework: where it is not there, an error says what to do."""
    try:
        yield
    except ImportError as error:
        raise PluginMissingError(
            f"{module} is not installed, and its dictionary is made from it",
            got=error,
            hint=f"pip install {install}",
        ) from error


# -- histories ---------------------------------------------------------------------


def history(
    steps: Iterable[tuple[str, OpDef | None]], *, always: bool = False
) -> tuple[tuple[str, str], ...]:
    """Versions and definitions; one that is as before counts only `always`.

    >>> a, b = parse_signature("A(x: f32) -> ()"), parse_signature("A() -> ()")
    >>> history([("1", a), ("2", a), ("3", b), ("4", None)])
    (('1', '(x: f32) -> ()'), ('3', '() -> ()'), ('4', 'gone'))
    """
    found: list[tuple[str, str]] = []
    before: OpDef | None = None
    for version, entry in steps:
        if entry is before and not always:  # as most are: no text needs to be made
            continue
        before = entry
        text = GONE if entry is None else text_of(entry)
        if always or (found[-1][1] if found else GONE) != text:
            found.append((version, text))
    return tuple(found)


def text_of(entry: OpDef) -> str:
    """The definition of an entry as files have it; it can be read back, or is refused.

    A default that is a NaN, or a name with a bracket in it, is found here and not by
    whoever reads the file.
    """
    text = terms(entry)
    try:
        read = parse_signature(entry.name + text)
    except AmandaError as error:
        raise NamespaceError(
            f"the definition of {entry.name} cannot be read back",
            got=entry.name + text,
            where=error.message,
        ) from error
    if read != entry or entry.name != read.name or "\n" in text:
        raise NamespaceError(
            f"the definition of {entry.name} reads back as another one",
            expected=entry.name + text,
            got=read,
        )
    return text


def merged(before: History | None, generator: Generator, live: Live) -> Made:
    """A history with the versions of the installed framework in it.

    A version that it has already is replaced, but for what is waived, which stays as it
    was; the line about an op is that of the newest version. `before` is None where
    there is no history.
    """
    known = () if before is None else before.versions()
    versions = tuple(sorted({*known, *live.versions}, key=version_key))
    found: dict[str, dict[str, OpDef]] = {}
    for version, entries in live.versions.items():
        every = _entries(generator.path, version, entries)
        found[version] = {n: e for n, e in every.items() if n not in generator.waivers}
    lines = {n: e.doc for v in versions for n, e in found.get(v, {}).items()}
    blocks = []
    for name in sorted({*lines, *(() if before is None else before.names)}):
        steps: list[tuple[str, str]] = []
        for version in versions:
            text = _definition(before, name, version)
            if name in generator.waivers and version not in known and steps:
                text = steps[-1][1]
            elif version in found and name not in generator.waivers:
                text = text_of(found[version][name]) if name in found[version] else GONE
            if text != (steps[-1][1] if steps else GONE):
                steps.append((version, text))
        record = None if before is None else before.record(name)
        told = "" if record is None else record.block.doc
        line = lines.get(name, "")
        doc = line or told if versions[-1] in found else told or line
        if steps:
            blocks.append(Block(name, doc, tuple(steps)))
    source = generator.header.source or live.source
    return Made(replace(generator.header, versions=versions, source=source), blocks)


def _definition(data: History | None, name: str, version: str) -> str:
    """What a history has of an op; of a version that it does not have, nothing."""
    record = None if data is None else data.record(name)
    if data is None or record is None or version not in data.order:
        return GONE
    step = record.step(data.order[version])
    return GONE if step is None else record.block.steps[step][1]


def _entries(path: str, version: str, entries: Iterable[OpDef]) -> dict[str, OpDef]:
    """Entries by name; two of one name would hide each other."""
    found: dict[str, OpDef] = {}
    for entry in entries:
        if entry.name in found:
            raise NamespaceError(
                f"{path} {version} has {entry.name} twice",
                got=f"{found[entry.name]}, and {entry}",
            )
        found[entry.name] = entry
    return found


def ordered(patterns: Iterable[Pattern]) -> tuple[Pattern, ...]:
    """Element types in the order of their table, then other types by their text."""

    def place(pattern: Pattern) -> tuple[int, str]:
        if isinstance(pattern, DType):
            return _ORDER[pattern.name], ""
        return len(_ORDER), str(pattern)

    return tuple(sorted(set(patterns), key=place))


def doc_line(text: str) -> str:
    """The first sentence, without marks.

    >>> doc_line("\\nRelu takes *one* input.\\nMore follows.")
    'Relu takes one input.'
    """
    words = re.sub(r"<[^>]*>|[*`]|\$\$?", "", text.strip().partition("\n\n")[0])
    words = " ".join(words.split())
    sentence = re.match(r".*?[.:](?= [A-Z]|$)", words)
    line = sentence[0] if sentence else words
    return line if len(line) <= 200 else f"{line[:197].rpartition(' ')[0]} ..."


# -- raw data ----------------------------------------------------------------------


class Raw(NamedTuple):
    """What was extracted from many releases: versions, and the steps of each op."""

    versions: tuple[str, ...]
    ops: Mapping[str, Sequence[tuple[str, Any]]]

    def tables(self) -> dict[str, dict[str, Any]]:
        """What was extracted of each op, in each version."""
        steps = {name: dict(found) for name, found in self.ops.items()}
        now: dict[str, Any] = {}
        tables: dict[str, dict[str, Any]] = {}
        for version in self.versions:
            now |= {n: found[version] for n, found in steps.items() if version in found}
            tables[version] = {n: row for n, row in now.items() if row is not None}
        return tables


def raw_data(file: Path, *others: Path) -> Raw:
    """A file of raw data; None in the steps of an op means that it is gone.

    Versions that other files have are as these have them.
    """
    found = _raw_data(file)
    if not others:
        return found
    tables = found.tables()
    for other in others:
        tables |= _raw_data(other).tables()
    versions = tuple(sorted(tables, key=version_key))
    steps: dict[str, list[tuple[str, Any]]] = {}
    for version in versions:
        for name in sorted({*steps, *tables[version]}):
            row = tables[version].get(name)
            before = steps.setdefault(name, [])
            if row != (before[-1][1] if before else None):
                before.append((version, row))
    return Raw(versions, dict(sorted(steps.items())))


def _raw_data(file: Path) -> Raw:
    try:
        first, *rest = file.read_text(encoding="utf-8").splitlines()
        versions = tuple(map(str, json.loads(first)["versions"]))
        lines = [json.loads(line) for line in rest]
        ops = {
            name: [(versions[at], found) for at, found in steps]
            for name, steps in lines
        }
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise NamespaceError(
            "this is no raw data of a vocabulary",
            who=file,
            expected="JSON lines: versions, then an op in each",
            got=error,
        ) from error
    return Raw(versions, ops)


def blocks_of(
    raw: Raw,
    entry: Callable[[str, Any], OpDef],
    docs: Mapping[str, str] | None = None,
) -> list[Block]:
    """The blocks of raw data; `entry` makes one of a name and what was extracted."""
    docs = docs or {}
    return [
        Block(
            name,
            docs.get(name, ""),
            history((v, None if x is None else entry(name, x)) for v, x in steps),
        )
        for name, steps in raw.ops.items()
    ]


# -- comparing ---------------------------------------------------------------------


@dataclass(frozen=True)
class Check:
    """How the data is beside the installed framework.

    - `compared`: how many entries, in the versions `versions`
    - `faults`: what differs, a line each, and waivers that nothing needs
    - `waived`: what differs for a reason that the generator gives
    - `unknown`: versions of the framework that the data does not have
    """

    path: str
    source: str
    versions: tuple[str, ...]
    compared: int
    faults: tuple[str, ...] = ()
    waived: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def is_same(self) -> bool:
        """Nothing differs, and something was compared."""
        return bool(self.compared) and not self.faults

    @property
    def told(self) -> str:
        """In a line, as the index of the data keeps it."""
        waived = f", {len(self.waived)} waived" if self.waived else ""
        return (
            f"{self.source}: {self.compared:,} entries, "
            f"{len(self.faults)} differences{waived}"
        )


def checked(generator: Generator, data: History) -> Check:
    """Compares what the installed framework says with what the data says of it."""
    live = generator.live()
    faults: list[str] = []
    waived: list[str] = []
    unused = set(generator.waivers)
    compared = 0
    known = [version for version in live.versions if version in data.order]
    for version in known:
        there = _entries(generator.path, version, live.versions[version])
        here = data.at(version)
        compared += len(there.keys() | set(here))
        for name, fault in _differing(there, here, version == data.versions()[-1]):
            line = f"{version} {name}: {fault}"
            if name in generator.waivers:
                unused.discard(name)
                waived.append(f"{line} ({generator.waivers[name]})")
            else:
                faults.append(line)
    if known:
        faults += [f"the waiver of {name} is not needed" for name in sorted(unused)]
    return Check(
        generator.path,
        live.source,
        tuple(known),
        compared,
        tuple(faults),
        tuple(waived),
        tuple(version for version in live.versions if version not in data.order),
    )


def _differing(
    there: Mapping[str, OpDef], here: Dictionary, newest: bool
) -> Iterator[tuple[str, str]]:
    """Ops and how they differ; lines about ops are those of the newest version."""
    for name in sorted(there.keys() | set(here)):
        entry, held = there.get(name), here.get(name)
        if held is None:
            yield name, f"the framework has it, the data does not: {entry}"
        elif entry is None:
            yield name, f"the data has it, the framework does not: {held}"
        elif entry != held:
            yield name, f"the framework has {entry}, the data {held}"
        elif newest and entry.doc and entry.doc != held.doc:
            yield name, f"the framework says {entry.doc!r}, the data {held.doc!r}"


# -- the files ---------------------------------------------------------------------


def save(made: Made, folder: Path, checked: str = "") -> str:
    """Writes the data file, the index and the manifest; the name of the file.

    `checked` is what the data was compared with, for those who read the index.
    """
    head, blocks = made
    data = made.packed()
    file = f"{head.namespace.partition('/')[2]}.ops"
    _write(folder / file, data)
    index_file = folder / INDEX
    index: dict[str, Any] = {"schema": 1, "namespaces": {}}
    if index_file.exists():
        index = json.loads(index_file.read_text(encoding="utf-8"))
    index["namespaces"][head.namespace] = {
        "file": file,
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "source": head.source,
        "versions": list(head.versions),
        "ops": len(blocks),
        "newest": sum(block.steps[-1][1] != GONE for block in blocks),
        "checked": checked,
    }
    index["namespaces"] = dict(sorted(index["namespaces"].items()))
    _write(index_file, index_text(index).encode())
    manifest = manifest_text(index["namespaces"])
    _write(folder / "amanda-plugin.toml", manifest.encode())
    return file


def _write(file: Path, content: bytes) -> None:
    with replacing(file) as stream:
        stream.write(content)


def index_text(index: Mapping[str, Any]) -> str:
    """JSON with a list on one line, so that a new version changes one line."""
    text = json.dumps(index, indent=2)
    lists = re.compile(r"\[\s+([^\]]*?)\s+\]")
    return lists.sub(lambda m: "[" + re.sub(r",\s+", ", ", m[1]) + "]", text) + "\n"


def manifest_text(namespaces: Mapping[str, Mapping[str, Any]]) -> str:
    """What `amanda-plugin.toml` says of the vocabularies of an index."""
    parts = [
        "# What this distribution brings; `amanda namespace regenerate` writes it.\n"
        "manifest = 1\n"
    ]
    for path, row in namespaces.items():
        name = path.removeprefix("amanda/")
        versions = ", ".join(json.dumps(version) for version in row["versions"])
        parts.append(
            f'[namespaces."{name}"]\n'
            f'doc = "{row["newest"]} ops, from {row["source"]}"\n'
            f"versions = [{versions}]\n"
            'tier = "beta"\n'
        )
    return "\n".join(parts)
