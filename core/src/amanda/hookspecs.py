"""What is broadcast: the events that every plug-in may listen to.

What is *chosen* (a backend, a format, a mapping) is an entry point of its own kind.
What is *broadcast* is a hook of this list. A plug-in listens through the entry-point
group `amanda.hooks`, where the entry's name is the hook's, with a suffix after a dot
where a distribution listens twice:

    [project.entry-points."amanda.hooks"]
    after_load = "amanda_audit:note"
    "after_load.count" = "amanda_audit:count"

Listeners name the arguments they want and leave out the others. They observe: what they
return is thrown away, except by hooks that say otherwise, and what they raise is told,
with their name, while the operation goes on. Whoever wants to change a graph writes a
pass, and whoever wants to prevent an operation asks its caller.

No hook is called once per op of a graph that is well. The declarations below hold no
code: pluggy calls the listeners, and is imported when an event first has one.
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
    """The first answer that is not None ends the asking, and is the result."""


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
    """The file is complete and in its place."""


@_hook()
def before_convert(graph: Any, route: Any) -> None:
    """A conversion begins; `route` says through which mappings it will go."""


@_hook()
def after_convert(graph: Any, route: Any, result: Any) -> None:
    """A conversion succeeded; `graph` is what went in, `result` what came out."""


@_hook(first_result=True)
def gap_met(op: Any, why: tuple[str, ...], build: Any, inputs: Any) -> Any:
    """An op could not be mapped, for the reasons in `why`.

    The first listener that returns values of the target graph, one for each output of
    the op, fills the gap with them; `build` is the target graph, and `inputs` are the
    values there that stand for what the op reads. None declines.
    """


@_hook()
def before_compile(graph: Any, backend: str, device: str | None) -> None:
    """A graph, already in the backend's namespace, is about to be compiled."""


@_hook()
def after_compile(
    graph: Any, backend: str, device: str | None, executable: Any
) -> None:
    """An executable was made."""


@_hook()
def before_run(executable: Any, feeds: Mapping[Any, Any]) -> None:
    """An executable is about to be called; called once a call, never once an op."""


@_hook()
def after_run(executable: Any, feeds: Mapping[Any, Any], results: Any) -> None:
    """A call ended well; `results` belong to the caller."""


@_hook()
def plugin_faulted(dist: str, kind: str, name: str, fault: str) -> None:
    """A plug-in did not load or broke its contract; told once for each entry."""


HOOKS: Final[Mapping[str, HookSpec]] = MappingProxyType(_declared)
