"""Compare a dictionary with the installed framework."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from amanda.dictionary import Dictionary, DictionaryHistory, OpDef
from amanda_dictionaries_dev.extractor import Extractor, definitions_by_name

__all__ = ["Comparison", "compare"]


@dataclass(frozen=True)
class Comparison:
    """The differences between a dictionary and the installed framework.

    - `compared`: the number of op definitions compared, in the versions `versions`
    - `faults`: the differences, one line each, and unused waivers
    - `waived`: differences for which the extractor states a reason
    - `unknown`: versions of the framework that the dictionary lacks
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
        """True where something was compared and nothing differs."""
        return bool(self.compared) and not self.faults

    @property
    def summary(self) -> str:
        """One line, as the index of the data folder records it."""
        waived = f", {len(self.waived)} waived" if self.waived else ""
        return (
            f"{self.source}: {self.compared:,} entries, "
            f"{len(self.faults)} differences{waived}"
        )


def compare(extractor: Extractor, history: DictionaryHistory) -> Comparison:
    """Compare the op definitions of the installed framework with a dictionary's."""
    installed = extractor.installed_ops()
    faults: list[str] = []
    waived: list[str] = []
    unused = set(extractor.waivers)
    compared = 0
    known = [version for version in installed.versions if version in history.order]
    for version in known:
        expected = definitions_by_name(
            extractor.path, version, installed.versions[version]
        )
        dictionary = history.at(version)
        compared += len(expected.keys() | set(dictionary))
        newest = version == history.versions()[-1]
        for name, fault in _differences(expected, dictionary, newest):
            line = f"{version} {name}: {fault}"
            if name in extractor.waivers:
                unused.discard(name)
                waived.append(f"{line} ({extractor.waivers[name]})")
            else:
                faults.append(line)
    if known:
        faults += [f"the waiver of {name} is not needed" for name in sorted(unused)]
    return Comparison(
        extractor.path,
        installed.source,
        tuple(known),
        compared,
        tuple(faults),
        tuple(waived),
        tuple(each for each in installed.versions if each not in history.order),
    )


def _differences(
    expected: Mapping[str, OpDef], dictionary: Dictionary, newest: bool
) -> Iterator[tuple[str, str]]:
    """Ops that differ, and how. Documentation is compared for the newest version."""
    for name in sorted(expected.keys() | set(dictionary)):
        theirs, ours = expected.get(name), dictionary.get(name)
        if ours is None:
            yield name, f"in the framework, but not in the dictionary: {theirs}"
        elif theirs is None:
            yield name, f"in the dictionary, but not in the framework: {ours}"
        elif theirs != ours:
            yield name, f"the framework has {theirs}, the dictionary {ours}"
        elif newest and theirs.doc and theirs.doc != ours.doc:
            docs = f"{theirs.doc!r}, in the dictionary {ours.doc!r}"
            yield name, f"documented in the framework as {docs}"
