"""Calls of listeners, isolated from each other.

A listener that does not load, has unknown parameters or raises is recorded as a fault
of its entry and logged once; the others are called, and the operation continues. Only
KeyboardInterrupt passes. A listener of `gap_met` that raises declines.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from types import SimpleNamespace
from typing import Any

import pluggy

from amanda import hookspecs
from amanda.current_host import PluginCall, error_text
from amanda.errors import PluginError
from amanda.host._entry import PluginEntry

FaultReporter = Callable[[PluginEntry, str], None]
_MARK = "amanda_impl"  # what pluggy.HookimplMarker("amanda") leaves on a function


class Listeners:
    """The listeners of one host, registered when their event is first fired."""

    def __init__(self, report_fault: FaultReporter) -> None:
        self._report = report_fault
        self._calling = _HookCaller("amanda")
        self._calling.add_hookspecs(_DECLARED)
        self._ready: set[str] = set()
        self._lock = threading.Lock()  # around registering; never an import

    def fire(
        self, hook: str, entries: Iterable[PluginEntry], event: Mapping[str, Any]
    ) -> Any:
        """All results that are not None, or the first one, depending on the hook."""
        if hook not in self._ready:
            loaded = [(entry, self._load_listener(hook, entry)) for entry in entries]
            with self._lock:
                if hook not in self._ready:
                    self._register(hook, loaded)
                    self._ready.add(hook)
        return getattr(self._calling.hook, hook)(**event)

    def _load_listener(self, hook: str, entry: PluginEntry) -> Any:
        """The listener, or None if it cannot be called."""
        try:
            listener = entry.load()
        except PluginError:
            self._report(entry, entry.fault)
            return None
        fault = listener_fault(hook, listener)
        if fault:
            self._report(entry, fault)
        return None if fault else listener

    def _register(self, hook: str, loaded: Iterable[tuple[PluginEntry, Any]]) -> None:
        # pluggy calls the last one registered first; the order here is by distribution
        ordered = sorted(loaded, key=_order)
        for entry, listener in reversed(ordered):
            if listener is not None:
                guarded = _guard_listener(hook, listener, entry, self._report)
                plugin = SimpleNamespace(**{hook: guarded})
                self._calling.register(plugin, f"{hook}:{entry.what}:{id(entry)}")


class _HookCaller(pluggy.PluginManager):
    """A plug-in manager of pluggy that needs no markers.

    So `amanda.hookspecs` and listeners are imported without pluggy. A listener marked
    with `pluggy.HookimplMarker("amanda")` may set its order.
    """

    def parse_hookspec_opts(
        self,
        module_or_class: Any,  # noqa: ARG002
        name: str,
    ) -> pluggy.HookspecOpts | None:
        if name not in hookspecs.HOOKS:
            return None
        return {
            "firstresult": hookspecs.HOOKS[name].first_result,
            "historic": False,
            "warn_on_impl": None,
            "warn_on_impl_args": None,
        }

    def parse_hookimpl_opts(self, plugin: Any, name: str) -> pluggy.HookimplOpts | None:
        if name not in hookspecs.HOOKS:
            return None
        order = _marks(getattr(plugin, name))
        return {
            "wrapper": False,
            "hookwrapper": False,
            "optionalhook": False,
            "tryfirst": bool(order.get("tryfirst")),
            "trylast": bool(order.get("trylast")),
            "specname": None,
        }


_DECLARED = type(
    "Declared",
    (),
    {name: staticmethod(spec.declaration) for name, spec in hookspecs.HOOKS.items()},
)


def listener_fault(hook: str, listener: Any) -> str:
    """Why `listener` cannot listen to this hook, or an empty string."""
    marks = _marks(listener)
    if marks.get("wrapper") or marks.get("hookwrapper"):
        return "is a wrapper; listeners observe, they do not wrap"
    if inspect.iscoroutinefunction(listener):
        return "is a coroutine; listeners are called, not awaited"
    try:
        wanted = inspect.signature(listener)
    except (TypeError, ValueError):
        return "has no readable signature"
    given = _arguments(hook)
    parameters = wanted.parameters.values()
    if all(p.name in given if _is_named(p) else _is_optional(p) for p in parameters):
        return ""
    wanted = wanted.replace(return_annotation=wanted.empty)
    return f"takes {wanted}, but {hook} gives by name: {', '.join(given)}"


def _guard_listener(
    hook: str, listener: Callable[..., Any], entry: PluginEntry, report: FaultReporter
) -> Callable[..., Any]:
    """The listener for pluggy: accepts all arguments of the hook, never raises."""
    given = _arguments(hook)
    parameters = inspect.signature(listener).parameters.values()
    all_of_it = any(p.kind is p.VAR_KEYWORD for p in parameters)
    wanted = given if all_of_it else [p.name for p in parameters if p.name in given]

    @wraps(hookspecs.HOOKS[hook].declaration)
    def call_listener(*values: Any) -> Any:
        event = dict(zip(given, values, strict=True))
        try:
            with PluginCall(None, entry):
                return listener(**{name: event[name] for name in wanted})
        except KeyboardInterrupt:
            raise
        except BaseException as cause:  # noqa: BLE001  a listener must not end the operation
            report(entry, f"raised in {hook}: {error_text(cause)}")
            return None

    call_listener.__dict__[_MARK] = _marks(listener)
    return call_listener


def _arguments(hook: str) -> list[str]:
    return list(inspect.signature(hookspecs.HOOKS[hook].declaration).parameters)


def _is_named(parameter: inspect.Parameter) -> bool:
    required = parameter.default is parameter.empty
    return required and parameter.kind in (
        parameter.POSITIONAL_OR_KEYWORD,
        parameter.KEYWORD_ONLY,
    )


def _is_optional(parameter: inspect.Parameter) -> bool:
    return parameter.kind is not parameter.POSITIONAL_ONLY


def _marks(listener: Any) -> Mapping[str, Any]:
    marks = getattr(listener, _MARK, None)
    return marks if isinstance(marks, Mapping) else {}


def _order(loaded: tuple[PluginEntry, Any]) -> tuple[str, str]:
    return loaded[0].source.key, loaded[0].name
