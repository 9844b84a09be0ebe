"""Conversion of graphs between namespaces, along routes of installed mappings."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from amanda.api.expect import expect_graph, expect_graph_from
from amanda.dictionary import Span, parse_name, parse_span, resolve_name
from amanda.errors import ConversionError, NamespaceError, PluginBrokenError
from amanda.host import host_in_use, use_host

if TYPE_CHECKING:
    from amanda.graph import Graph
    from amanda.host import Host
    from amanda.mapping import Conversion, MappingLink, Plan, Report, Route, RouteStep

__all__ = ["convert", "convert_along", "plan", "find_route_of_graph"]


def plan(graph: Graph, to: str, *, host: Host | None = None) -> Plan:
    """The route that `convert` would follow, found without importing a mapping.

    Its `gaps` and `reports` run the conversion when they are first read. `to` may also
    be a backend; `refusals` then lists the ops that it does not support.
    """
    from amanda.api.compilation import load_backend, lower_on_host
    from amanda.backend import consumes
    from amanda.mapping import Plan

    expect_graph(graph, "plan")
    host = host or host_in_use()
    step = partial(_run_step, host=host)
    if not _is_backend(to, host):
        return Plan(
            find_route_of_graph(graph, _resolve_target(to, host), host), graph, step
        )
    backend = load_backend(host, host.find("backends", to.partition(":")[0]))
    space = graph.namespace
    if space is not None and consumes(space, backend.namespace):
        route = pick_up_route(graph, space, host)
    else:
        route = find_route_of_graph(graph, backend.span, host)

    def refused(made: Graph) -> Any:
        with use_host(host):
            return lower_on_host(made, backend, host).problems

    return Plan(route, graph, step, refused)


def _is_backend(name: str, host: Host) -> bool:
    """Whether this names a backend, and no namespace."""
    if not host.has("backends", name.partition(":")[0]):
        return False
    try:
        return parse_name(name).path not in host.namespace_versions()
    except NamespaceError:  # with a device or a path, which no namespace has
        return True


def convert(
    graph: Graph,
    to: str,
    *,
    keep_foreign: bool = False,
    reports: list[Report] | None = None,
    host: Host | None = None,
) -> Graph:
    """Convert a graph to the namespace `to`; returns a new graph.

    If ops cannot be mapped, an error lists them all; with `keep_foreign` they are kept
    unchanged. The report of each step is appended to `reports`: which rules matched how
    many ops, what was kept, what was lost.
    """
    host = host or host_in_use()
    route = plan(graph, to, host=host).route
    return convert_along(graph, route, keep_foreign, host, reports)


def find_route_of_graph(graph: Graph, goal: Span, host: Host) -> Route:
    """The route of a graph to one of some namespaces, over the mappings of a host."""
    from amanda.mapping import find_route

    if graph.namespace is None:
        raise ConversionError(
            "the graph has no namespace, so the meaning of its ops is unknown",
            hint="create it with one: Graph('amanda/std/1')",
        )
    start = parse_name(graph.namespace)
    if start in goal or graph.namespace == str(goal):
        return pick_up_route(graph, graph.namespace, host)
    return find_route(start, goal, _installed_links(host), host.namespace_versions())


def pick_up_route(graph: Graph, namespace: str, host: Host) -> Route:
    """The route that maps foreign ops, such as custom ones, to the graph's namespace.

    It has no steps where no mapping supports any of them.
    """
    from amanda.graph import CORE
    from amanda.mapping import Route, RouteStep

    found = {op.own_namespace for part in graph.graphs() for op in part}
    foreign = [parse_name(name) for name in found if name not in (None, CORE)]
    keys = {
        link.key
        for link in (_installed_links(host) if foreign else ())
        if parse_name(namespace) in link.target
        and any(name in link.source for name in foreign)
    }
    steps = tuple(RouteStep(key, namespace, namespace) for key in sorted(keys))
    return Route(namespace, namespace, steps)


def convert_along(
    graph: Graph,
    route: Route,
    keep_foreign: bool,
    host: Host,
    reports: list[Report] | None = None,
) -> Graph:
    """Convert a graph along a route; returns a copy if it has no steps."""
    from amanda.mapping import expect_no_gaps

    if not route.steps:
        return graph.clone()
    host.fire("before_convert", graph=graph, route=route)

    result = graph
    for step in route.steps:
        # a step within one namespace maps ops that were kept before, as far as it can
        keeps = keep_foreign or step.source == step.target
        done = _run_step(result, step, keeps, host=host)
        if reports is not None:
            reports.append(done.report)
        result = expect_no_gaps(done, keep_foreign=keeps)
    host.fire("after_convert", graph=graph, route=route, result=result)
    return result


def _run_step(
    graph: Graph, step: RouteStep, keep_foreign: bool, *, host: Host
) -> Conversion:
    """Run one step of a route; gaps are in the report, not raised."""
    from amanda.mapping import run_mapper

    def gap_met(**event: Any) -> Any:
        return host.fire("gap_met", **event)

    entry = host.find("mappings", step.mapping)
    mapper = host.load(entry)
    with host.calling(entry, f"mapping to {step.target}", PluginBrokenError):
        done = run_mapper(
            mapper, graph, step.target, keep_foreign=keep_foreign, gap_met=gap_met
        )
    expect_graph_from(done.graph, entry, "mapping")
    if done.graph.namespace != step.target:
        raise PluginBrokenError(
            f"{entry.what} returned a graph of another namespace",
            expected=step.target,
            got=done.graph.namespace,
        )
    return done


def _resolve_target(to: str, host: Host) -> Span:
    """The target namespaces; the route chooses if the version is open."""
    span = parse_span(to)
    versions = host.namespace_versions().get(span.path)
    if versions and span.exact is not None:
        return Span.of(resolve_name(to, {span.path: versions}))
    return span


def _installed_links(host: Host) -> list[MappingLink]:
    """Every installed mapping, one link for each direction."""
    from amanda.mapping import MappingLink

    links = []
    entries = host.entries("mappings")
    names = [entry.name for entry in entries]
    for entry in entries:
        if {"from", "to"} <= entry.manifest.keys() and not entry.fault:
            clash = names.count(entry.name) > 1
            key = f"{entry.dist}:{entry.name}" if clash else entry.name
            ends = [parse_span(entry.manifest[end]) for end in ("from", "to")]
            transit = bool(entry.manifest.get("transit", True))
            links.append(MappingLink(key, ends[0], ends[1], transit))
            if entry.manifest.get("both"):
                links.append(MappingLink(key, ends[1], ends[0]))
    return links
