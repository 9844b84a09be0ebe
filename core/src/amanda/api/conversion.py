"""Conversion of graphs between namespaces, along routes of installed mappings."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from amanda.api.expect import expect_graph_from
from amanda.api.improvement import (
    expect_passes_apply,
    improve,
    passes_of_namespace,
)
from amanda.argument_checks import check_arguments
from amanda.dictionary import Name, Span, parse_name, parse_span, resolve_name
from amanda.errors import ConversionError, NamespaceError, PluginBrokenError
from amanda.host import host_in_use, use_host

if TYPE_CHECKING:
    from amanda.backend import GuardedBackend
    from amanda.graph import Graph, Op
    from amanda.host import Host
    from amanda.mapping import (
        Conversion,
        MappingLink,
        Plan,
        Refusal,
        Report,
        Route,
        RouteStep,
    )

__all__ = [
    "convert",
    "convert_along",
    "plan",
    "expand_frontend_ops",
    "find_route_of_graph",
    "find_route_to_backend",
    "is_backend",
    "separate_dims_on_host",
    "stable_on_host",
]


def plan(
    graph: Graph,
    to: str,
    *,
    passes: Sequence[str] = (),
    prefer_backend: bool = False,
    host: Host | None = None,
) -> Plan:
    """The route that `convert` would follow, found without importing a mapping.

    Its `gaps` and `reports` run the conversion when they are first read. `to` may also
    be a backend; `refusals` then lists the ops that it does not support. A name of
    both, such as jax, is the namespace's, or the backend's with `prefer_backend`.
    """
    from amanda.api.compilation import find_backend
    from amanda.mapping import Plan

    host = host or host_in_use()
    if is_backend(to, host, prefer_backend):
        backend = find_backend(host, to)
        return _plan_to_backend(graph, backend, passes, host)
    graph = expand_frontend_ops(graph, host)
    step = partial(_run_step, host=host, passes=passes, given=graph)
    route = find_route_of_graph(graph, _resolve_target(to, host), host)
    return Plan(route, graph, step)


def _plan_to_backend(
    graph: Graph, backend: GuardedBackend, passes: Sequence[str], host: Host
) -> Plan:
    """The route of a graph to a backend, with the steps of a compilation."""
    from amanda.api.compilation import lower_on_host
    from amanda.graph import CORE
    from amanda.mapping import Plan

    graph = expand_frontend_ops(graph, host, backend.takes)
    route = find_route_to_backend(graph, backend, host)
    if not route.steps:
        graph = backend.prepare(graph)
    run = partial(_run_step, host=host, passes=passes, given=graph)

    def step(given: Graph, step: RouteStep, keep_foreign: bool) -> Conversion:
        return run(stable_on_host(given, host), step, keep_foreign)

    def lower(made: Graph, has_gaps: bool) -> tuple[Graph, list[Refusal]]:
        own = (None, CORE, made.namespace)

        def takes(op: Op) -> object:
            is_gap = has_gaps and op.own_namespace not in own
            return is_gap or backend.takes(op)

        with use_host(host):
            return lower_on_host(stable_on_host(made, host), takes, host)

    return Plan(route, graph, step, lower)


def is_backend(name: str, host: Host, prefer_backend: bool = False) -> bool:
    """Whether this names a backend, and no namespace unless backends are preferred."""
    if not host.has("backends", name.partition(":")[0]):
        return False
    if prefer_backend:
        return True
    try:
        return parse_name(name).path not in host.namespace_versions()
    except NamespaceError:  # with a device or a path, which no namespace has
        return True


def convert(
    graph: Graph,
    to: str,
    *,
    passes: Sequence[str] = (),
    keep_foreign: bool = False,
    reports: list[Report] | None = None,
    host: Host | None = None,
) -> Graph:
    """Convert a graph to the namespace `to`; returns a new graph.

    `passes` are applied to the graphs of their namespace on the way, as the hub is,
    before these are mapped further: `passes=["optimize_for_inference"]`. If ops cannot
    be mapped, an error lists them all; with `keep_foreign` they are kept unchanged. The
    report of each step is appended to `reports`: which rules matched how many ops, what
    passes changed, what was kept, what was lost.
    """
    host = host or host_in_use()
    graph = expand_frontend_ops(graph, host)
    route = plan(graph, to, host=host).route
    expect_passes_apply(passes, route, host)
    return convert_along(graph, route, keep_foreign, host, reports, passes=passes)


def find_route_of_graph(graph: Graph, goal: Span, host: Host) -> Route:
    """The route of a graph to one of some namespaces, over the mappings of a host."""
    from amanda.mapping import Route, find_route

    if graph.namespace is None:
        raise ConversionError(
            "the graph has no namespace, so the meaning of its ops is unknown",
            hint="create it with one: Graph('amanda/std/1')",
        )
    start = parse_name(graph.namespace)
    if start in goal or graph.namespace == str(goal):
        return pick_up_route(graph, graph.namespace, host)
    route = find_route(start, goal, _installed_links(host), _versions(goal, host))
    before = pick_up_route(graph, graph.namespace, host).steps
    return Route(route.source, route.target, before + route.steps)


def _versions(goal: Span, host: Host) -> dict[str, Sequence[str]]:
    """The known versions of namespaces, with those of the goal where it tells them."""
    try:
        return host.namespace_versions(goal.path)
    except NamespaceError:  # it needs files that are not there
        return host.namespace_versions()


def pick_up_route(graph: Graph, namespace: str, host: Host) -> Route:
    """The route that maps foreign ops, such as custom ones, to the graph's namespace.

    It has no steps where no mapping supports any of them.
    """
    from amanda.graph import CORE
    from amanda.mapping import Route, RouteStep

    found = {op.own_namespace for part in graph.graphs(deferred=False) for op in part}
    foreign = [parse_name(name) for name in found if name not in (None, CORE)]
    keys = {
        link.key
        for link in (_installed_links(host) if foreign else ())
        if parse_name(namespace) in link.target
        and any(name in link.source for name in foreign)
    }
    steps = tuple(RouteStep(key, namespace, namespace) for key in sorted(keys))
    return Route(namespace, namespace, steps)


def expand_frontend_ops(
    graph: Graph, host: Host, takes: Callable[[Op], object] | None = None
) -> Graph:
    """A copy without composites of frontends; the graph itself where it has none.

    These are foreign ops of namespaces that define them, and that no mapping is for.
    Those that a backend `takes` stay.
    """
    from amanda.mapping import expand_foreign

    links = _installed_links(host)
    mapped = {end.path for link in links for end in (link.source, link.target)}

    def keeps(op: Op) -> bool:
        is_mapped = parse_name(op.namespace or "").path in mapped
        return is_mapped or (takes is not None and takes(op) is True)

    with use_host(host):
        return expand_foreign(graph, keeps)


def find_route_to_backend(graph: Graph, backend: GuardedBackend, host: Host) -> Route:
    """The route of a graph to a backend.

    Where the backend consumes the namespace of the graph, it maps foreign ops only: to
    this namespace, or, where they have rules to another one, by way of that one.
    """
    from amanda.backend import consumes
    from amanda.mapping import Route, find_route

    space, goal = graph.namespace, backend.span
    if space is None or not consumes(space, backend.namespace):
        return find_route_of_graph(graph, goal, host)
    via = _detour(graph, space, backend, host)
    if via is None:
        return pick_up_route(graph, space, host)
    links, known = _installed_links(host), host.namespace_versions()
    there = find_route(parse_name(space), Span.of(via), links, known)
    back = find_route(via, goal, links, known)
    return Route(space, back.target, there.steps + back.steps)


def _detour(
    graph: Graph, space: str, backend: GuardedBackend, host: Host
) -> Name | None:
    """The namespace that maps all foreign ops which a backend refuses, if any does."""
    from amanda.graph import CORE

    own = (None, CORE, space)
    foreign = [op for op in graph.walk() if op.own_namespace not in own]
    links, here = _installed_links(host), parse_name(space)
    near = {link.source.path for link in links if here in link.target}
    refused = [
        op
        for op in foreign
        if parse_name(op.namespace or "").path not in near
        and backend.takes(op) is not True
    ]
    found = {_hub_of(op, host) for op in refused}
    return found.pop() if len(found) == 1 else None


def _hub_of(op: Op, host: Host) -> Name | None:
    """A namespace that some installed mapping has a rule to, for this op."""
    from amanda.graph import Graph
    from amanda.mapping import find_route

    name = parse_name(op.namespace or "")
    alone = Graph(op.namespace)
    inputs = [None if v is None else alone.parameter(v.type) for v in op.inputs]
    copy = alone.add(op.type or "", inputs, op.attrs, outputs=len(op.outputs))
    for link in _installed_links(host):
        if name not in link.source:
            continue
        route = find_route(name, link.target, [link], host.namespace_versions())
        takes = getattr(host.get("mappings", link.key), "takes", None)
        if takes is not None and takes(copy, route.target) is True:
            return parse_name(route.target)
    return None


def stable_on_host(graph: Graph, host: Host) -> Graph:
    """A graph with formulas that overflow replaced, by the graph's namespace."""
    from amanda.backend import stable_form

    definitions = host.namespace_plugin(graph.namespace)
    with host.calling(definitions, "replacing formulas", PluginBrokenError):
        return stable_form(graph)


def separate_dims_on_host(
    graph: Graph, host: Host, memo: dict[Any, Any] | None = None
) -> Graph:
    """A copy whose inputs share no dims, typed by the graph's namespace."""
    from amanda.backend import separate_dims

    definitions = host.namespace_plugin(graph.namespace)
    with host.calling(definitions, "inferring types", PluginBrokenError):
        return separate_dims(graph, memo)


def convert_along(
    graph: Graph,
    route: Route,
    keep_foreign: bool,
    host: Host,
    reports: list[Report] | None = None,
    stable: bool = False,
    passes: Sequence[str] = (),
) -> Graph:
    """Convert a graph along a route; returns a copy if it has no steps.

    With `stable`, formulas that overflow are replaced before each step."""
    from amanda.graph import bulk
    from amanda.mapping import expect_no_gaps

    if not route.steps:
        return graph.clone()
    host.fire("before_convert", graph=graph, route=route)

    result = graph
    last = route.steps[-1]
    with bulk():
        for step in route.steps:
            # one within a namespace maps ops that were kept before, as far as it can
            keeps = keep_foreign or step.source == step.target
            if stable:
                result = stable_on_host(result, host)
            done = _run_step(
                result, step, keeps,
                host=host, is_last=step is last, passes=passes, given=graph,
            )  # fmt: skip
            if reports is not None:
                reports.append(done.report)
            result = expect_no_gaps(done, keep_foreign=keeps)
    host.fire("after_convert", graph=graph, route=route, result=result)
    return result


def _run_step(
    graph: Graph,
    step: RouteStep,
    keep_foreign: bool,
    *,
    host: Host,
    is_last: bool = False,
    passes: Sequence[str] = (),
    given: Graph | None = None,
) -> Conversion:
    """Run one step of a route; gaps are in the report, not raised.

    Foreign ops without a rule are left to the namespace that the route ends in. Passes
    change the graph in place, but of the `given` graph a copy.
    """
    from amanda.mapping import find_lost_attributes, run_mapper

    waits = step.source == step.target and not is_last

    def gap_met(**event: Any) -> Any:
        return None if waits else host.fire("gap_met", **event)

    names = passes_of_namespace(passes, step.source, host) if passes else ()
    changes: dict[str, int] = {}
    if names and step.source != step.target:
        graph = _typed_copy(graph, host) if graph is given else graph
        changes = improve(graph, *names, host=host).changes
    entry = host.find("mappings", step.mapping)
    mapper = host.load(entry)
    with host.calling(entry, f"mapping to {step.target}", PluginBrokenError):
        done = run_mapper(
            mapper, graph, step.target, keep_foreign=keep_foreign, gap_met=gap_met
        )
    expect_graph_from(done.graph, entry, "mapping")
    done.report.passes = {name: count for name, count in changes.items() if count}
    if done.graph.namespace != step.target:
        raise PluginBrokenError(
            f"{entry.what} returned a graph of another namespace",
            expected=step.target,
            got=done.graph.namespace,
        )
    if keep_foreign or not done.report.gaps:
        read = getattr(mapper, "consumed_notes", ())
        done.report.losses += find_lost_attributes(graph, done.graph, read)
    return done


def _typed_copy(graph: Graph, host: Host) -> Graph:
    """A copy of a graph, with types where its namespace infers them."""
    from amanda.mapping import definitions_of

    copy = graph.clone()
    with use_host(host):
        definitions = definitions_of(copy.namespace)
        if definitions is not None:
            definitions.infer(copy)
    return copy


def _resolve_target(to: str, host: Host) -> Span:
    """The target namespaces; the route chooses if the version is open."""
    span = parse_span(to)
    versions = host.namespace_versions().get(span.path)
    if versions and span.exact is not None:
        return Span.of(resolve_name(to, {span.path: versions}))
    return span


def _installed_links(host: Host) -> list[MappingLink]:
    """Every installed mapping, one link for each direction.

    Mappings with an environment variable in their manifest need it to be set."""
    from amanda.mapping import MappingLink

    links = []
    entries = host.entries("mappings")
    names = [entry.name for entry in entries]
    for entry in entries:
        variable = entry.manifest.get("environment")
        if variable is not None and not os.environ.get(variable):
            continue
        if {"from", "to"} <= entry.manifest.keys() and not entry.fault:
            clash = names.count(entry.name) > 1
            key = f"{entry.dist}:{entry.name}" if clash else entry.name
            ends = [parse_span(entry.manifest[end]) for end in ("from", "to")]
            transit = bool(entry.manifest.get("transit", True))
            links.append(MappingLink(key, ends[0], ends[1], transit))
            if entry.manifest.get("both"):
                links.append(MappingLink(key, ends[1], ends[0]))
    return links


check_arguments(globals())
