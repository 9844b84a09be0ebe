"""Entries: entry points with their origin and state, and how they are loaded."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, Final

from amanda.current_host import PluginCall, error_text
from amanda.errors import PluginBrokenError, PluginIncompatibleError
from amanda.hookspecs import HOOKS
from amanda.host._dist import Distribution, EntryPointName
from amanda.host._kinds import KINDS, object_of, shape_fault

_log = logging.getLogger("amanda.host")
_MISSING: Final = object()
_SLOW_SECONDS: Final = 5.0


class PluginEntry:
    """An entry point, or an object that the program registered.

    `state` is one of

        found          known by name, not imported
        loaded         imported, and follows the protocol of its kind
        slow           loaded, but importing it took longer than AMANDA_SLOW_SECONDS
        incompatible   made for another version of the core
        broken         `fault` has the reason

    The state, the fault and the manifest are found without import.
    """

    __slots__ = (
        "_fault",
        "_is_reported",
        "_point",
        "_row",
        "_thing",
        "_unfit",
        "seconds",
        "source",
    )

    def __init__(
        self,
        source: Distribution,
        point: EntryPointName,
        *,
        thing: object = _MISSING,
        row: Mapping[str, Any] | None = None,
    ) -> None:
        self.source = source
        self._point = point
        self._thing = thing
        self._is_reported = False
        self._row = row
        self._fault = ""
        self._unfit: str | None = None
        self.seconds = 0.0

    @property
    def kind(self) -> str:
        return self._point.kind

    @property
    def name(self) -> str:
        """The name by which it is chosen."""
        return self._point.name

    @property
    def value(self) -> str:
        """Its object as module:attribute; empty if the program registered it."""
        return self._point.value

    @property
    def dist(self) -> str:
        """The name of its distribution."""
        return self.source.name

    @property
    def choice(self) -> str:
        """The name that chooses it even where other distributions have its name."""
        return f"{self.dist}:{self.name}"

    @property
    def version(self) -> str:
        return self.source.version

    @property
    def manifest(self) -> Mapping[str, Any]:
        """Its table in the manifest of its distribution, or an empty one."""
        if self._row is None:
            rows = self.source.manifest.rows
            self._row = rows.get((self.kind, self.name), {})
        return self._row

    @property
    def fault(self) -> str:
        """Why it cannot be used, as far as is known; otherwise empty."""
        return self._fault or self._misfit() or self._damage()

    @property
    def state(self) -> str:
        if self._thing is not _MISSING and not self._fault:
            return "slow" if self.seconds > slow_seconds() else "loaded"
        if not self._fault and self._misfit():
            return "incompatible"
        return "broken" if self.fault else "found"

    @property
    def what(self) -> str:
        """Its label in messages: "backend 'fast' of amanda-fast 1.0"."""
        return f"{KINDS[self.kind].one} {self.name!r} of {self.source_text}"

    @property
    def source_text(self) -> str:
        """Distribution and version."""
        if not self.value:
            return "this program"
        known = self.source.version not in ("", "?")
        return f"{self.dist} {self.version}" if known else self.dist

    @property
    def remedy(self) -> str:
        """What a user can do about a fault."""
        if not self.value:
            return "correct what this program registered"
        return f"reinstall or upgrade {self.dist}, or report this to its authors"

    def load(self) -> Any:
        """The object, imported on the first call.

        No lock is held during the import, which could deadlock. The import system runs
        a module in one thread while others wait; the first object stored is kept.
        """
        if self._thing is _MISSING:
            self.check()
            found = self._import()
            if self._thing is _MISSING:
                self._thing = found
        return self._thing

    def check(self) -> None:
        """Raise an error if there is a fault."""
        if not self._fault and (why := self._misfit()):
            raise PluginIncompatibleError(
                f"{self.what} is incompatible with this version of Amanda",
                got=why,
                hint=f"pip install --upgrade {self.dist} amanda-core",
            )
        if self.fault:
            raise self._broken_error()

    def _broken_error(self) -> PluginBrokenError:
        return PluginBrokenError(
            f"{self.what} cannot be used",
            where=self.value or None,
            got=self.fault,
            hint=self.remedy,
        )

    def record_fault(self, fault: str) -> bool:
        """Record a fault; true the first time."""
        if not self.fault:
            self._fault = fault
        first, self._is_reported = not self._is_reported, True
        return first

    def _misfit(self) -> str:
        if self._unfit is None:
            target = self._point.target
            self._unfit = self.source.unfit(target[2] if target else ())
        return self._unfit

    def _damage(self) -> str:
        if self.value and self._point.target is None:
            return f"its entry point {self.value!r} is not module:attribute"
        if self.kind == "hooks" and hook_of(self) not in HOOKS:
            return f"there is no hook {hook_of(self)!r}; there are {', '.join(HOOKS)}"
        if self.source.damage:
            return self.source.damage
        faults = self.source.manifest.faults if self._row is None else ()
        return (
            f"its amanda-plugin.toml is faulty: {'; '.join(faults)}" if faults else ""
        )

    def _import(self) -> object:
        began = time.perf_counter()
        try:
            with _warn_when_slow(self), PluginCall(None, self):
                thing = object_of(self.kind, _import_object(self._point))
                wrong = shape_fault(self.kind, thing)
        except KeyboardInterrupt:
            raise
        except BaseException as cause:  # a plug-in may raise SystemExit or worse
            self._fault = f"does not load: {error_text(cause)}"
            raise self._broken_error() from cause
        if wrong:
            self._fault = f"is no {KINDS[self.kind].one}: it {wrong}"
            raise self._broken_error()
        self.seconds = time.perf_counter() - began
        if self.seconds > slow_seconds():
            _log.warning("%s is slow: took %.1f s to import", self.what, self.seconds)
        return thing

    def __repr__(self) -> str:
        return f"<{self.what}: {self.state}>"


def hook_of(entry: PluginEntry) -> str:
    """The hook that an entry of `amanda.hooks` listens to."""
    return entry.name.partition(".")[0]


def _import_object(point: EntryPointName) -> object:
    assert point.target is not None  # see `check`
    module, attribute, _ = point.target
    thing: object = import_module(module)
    for name in attribute.split(".") if attribute else ():
        thing = getattr(thing, name)
    return thing


def slow_seconds() -> float:
    """Time in seconds after which an import is reported as slow."""
    given = os.environ.get("AMANDA_SLOW_SECONDS", "")
    try:
        return float(given) if given else _SLOW_SECONDS
    except ValueError:
        return _SLOW_SECONDS


@contextmanager
def _warn_when_slow(entry: PluginEntry) -> Iterator[None]:
    """Log a warning while a slow import is still running."""
    if entry.value.partition(":")[0] in sys.modules:
        yield
        return
    limit = slow_seconds()
    message = "%s is still importing after %g s; `amanda plugins --probe` looks closer"
    timer = threading.Timer(limit, _log.warning, (message, entry.what, limit))
    timer.daemon = True
    with suppress(RuntimeError):  # without threads, it is reported afterwards
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
