"""Dictionaries of namespaces, by name and version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from amanda.current_host import NamedPlugin, Plugin
from amanda.dictionary import parse_name, resolve_name, version_key
from amanda.errors import NamespaceError, PluginBrokenError

if TYPE_CHECKING:
    from amanda.dictionary import Namespace
    from amanda.host._entry import PluginEntry
    from amanda.host._host import Host

_NEEDED: Final = ("name", "__contains__", "__getitem__", "__iter__")


def open_namespace(host: Host, name: str, *, assume: bool) -> Namespace:
    """The dictionary of a namespace in a host; its provider is imported."""
    path = parse_name(name).path
    versions = namespace_versions(host, path)
    provider: Any = None
    if path in versions:
        entry = _provider_entry(host, path)
        provider = host.load(entry)
    full = resolve_name(name, versions, assume=assume)
    if provider is None or full.version is None:
        raise NamespaceError(f"{full} has no version")
    asked = parse_name(name).version or full.version
    found: Any
    with host.calling(entry, f"opening {full}", PluginBrokenError):
        if version_key(asked) != version_key(full.version):
            found = provider.at(asked, assume=True)
        else:
            found = provider.at(full.version)
        missing = [name for name in _NEEDED if not hasattr(found, name)]
    if missing:
        raise PluginBrokenError(
            f"{entry.what} returned no dictionary for {full}",
            expected=f"an object with {', '.join(_NEEDED)}",
            got=f"{type(found).__name__}, without {', '.join(missing)}",
            hint=entry.remedy,
        )
    return found  # type: ignore[no-any-return]


def namespace_plugin(host: Host, name: str | None) -> Plugin:
    """The plug-in that provides a namespace, for errors of its definitions."""
    if name is not None:
        try:
            path = parse_name(name).path
        except NamespaceError:
            path = ""
        for entry in host.entries("namespaces"):
            if not entry.fault and _path(entry) == path:
                return entry
    return NamedPlugin(f"the namespace {name}")


def namespace_versions(host: Host, path: str | None = None) -> dict[str, Sequence[str]]:
    """Paths of the installed dictionaries, with the versions in their manifests.

    The provider of `path` is asked for them where its manifest has none.
    """
    versions: dict[str, Sequence[str]] = {
        _path(entry): list(entry.manifest.get("versions", ()))
        for entry in host.entries("namespaces")
        if not entry.fault
    }
    if path is not None and path in versions and not versions[path]:
        entry = _provider_entry(host, path)
        provider: Any = host.load(entry)
        with host.calling(entry, "listing its versions", PluginBrokenError):
            versions[path] = [str(version) for version in provider.versions()]
    return versions


def _provider_entry(host: Host, path: str) -> PluginEntry:
    name = next(e.name for e in host.entries("namespaces") if _path(e) == path)
    return host.find("namespaces", name)


def _path(entry: PluginEntry) -> str:
    return parse_name(entry.name).path
