"""The host: entries by name, registration, and events."""

from __future__ import annotations

import importlib
import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partialmethod, wraps
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Final

from amanda.current_host import Plugin, PluginCall, use_host
from amanda.errors import (
    AmandaError,
    NamespaceError,
    PluginBrokenError,
    PluginClashError,
    PluginError,
    PluginMissingError,
    UsageError,
)
from amanda.hookspecs import HOOKS
from amanda.host import _manifest
from amanda.host._dist import Distribution, EntryPointName
from amanda.host._entry import PluginEntry, hook_of
from amanda.host._index import Index, by_kind, discover
from amanda.host._kinds import KINDS, object_of, shape_fault
from amanda.host._plugins import PluginInfo, overview

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint
    from pathlib import Path

    from amanda.dictionary import Namespace
    from amanda.graph import Op
    from amanda.host._listeners import Listeners

_log = logging.getLogger("amanda.host")

PROGRAM: Final = "program"
"""The name of the distribution of objects that the program registered."""


class Host:
    """Installed and registered plug-ins. Several hosts may exist at once.

    `points` are entry points to use instead of the installed ones; `only` replaces
    AMANDA_PLUGINS: names of distributions, `none`, or None for all. Metadata is read
    when it is first needed; only `get` imports, and only the entry that it returns.

    >>> host = Host(points=())
    >>> host.register_pass("same", lambda graph: graph)
    >>> host.names("passes")
    ['same']
    >>> host.get("passes", "sane")
    Traceback (most recent call last):
    amanda.errors.PluginMissingError: no pass 'sane' is installed
      expected: one of same
      to do:    did you mean 'same'?
    """

    def __init__(
        self,
        points: Iterable[EntryPoint] | None = None,
        only: str | EllipsisType | None = ...,
    ) -> None:
        self._points = None if points is None else tuple(points)
        self._only = os.environ.get("AMANDA_PLUGINS") if only is ... else only
        self._lock = threading.RLock()  # around changes of the index; never an import
        self._given: tuple[PluginEntry, ...] = ()
        self._found: Index | None = None
        self._listeners: Listeners | None = None
        self._telling = threading.local()
        self.revision = 0
        """How many times the entries changed, so that answers can be kept till then."""
        self.caches: dict[str, Any] = {}
        """Caches of the API, by purpose."""
        self.adapters: dict[type, Any] = {}
        """Functions that convert foreign values in mapping functions, by type."""

    # Listing

    def names(self, kind: str) -> list[str]:
        """The names of a kind, sorted. Imports nothing."""
        return sorted(
            {entry.name for entry in self._index().entries[_expect_kind(kind)]}
        )

    def entries(self, kind: str | None = None) -> list[PluginEntry]:
        """Every entry, or those of a kind, by kind and name. Imports nothing."""
        kinds = KINDS if kind is None else (_expect_kind(kind),)
        index = self._index()
        return [entry for kind in kinds for entry in index.entries[kind]]

    def plugins(self) -> list[PluginInfo]:
        """Every distribution with plug-ins, with its state. Imports none of them."""
        index = self._index()
        return overview(self.entries(), index.off, index.faulty)

    def probe(self, dist: str, limit: float = 60.0) -> PluginInfo:
        """Load a distribution in a separate process, for at most `limit` seconds."""
        from amanda.host._probe import probe_distribution

        return probe_distribution(self.plugins(), dist, limit)

    def notices(self) -> tuple[str, ...]:
        """Faults of the settings, such as unknown names in AMANDA_PLUGINS."""
        return self._index().notices

    # Choosing

    def find(self, kind: str, name: str) -> PluginEntry:
        """The entry of this name; `dist:name` if several have it."""
        return self._index().choose(_expect_kind(kind), name)

    def has(self, kind: str, name: str) -> bool:
        """Whether there is an entry of this name, or several. Imports nothing."""
        return bool(self._index().claiming(_expect_kind(kind), name))

    def get(self, kind: str, name: str) -> Any:
        """The object of this name, imported on first use."""
        return self.load(self.find(kind, name))

    def load(self, entry: PluginEntry) -> Any:
        """The object of an entry; a fault is reported to listeners."""
        try:
            with use_host(self):
                return entry.load()
        except PluginError:
            self._tell(entry, entry.fault, log=False)  # the caller gets the error
            raise

    def calling(
        self,
        entry: Plugin,
        doing: str,
        error: type[AmandaError],
        passing: tuple[type[Exception], ...] = (),
    ) -> PluginCall[Host]:
        """A context for code of a plug-in, with this host in use.

        What it raises becomes an `error` that names the plug-in, except for errors of
        Amanda and those of `passing`.
        """
        return PluginCall(self, entry, doing, error, passing)

    def function(
        self, entry: PluginEntry, doing: str, error: type[AmandaError]
    ) -> Callable[..., Any]:
        """The function of an entry; what it raises becomes an `error`, as above."""
        function: Callable[..., Any] = self.load(entry)

        @wraps(function, updated=())
        def call_plugin(*arguments: Any, **named: Any) -> Any:
            with self.calling(entry, doing, error):
                return function(*arguments, **named)

        return call_plugin

    # Namespaces

    def namespace(self, name: str, *, assume: bool = False) -> Namespace:
        """The dictionary of a namespace: see `amanda.namespace`."""
        from amanda.host._namespaces import open_namespace

        return open_namespace(self, name, assume=assume)

    def namespace_versions(self, path: str | None = None) -> dict[str, Sequence[str]]:
        """Paths of the installed dictionaries, with the versions in their manifests.

        The provider of `path` is asked for them where its manifest has none.
        """
        from amanda.host._namespaces import namespace_versions

        return namespace_versions(self, path)

    def namespace_plugin(self, name: str | None) -> Plugin:
        """The plug-in that provides a namespace, for errors of its definitions."""
        from amanda.host._namespaces import namespace_plugin

        return namespace_plugin(self, name)

    def definition(self, op: Op) -> Any:
        """The definition of an op in the dictionary of its namespace, or None."""
        if op.type is None or op.namespace is None:
            return None
        opened = self.caches.setdefault("dictionaries", {})
        key = (self.revision, op.namespace)
        known = opened.get(key)
        if known is None:
            try:
                known = opened[key] = self.namespace(op.namespace)
            except NamespaceError:
                return None
        return known[op.type] if op.type in known else None  # noqa: SIM401

    # Formats

    def format_to_read(self, source: object, format: str | None = None) -> PluginEntry:
        """The format that reads a path or a live object; `format` names it."""
        from amanda.host._detect import format_that_reads

        return format_that_reads(self, source, format)

    def format_to_write(
        self, path: Path, format: str | None = None, namespace: str | None = None
    ) -> PluginEntry:
        """The format that writes a path; `format` names it.

        A folder, and a path without a suffix, is written by a format of `namespace`.
        """
        from amanda.host._detect import format_that_writes

        return format_that_writes(self, path, format, namespace)

    # Registering

    def register(
        self,
        kind: str,
        name: str,
        thing: object,
        *,
        manifest: Mapping[str, Any] | None = None,
        replace: bool = False,
    ) -> None:
        """Register an object in this host, as an entry point would.

        A class of a backend, a format and the like is called once. `manifest` has the
        keys of a table in `amanda-plugin.toml`. Registering a name twice is an error
        unless `replace` is true.
        """
        entry = _registered_entry(_expect_kind(kind), name, thing, manifest or {})
        with self._lock:
            same = [e for e in self._given if (e.kind, e.name) == (kind, name)]
            if kind == "hooks" and not replace:
                same = []  # a hook may have any number of listeners
            if same and not replace:
                raise PluginClashError(
                    f"{KINDS[kind].one} {name!r} is registered already",
                    hint="unregister it first, or pass replace=True",
                )
            self._change([*(e for e in self._given if e not in same), entry])

    register_namespace = partialmethod(register, "namespaces")
    register_extractor = partialmethod(register, "extractors")
    register_mapping = partialmethod(register, "mappings")
    register_format = partialmethod(register, "formats")
    register_array_format = partialmethod(register, "arrays")
    register_backend = partialmethod(register, "backends")
    register_kernel_library = partialmethod(register, "kernels")
    register_pass = partialmethod(register, "passes")
    register_tool = partialmethod(register, "tools")
    register_command = partialmethod(register, "commands")
    register_scoreboard = partialmethod(register, "scoreboards")
    register_callback = partialmethod(register, "callbacks")
    register_hook = partialmethod(register, "hooks")

    def unregister(self, kind: str, name: str) -> None:
        """Remove a registered object; installed ones stay."""
        with self._lock:
            place = (_expect_kind(kind), name)
            same = [e for e in self._given if (e.kind, e.name) == place]
            if not same:
                raise PluginMissingError(f"no {KINDS[kind].one} {name!r} is registered")
            self._change([e for e in self._given if e not in same])

    def refresh(self) -> None:
        """Read the metadata again, and forget earlier failures."""
        importlib.invalidate_caches()
        with self._lock:
            self._found = None
            self._listeners = None
            self.revision += 1

    # Events

    def fire(self, hook: str, **event: Any) -> Any:
        """Call the listeners of a hook; see `amanda.hookspecs` for the hooks.

        Imports the listeners of this hook, and pluggy, if there are any. Returns their
        results that are not None, or the first one, depending on the hook.
        """
        if hook not in HOOKS:
            raise UsageError(
                f"there is no hook {hook!r}", expected=f"one of {', '.join(HOOKS)}"
            )
        entries = [e for e in self._index().entries["hooks"] if hook_of(e) == hook]
        if not entries:
            return None if HOOKS[hook].first_result else []
        with self._lock:
            if self._listeners is None:
                from amanda.host._listeners import Listeners

                self._listeners = Listeners(self._tell)
            listeners = self._listeners
        with use_host(self):
            return listeners.fire(hook, entries, event)

    def listens(self, *hooks: str) -> bool:
        """Whether anything listens to one of these hooks, or to any."""
        entries = self._index().entries["hooks"]
        if not hooks:
            return bool(entries)
        return any(hook_of(entry) in hooks for entry in entries)

    def _tell(self, entry: PluginEntry, fault: str, *, log: bool = True) -> None:
        """Record a fault; the first time, log it and fire `plugin_faulted`."""
        if not entry.record_fault(fault):
            return
        if log:
            _log.warning("%s: %s", entry.what, fault)
        if getattr(self._telling, "busy", False):
            return  # the listener itself has a fault
        self._telling.busy = True
        try:
            self.fire(
                "plugin_faulted",
                dist=entry.dist,
                kind=entry.kind,
                name=entry.name,
                fault=fault,
            )
        finally:
            self._telling.busy = False

    # Discovery

    def _index(self) -> Index:
        found = self._found
        if found is None:
            with self._lock:
                found = self._found
                if found is None:
                    found = discover(self._points, self._only)
                    found = self._found = _replace_registered(found, self._given)
                    for notice in found.notices:
                        _log.warning("%s", notice)
        return found

    def _change(self, given: Iterable[PluginEntry]) -> None:
        """Replace the registered entries; the caller holds the lock."""
        self._given = tuple(given)
        self._listeners = None
        if self._found is not None:
            self._found = _replace_registered(self._found, self._given)
        self.revision += 1  # last: who sees the new number sees the new entries


def _replace_registered(index: Index, given: Iterable[PluginEntry]) -> Index:
    """The index with other registered entries."""
    every = [entry for entries in index.entries.values() for entry in entries]
    every = [entry for entry in every if entry.source.key != PROGRAM]
    return index._replace(entries=by_kind([*every, *given]))


def _expect_kind(kind: str) -> str:
    if kind not in KINDS:
        raise UsageError(
            f"there is no kind of plug-in {kind!r}",
            expected=f"one of {', '.join(KINDS)}",
        )
    return kind


def _registered_entry(
    kind: str, name: str, thing: object, manifest: Mapping[str, Any]
) -> PluginEntry:
    """The entry of a registered object, which is checked at once."""
    what = f"{KINDS[kind].one} {name!r}"
    if faults := _manifest.faults_in_row(kind, manifest):
        raise UsageError(f"the manifest of {what} is faulty", problems=faults)
    try:
        thing = object_of(kind, thing)
    except TypeError as error:
        raise UsageError(
            f"{what} cannot be created from its class",
            got=error,
            hint="register an object, or a class that is called without arguments",
        ) from error
    entry = PluginEntry(
        Distribution(None, PROGRAM),
        EntryPointName(kind, name, ""),
        thing=thing,
        row=manifest,
    )
    fault = entry.fault or shape_fault(kind, thing)
    if kind == "hooks" and not fault:
        from amanda.host._listeners import listener_fault

        fault = listener_fault(hook_of(entry), thing)
    if fault:
        raise PluginBrokenError(f"{what} cannot be registered", got=fault)
    return entry
