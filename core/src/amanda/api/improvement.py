"""Applying passes to a graph by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from amanda.argument_checks import check_arguments
from amanda.backend import consumes
from amanda.errors import PluginBrokenError, UsageError
from amanda.host import host_in_use, use_host
from amanda.passes.fixed_point import ROUNDS, Pass, PassReport, apply_passes

if TYPE_CHECKING:
    from amanda.graph import Graph
    from amanda.host import Host, PluginEntry

__all__ = ["improve"]


def improve(
    graph: Graph,
    *passes: str | Callable[[Graph], int],
    rounds: int = ROUNDS,
    host: Host | None = None,
) -> PassReport:
    """Apply passes to a graph, in place and in turn, until none changes anything.

    Passes are names of plug-ins (`amanda plugins` lists them) or functions that change
    a graph and return the number of changes.
    """
    host = host or host_in_use()
    if not passes:
        known = ", ".join(host.names("passes")) or "none is installed"
        raise UsageError("improve needs the passes to apply", expected=known)
    with use_host(host):
        return apply_passes(
            graph, dict(_load_pass(graph, each, host) for each in passes), rounds=rounds
        )


def _load_pass(
    graph: Graph, each: str | Callable[[Graph], int], host: Host
) -> tuple[str, Pass]:
    if not isinstance(each, str):
        return getattr(each, "__name__", repr(each)), each
    entry = host.find("passes", each)
    _expect_namespace(graph, entry)
    return each, host.function(entry, "improving a graph", PluginBrokenError)


def _expect_namespace(graph: Graph, entry: PluginEntry) -> None:
    span = entry.manifest.get("namespace")
    if not span or (graph.namespace is not None and consumes(graph.namespace, span)):
        return
    raise UsageError(
        f"{entry.what} is not for graphs of this namespace",
        expected=span,
        got=graph.namespace or "no namespace",
        hint=f"amanda.convert(graph, {span!r}) first",
    )


check_arguments(globals())
