"""Installed mappings with rules, and rule files of the user."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from amanda.errors import AmandaError, FormatError, PluginBrokenError, UsageError

if TYPE_CHECKING:
    from amanda.host import PluginEntry
    from amanda.mapping import RuleMapping

__all__ = [
    "InstalledMapping",
    "installed_mappings",
    "newest_version",
    "use_rule_files",
    "find_rule_mapping",
]


class InstalledMapping(NamedTuple):
    """A mapping, with its entry."""

    entry: PluginEntry
    mapping: RuleMapping

    @property
    def ends(self) -> tuple[str, str]:
        return self.mapping.rules.left, self.mapping.rules.right

    def calling(self, doing: str) -> AbstractContextManager[object]:
        """A context for code of the mapping, whose errors name its plug-in."""
        from amanda.host import default_host

        return default_host().calling(self.entry, doing, PluginBrokenError)


def installed_mappings() -> list[InstalledMapping]:
    """All installed mappings with rules, without those that fail to load."""
    from amanda.host import default_host
    from amanda.mapping import RuleMapping

    host, found = default_host(), []
    for entry in host.entries("mappings"):
        try:
            mapping = host.load(entry)
            if isinstance(mapping, RuleMapping) and mapping.rules is not None:
                found.append(InstalledMapping(entry, mapping))
        except AmandaError:
            continue  # `amanda plugins` reports it
    return found


def find_rule_mapping(name: str) -> InstalledMapping:
    """The mapping of this name."""
    from amanda.host import default_host
    from amanda.mapping import RuleMapping

    host = default_host()
    entry = host.find("mappings", name)
    mapping = host.load(entry)
    if not isinstance(mapping, RuleMapping):
        raise UsageError(f"the mapping {name} has no rules")
    return InstalledMapping(entry, mapping)


def newest_version(path: str) -> str:
    """The newest version of a framework that is installed."""
    from amanda.api.namespaces import namespace

    return namespace(path).name


@contextmanager
def use_rule_files(files: Sequence[str]) -> Iterator[None]:
    """Within this context, conversions try the rules of these files first.

    The header of a file names its two frameworks. The rules extend the mapping between
    them, if one is installed.
    """
    from amanda.host import default_host

    host = default_host()
    names: list[str] = []
    try:
        for file in files:
            name, mapping, manifest = _mapping_with_file(Path(file))
            host.register_mapping(name, mapping, manifest=manifest)
            names.append(name)
        yield
    finally:
        for name in names:
            host.unregister("mappings", name)


def _mapping_with_file(path: Path) -> tuple[str, Any, dict[str, Any]]:
    from amanda.dictionary import parse_span
    from amanda.mapping import RuleMapping, RuleSet
    from amanda.mapping.rules.rule_file import file_ends

    told = file_ends(path)
    if told is None:
        raise FormatError(
            "a rule file in plain text does not name its frameworks",
            where=path,
            hint="write it as YAML, with source, target and rules: |",
        )
    source, target = (parse_span(end) for end in told)
    name = f"({path.name})"  # sorts before installed ones
    for there in installed_mappings():
        if there.ends == (source.path, target.path):
            manifest = dict(there.entry.manifest)
            return name, there.mapping.with_rules(path), manifest
    rules = RuleSet(path.name, source.path, target.path)
    rules.load(path)
    manifest = {"from": told[0], "to": told[1], "both": True}
    return name, RuleMapping(_dictionary_side, _dictionary_side, rules), manifest


def _dictionary_side(name: str) -> Any:
    """The side of a namespace that has only a dictionary."""
    from amanda.api.namespaces import namespace
    from amanda.mapping import PlainSide

    dictionary: Any = namespace(name, assume=True)
    return PlainSide(name, dictionary.signature)
