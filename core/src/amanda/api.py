"""What Amanda does, as functions: load, save, convert, and what there is.

Each takes a `host`, whose plug-ins it uses; without one it is `default_host()`. The
package re-exports them all: `amanda.load(...)`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amanda.dictionary import (
    Name,
    Span,
    parse_name,
    parse_span,
    resolve,
    version_key,
)
from amanda.errors import (
    ConversionError,
    FormatError,
    NamespaceError,
    PluginBrokenError,
    UsageError,
)
from amanda.host import called, default_host

if TYPE_CHECKING:
    from amanda.backend import Backend
    from amanda.dictionary import Namespace
    from amanda.graph import Graph
    from amanda.host import Entry, Host, PluginInfo
    from amanda.mapping import Conversion, Link, Plan, Report, Route, Step

__all__ = [
    "convert",
    "converted",
    "load",
    "namespace",
    "plan",
    "plugins",
    "route_to",
    "save",
    "expect_a_graph",
]

# Files and live objects


def load(
    source: object,
    format: str | None = None,
    *,
    host: Host | None = None,
    **options: Any,
) -> Graph:
    """The graph in a file, a folder or a live object of a framework.

    Without `format` a live object goes by its type, a file by its first bytes, then by
    its suffix. `options` are the format's own.
    """
    from amanda.host._detect import reader

    host = host or default_host()
    entry = reader(host, source, format)
    is_path = isinstance(source, str | os.PathLike)
    what = str(source) if is_path else f"an object of type {type(source).__qualname__}"
    codec = host.load(entry)
    if not callable(getattr(codec, "read", None)):
        raise FormatError(f"{entry.what} only writes, so it cannot read {what}")
    host.fire("before_load", source=source, format=entry.name)
    with _using(entry, f"reading {what}"):
        graph = codec.read(Path(source) if is_path else source, **options)  # type: ignore[arg-type]
    _expect_graph(graph, entry, "reading")
    host.fire("after_load", source=source, format=entry.name, graph=graph)
    return graph  # type: ignore[no-any-return]


def save(
    graph: Graph,
    path: str | os.PathLike[str],
    format: str | None = None,
    *,
    host: Host | None = None,
    **options: Any,
) -> None:
    """Writes a graph to a file, in the format that its suffix tells or `format` names.

    The file appears whole or not at all; one that was there stays until then.
    """
    from amanda.host._detect import writer

    host = host or default_host()
    expect_a_graph(graph, "save")
    target = Path(path)
    entry = writer(host, target, format)
    codec = host.load(entry)
    if not callable(getattr(codec, "write", None)):
        raise FormatError(f"{entry.what} only reads, so it cannot write {target}")
    if (span := entry.manifest.get("namespace")) is not None:
        _expect_namespace(graph, span, entry)
    host.fire("before_save", graph=graph, path=str(target), format=entry.name)
    with _using(entry, f"writing {target}"):
        codec.write(graph, target, **options)
    host.fire("after_save", graph=graph, path=str(target), format=entry.name)


@contextmanager
def _using(entry: Entry, doing: str) -> Iterator[None]:
    """A format at work: what the system refuses is a matter of the file."""
    try:
        with called(entry, doing, PluginBrokenError, passing=(OSError,)):
            yield
    except OSError as error:
        cause = error.strerror or str(error)
        raise FormatError(f"failed while {doing}", got=cause.lower()) from error


def _expect_namespace(graph: Graph, span: str, entry: Entry) -> None:
    from amanda.backend import consumes

    if graph.namespace is None or not consumes(graph.namespace, span):
        raise FormatError(
            f"{entry.what} does not write graphs of this namespace",
            expected=span,
            got=graph.namespace or "no namespace",
            hint=f"amanda.convert(graph, {span!r}) first",
        )


# Conversion


def plan(graph: Graph, to: str, *, host: Host | None = None) -> Plan:
    """How `convert` would go: the route, found without importing a mapping.

    Its `gaps` and `reports` try the route out when they are asked for. `to` may also be
    a backend: then it is the way there, and `refusals` is what it does not take.
    """
    from amanda.backend import consumes, refusals
    from amanda.mapping import Plan, Route

    expect_a_graph(graph, "plan")
    host = host or default_host()
    step = partial(_stepped, host=host)
    if not _is_backend(to, host):
        return Plan(route_to(graph, _goal(to, host), host), graph, step)
    backend: Backend = host.get("backends", to.partition(":")[0])
    space = graph.namespace
    if space is not None and consumes(space, backend.namespace):
        route = Route(space, space)
    else:
        route = route_to(graph, parse_span(backend.namespace), host)
    return Plan(route, graph, step, lambda made: refusals(made, backend.takes))


def _is_backend(name: str, host: Host) -> bool:
    """Is it the name of a backend, and not that of a namespace too?"""
    if not host.has("backends", name.partition(":")[0]):
        return False
    try:
        return parse_name(name).path not in _versions(host)
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
    """A new graph of the namespace `to` that means the same.

    Ops that no rule maps are an error that lists them all; `keep_foreign` keeps them as
    they are. The graph itself is left as it is. `reports` gets what each step of the
    route tells: which rules took how many ops, what was kept, what was lost.
    """
    host = host or default_host()
    route = plan(graph, to, host=host).route
    return converted(graph, route, keep_foreign, host, reports)


def route_to(graph: Graph, goal: Span, host: Host) -> Route:
    """The way of a graph to one of some namespaces, over what the host has."""
    from amanda.mapping import Route, find_route

    if graph.namespace is None:
        raise ConversionError(
            "the graph has no namespace, so it is not known what its ops mean",
            hint="make it with one: Graph('amanda/std/1')",
        )
    start = parse_name(graph.namespace)
    if start in goal or graph.namespace == str(goal):
        return Route(graph.namespace, graph.namespace, _pick_ups(graph, start, host))
    return find_route(start, goal, _links(host), _versions(host))


def _pick_ups(graph: Graph, here: Name, host: Host) -> tuple[Step, ...]:
    """Steps that map what an earlier conversion kept as it was, where one can now."""
    from amanda.mapping import Step

    kept = {op.own_namespace for part in graph.graphs() for op in part} - {None}
    spaces = [parse_name(space) for space in kept if space is not None]
    keys = {
        link.key
        for link in (_links(host) if spaces else ())
        if here in link.target and any(space in link.source for space in spaces)
    }
    return tuple(Step(key, str(here), str(here)) for key in sorted(keys))


def converted(
    graph: Graph,
    route: Route,
    keep_foreign: bool,
    host: Host,
    reports: list[Report] | None = None,
) -> Graph:
    """What the steps of a route make of a graph; a copy where there are none."""
    from amanda.mapping import expect_whole

    if not route.steps:
        return graph.clone()
    host.fire("before_convert", graph=graph, route=route)

    result = graph
    for step in route.steps:
        # where it is already, what a step finds was kept on purpose
        keeps = keep_foreign or step.source == step.target
        done = _stepped(result, step, keeps, host=host)
        if reports is not None:
            reports.append(done.report)
        result = expect_whole(done, keep_foreign=keeps)
    host.fire("after_convert", graph=graph, route=route, result=result)
    return result


def _stepped(graph: Graph, step: Step, keep_foreign: bool, *, host: Host) -> Conversion:
    """One step of a route, with its report; gaps are in there, not raised."""
    from amanda.mapping import conversion

    def gap_met(**event: Any) -> Any:
        return host.fire("gap_met", **event)

    entry = host.find("mappings", step.mapping)
    mapper = host.load(entry)
    with called(entry, f"mapping to {step.target}", PluginBrokenError):
        done = conversion(
            mapper, graph, step.target, keep_foreign=keep_foreign, gap_met=gap_met
        )
    _expect_graph(done.graph, entry, "mapping")
    if done.graph.namespace != step.target:
        raise PluginBrokenError(
            f"{entry.what} returned a graph of another namespace",
            expected=step.target,
            got=done.graph.namespace,
        )
    return done


def _goal(to: str, host: Host) -> Span:
    """The namespace that a name means; a route chooses the version where it is open."""
    span = parse_span(to)
    versions = _versions(host).get(span.path)
    if versions and span.exact is not None:
        return Span.of(resolve(to, {span.path: versions}))
    return span


def _links(host: Host) -> list[Link]:
    """Every installed mapping, in each direction that it maps."""
    from amanda.mapping import Link

    links = []
    entries = host.entries("mappings")
    names = [entry.name for entry in entries]
    for entry in entries:
        if {"from", "to"} <= entry.manifest.keys() and not entry.fault:
            clash = names.count(entry.name) > 1
            key = f"{entry.dist}:{entry.name}" if clash else entry.name
            ends = [parse_span(entry.manifest[end]) for end in ("from", "to")]
            transit = bool(entry.manifest.get("transit", True))
            links.append(Link(key, ends[0], ends[1], transit))
            if entry.manifest.get("both"):
                links.append(Link(key, ends[1], ends[0]))
    return links


# Namespaces


def namespace(
    name: str, *, assume: bool = False, host: Host | None = None
) -> Namespace:
    """The dictionary of a namespace: `onnx@18`, `amanda/onnx/18`, `torch` (newest).

    With `assume` the nearest lower version stands for one that is not known, and the
    dictionary says so in `assumed`.
    """
    host = host or default_host()
    path = parse_name(name).path
    versions = _versions(host)
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


def _versions(host: Host) -> dict[str, Sequence[str]]:
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


# What there is


def plugins(*, host: Host | None = None) -> list[PluginInfo]:
    """Every plug-in that is installed, with its state. Imports none of them."""
    return (host or default_host()).plugins()


def expect_a_graph(graph: object, verb: str) -> None:
    """What a caller gave to `verb` must be a graph."""
    from amanda.graph import Graph

    if not isinstance(graph, Graph):
        raise UsageError(
            f"only a graph can be given to {verb}",
            got=type(graph).__name__,
            hint="amanda.load makes a graph of a file or of a live object",
        )


def _expect_graph(graph: object, entry: Entry, doing: str) -> None:
    from amanda.graph import Graph

    if not isinstance(graph, Graph):
        raise PluginBrokenError(
            f"{entry.what} returned no graph from {doing}", got=type(graph).__name__
        )
