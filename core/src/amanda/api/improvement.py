"""Applying passes to a graph by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from amanda.argument_checks import check_arguments
from amanda.backend import consumes
from amanda.errors import PluginBrokenError, UsageError
from amanda.host import host_in_use, use_host
from amanda.passes.fixed_point import ROUNDS, Pass, PassReport, apply_passes
from amanda.passes.pipeline import Pipeline

if TYPE_CHECKING:
    from amanda.graph import Graph
    from amanda.host import Host, PluginEntry
    from amanda.mapping import Route

__all__ = [
    "default_passes",
    "expect_passes_apply",
    "improve",
    "passes_of_namespace",
]


def improve(
    graph: Graph,
    *passes: str | Callable[[Graph], int],
    rounds: int = ROUNDS,
    host: Host | None = None,
) -> PassReport:
    """Apply passes to a graph, in place and in turn, until none changes anything.

    Passes are names of plug-ins (`amanda plugins` lists them) or functions that change
    a graph and return the number of changes. A pipeline stands for the passes in it.
    """
    host = host or host_in_use()
    if not passes:
        known = ", ".join(host.names("passes")) or "none is installed"
        raise UsageError("improve needs the passes to apply", expected=known)
    with use_host(host):
        named = dict(row for each in passes for row in _load_passes(graph, each, host))
        return apply_passes(graph, named, rounds=rounds)


def default_passes(host: Host) -> list[str]:
    """The passes that `amanda convert` applies by default, by their manifests."""
    entries = host.entries("passes")
    return [e.choice for e in entries if e.manifest.get("conversions") and not e.fault]


def passes_of_namespace(names: Sequence[str], namespace: str, host: Host) -> list[str]:
    """Those of some passes that are for graphs of a namespace."""
    return [name for name in names if _is_for(host.find("passes", name), namespace)]


def expect_passes_apply(passes: Sequence[str], route: Route, host: Host) -> None:
    """Raise UsageError for a pass that a conversion along a route does not apply."""
    left = [step.source for step in route.steps if step.source != step.target]
    for name in passes:
        entry = host.find("passes", name)
        if not any(_is_for(entry, namespace) for namespace in left):
            raise UsageError(
                f"the pass {entry.name!r} is for no graph on the way",
                expected=entry.manifest.get("namespace", "a conversion"),
                got=str(route),
            )


def _load_passes(
    graph: Graph, each: str | Callable[[Graph], int], host: Host
) -> Iterator[tuple[str, Pass]]:
    """A pass with its name; those in it, of a pipeline."""
    if isinstance(each, Pipeline):
        yield from each.passes.items()
    elif isinstance(each, str):
        yield from _load_entry(graph, host.find("passes", each), host)
    else:
        yield getattr(each, "__name__", repr(each)), each


def _load_entry(
    graph: Graph, entry: PluginEntry, host: Host
) -> Iterator[tuple[str, Pass]]:
    _expect_namespace(graph, entry)
    loaded = host.load(entry)
    if not isinstance(loaded, Pipeline):
        yield entry.name, host.function(entry, "improving a graph", PluginBrokenError)
        return
    for name, run in loaded.passes.items():
        yield name, partial(_run_guarded, host, entry, run)
    for other in host.entries("passes"):
        if entry.name in other.manifest.get("pipelines", ()) and not other.fault:
            yield from _load_entry(graph, other, host)


def _run_guarded(host: Host, entry: PluginEntry, run: Pass, graph: Graph) -> int:
    with host.calling(entry, "improving a graph", PluginBrokenError):
        return run(graph)


def _is_for(entry: PluginEntry, namespace: str | None) -> bool:
    span = entry.manifest.get("namespace")
    return not span or (namespace is not None and consumes(namespace, span))


def _expect_namespace(graph: Graph, entry: PluginEntry) -> None:
    if not _is_for(entry, graph.namespace):
        span = entry.manifest.get("namespace")
        raise UsageError(
            f"{entry.what} is not for graphs of this namespace",
            expected=span,
            got=graph.namespace or "no namespace",
            hint=f"amanda.convert(graph, {span!r}) first",
        )


check_arguments(globals())
