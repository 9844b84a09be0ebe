"""Dictionaries of namespaces, and definitions of ops in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from amanda.dictionary import parse_name, resolve, version_key
from amanda.errors import NamespaceError, PluginBrokenError
from amanda.host import called, default_host

if TYPE_CHECKING:
    from amanda.dictionary import Namespace
    from amanda.graph import Op
    from amanda.host import Entry, Host, PluginInfo

__all__ = ["definition", "known_versions", "namespace", "plugins"]


def namespace(
    name: str, *, assume: bool = False, host: Host | None = None
) -> Namespace:
    """The dictionary of a namespace: `onnx@18`, `amanda/onnx/18`, `torch` (newest).

    With `assume` the nearest lower version stands for one that is not known, and the
    dictionary says so in `assumed`.
    """
    host = host or default_host()
    path = parse_name(name).path
    versions = known_versions(host)
    vocabulary = None
    if path in versions:
        entry = host.find("namespaces", _entry_name(host, path))
        vocabulary = host.load(entry)
        if not versions[path]:
            with called(entry, "listing its versions", PluginBrokenError):
                versions[path] = list(vocabulary.versions())
    full = resolve(name, versions, assume=assume)
    if vocabulary is None or full.version is None:
        raise NamespaceError(f"{full} has no version")
    asked = parse_name(name).version or full.version
    with called(entry, f"opening {full}", PluginBrokenError):
        if version_key(asked) != version_key(full.version):
            return vocabulary.at(asked, assume=True)  # type: ignore[no-any-return]
        return vocabulary.at(full.version)  # type: ignore[no-any-return]


def known_versions(host: Host) -> dict[str, Sequence[str]]:
    """Paths of the installed dictionaries, with the versions that manifests list."""
    known: dict[str, Sequence[str]] = {}
    for entry in host.entries("namespaces"):
        if not entry.fault:
            known[_path(entry)] = list(entry.manifest.get("versions", ()))
    return known


def _entry_name(host: Host, path: str) -> str:
    return next(e.name for e in host.entries("namespaces") if _path(e) == path)


def _path(entry: Entry) -> str:
    return parse_name(entry.name).path


def definition(op: Op, *, host: Host | None = None) -> Any:
    """The entry of an op in the dictionary of its namespace; None where there is none.

    `op.definition` is the same, by the default host.
    """
    if op.type is None or op.namespace is None:
        return None
    try:
        known = namespace(op.namespace, host=host)
    except NamespaceError:
        return None
    if op.type not in known:
        return None
    return known[op.type]


def plugins(*, host: Host | None = None) -> list[PluginInfo]:
    """Every plug-in that is installed, with its state. Imports none of them."""
    return (host or default_host()).plugins()
