"""Dictionaries of namespaces, by name and version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from amanda.dictionary import parse_name, resolve_name, version_key
from amanda.errors import NamespaceError, PluginBrokenError

if TYPE_CHECKING:
    from amanda.dictionary import Namespace
    from amanda.host._entry import PluginEntry
    from amanda.host._host import Host


def open_namespace(host: Host, name: str, *, assume: bool) -> Namespace:
    """The dictionary of a namespace in a host; its provider is imported."""
    path = parse_name(name).path
    versions = namespace_versions(host)
    provider: Any = None
    if path in versions:
        entry = _provider_entry(host, path)
        provider = host.load(entry)
        if not versions[path]:
            with host.calling(entry, "listing its versions", PluginBrokenError):
                versions[path] = list(provider.versions())
    full = resolve_name(name, versions, assume=assume)
    if provider is None or full.version is None:
        raise NamespaceError(f"{full} has no version")
    asked = parse_name(name).version or full.version
    with host.calling(entry, f"opening {full}", PluginBrokenError):
        if version_key(asked) != version_key(full.version):
            return provider.at(asked, assume=True)  # type: ignore[no-any-return]
        return provider.at(full.version)  # type: ignore[no-any-return]


def namespace_versions(host: Host) -> dict[str, Sequence[str]]:
    """Paths of the installed dictionaries, with the versions in their manifests."""
    return {
        _path(entry): list(entry.manifest.get("versions", ()))
        for entry in host.entries("namespaces")
        if not entry.fault
    }


def _provider_entry(host: Host, path: str) -> PluginEntry:
    name = next(e.name for e in host.entries("namespaces") if _path(e) == path)
    return host.find("namespaces", name)


def _path(entry: PluginEntry) -> str:
    return parse_name(entry.name).path
