"""Hooks: events that every plug-in may listen to.

A plug-in listens through the entry-point group `amanda.hooks`. The name of the entry is
that of the hook, with a suffix after a dot if a distribution listens twice:

    [project.entry-points."amanda.hooks"]
    after_load = "amanda_audit:note"
    "after_load.count" = "amanda_audit:count"

Listeners accept any of the arguments, by name. They observe: their results are ignored,
except for hooks that say otherwise, and exceptions are reported with the listener's
name while the operation continues. To change a graph, write a pass.

No hook is called once per op, except `gap_met` for ops without a mapping. The functions
below only declare arguments; pluggy calls the listeners, and is imported with the
first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

__all__ = ["HOOKS", "HookSpec"]

_Declared = TypeVar("_Declared", bound=Callable[..., Any])


class HookSpec(NamedTuple):
    """A declared event; `declaration` has its arguments and its docstring."""

    declaration: Callable[..., Any]
    first_result: bool
    """Whether the first result that is not None ends the calls, and is the result."""


_declared: dict[str, HookSpec] = {}


def _hook(*, first_result: bool = False) -> Callable[[_Declared], _Declared]:
    def declare(function: _Declared) -> _Declared:
        _declared[function.__name__] = HookSpec(function, first_result)
        return function

    return declare


@_hook()
def before_load(source: object, format: str) -> None:
    """A file or live object is about to be read by the format of this name."""


@_hook()
def after_load(source: object, format: str, graph: Any) -> None:
    """A graph was read. It belongs to the caller: look at it, do not change it."""


@_hook()
def before_save(graph: Any, path: str, format: str) -> None:
    """A graph is about to be written by the format of this name."""


@_hook()
def after_save(graph: Any, path: str, format: str) -> None:
    """The file is complete and at its path."""


@_hook()
def before_convert(graph: Any, route: Any) -> None:
    """A conversion begins, along `route`."""


@_hook()
def after_convert(graph: Any, route: Any, result: Any) -> None:
    """A conversion of `graph` to `result` succeeded."""


@_hook(first_result=True)
def gap_met(op: Any, why: tuple[str, ...], build: Any, inputs: Any) -> Any:
    """An op could not be mapped, for the reasons in `why`.

    A listener may add ops to the target graph `build` and return values, one for each
    output of the op; the first to do so fills the gap. `inputs` are the op's inputs in
    the target graph. None declines.
    """


@_hook(first_result=True)
def find_input_ranges(graph: Any) -> Any:
    """Random values for the inputs of a graph are about to be generated.

    A listener that knows the ops may return an `amanda.feeds.InputRange` for inputs, by
    name, or by index where they have none: the values that the ops reading them accept.
    Dims have their sizes. The graph may be changed. None declines.
    """


@_hook()
def before_compile(graph: Any, backend: str, device: str | None) -> None:
    """A graph, already in the backend's namespace, is about to be compiled."""


@_hook()
def after_compile(
    graph: Any, backend: str, device: str | None, executable: Any
) -> None:
    """A graph was compiled."""


@_hook()
def before_run(executable: Any, feeds: Mapping[Any, Any]) -> None:
    """An executable is about to be called."""


@_hook()
def after_run(executable: Any, feeds: Mapping[Any, Any], results: Any) -> None:
    """A call succeeded; `results` belong to the caller."""


@_hook()
def plugin_faulted(dist: str, kind: str, name: str, fault: str) -> None:
    """A plug-in did not load or broke its contract; fired once for each entry."""


HOOKS: Final[Mapping[str, HookSpec]] = MappingProxyType(_declared)
