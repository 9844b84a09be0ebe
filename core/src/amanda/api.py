"""What Amanda does, as functions: load, save, convert, compile, run, and what there is.

Each takes a `host`, whose plug-ins it uses; without one it is `default_host()`. The
package re-exports them all: `amanda.load(...)`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amanda.dictionary import Span, parse_name, parse_span, resolve, version_key
from amanda.errors import (
    BackendError,
    ConversionError,
    FormatError,
    NamespaceError,
    PluginBrokenError,
    PluginMissingError,
    UsageError,
)
from amanda.host import called, default_host, using

if TYPE_CHECKING:
    from amanda.backend import Backend, Compiled
    from amanda.dictionary import Namespace
    from amanda.graph import Graph, Op, OutputPort
    from amanda.host import Entry, Host, PluginInfo
    from amanda.mapping import Conversion, Link, Plan, Report, Route, Step

__all__ = [
    "backends",
    "compile",
    "convert",
    "load",
    "namespace",
    "plan",
    "plugins",
    "run",
    "save",
]

BACKEND_VARIABLE = "AMANDA_BACKEND"
"""Where the name of the default backend stands, as `name` or `name:device`."""


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
    _expect(graph, "save")
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

    _expect(graph, "plan")
    host = host or default_host()
    step = partial(_stepped, host=host)
    if not _is_backend(to, host):
        return Plan(_route(graph, _goal(to, host), host), graph, step)
    backend: Backend = host.get("backends", to.partition(":")[0])
    space = graph.namespace
    if space is not None and consumes(space, backend.namespace):
        route = Route(space, space)
    else:
        route = _route(graph, parse_span(backend.namespace), host)
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
    return _converted(graph, route, keep_foreign, host, reports)


def _route(graph: Graph, goal: Span, host: Host) -> Route:
    from amanda.mapping import Route, find_route

    if graph.namespace is None:
        raise ConversionError(
            "the graph has no namespace, so it is not known what its ops mean",
            hint="make it with one: Graph('amanda/std/1')",
        )
    if graph.namespace == str(goal):
        return Route(graph.namespace, graph.namespace)
    start = parse_name(graph.namespace)
    return find_route(start, goal, _links(host), _versions(host))


def _converted(
    graph: Graph,
    route: Route,
    keep_foreign: bool,
    host: Host,
    reports: list[Report] | None = None,
) -> Graph:
    from amanda.mapping import expect_whole

    if not route.steps:
        return graph.clone()
    host.fire("before_convert", graph=graph, route=route)

    result = graph
    for step in route.steps:
        done = _stepped(result, step, keep_foreign, host=host)
        if reports is not None:
            reports.append(done.report)
        result = expect_whole(done, keep_foreign=keep_foreign)
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


# Running


def compile(
    graph: Graph,
    backend: str | None = None,
    device: str | None = None,
    fallback: str | Sequence[str] | None = None,
    *,
    host: Host | None = None,
    **options: Any,
) -> Compiled:
    """The graph on a backend, ready to be called.

    `backend` is `name` or `name:device`; without one, AMANDA_BACKEND says it, or there
    is only one. The graph is converted to the namespace that the backend consumes.
    `options` are the backend's own. What it does not take is run by `fallback`, one or
    several others, in few pieces; `compiled.executable.report()` tells which and why.
    """
    host = host or default_host()
    _expect(graph, "compile")
    return _compile(graph, backend, device, fallback, host, options, None)


def run(
    graph: Graph,
    feeds: Mapping[Any, Any] | Sequence[Any],
    targets: Iterable[str | Op | OutputPort] | None = None,
    backend: str | None = None,
    fallback: str | Sequence[str] | None = None,
    *,
    device: str | None = None,
    host: Host | None = None,
    **options: Any,
) -> dict[Any, Any]:
    """What the graph makes of `feeds`: a dict in the order of its results.

    `targets` are names of results or ops, ops, or values, anywhere in the graph; then
    only what they need is run and fed, and the dict has them as keys.
    """
    host = host or default_host()
    _expect(graph, "run")
    keys = None
    if targets is not None:
        from amanda.backend import target_of

        keys = list(targets)
        values = [target_of(graph, target) for target in keys]
        graph = graph.clone(values)
    compiled = _compile(graph, backend, device, fallback, host, options, keys)
    return compiled(feeds)


def _compile(
    graph: Graph,
    backend: str | None,
    device: str | None,
    fallback: str | Sequence[str] | None,
    host: Host,
    options: Mapping[str, Any],
    keys: list[Any] | None,
) -> Compiled:
    """A graph on a backend: made, or kept since an equal graph was compiled."""
    from amanda.backend import Handles, Kept, kept_key

    entry, device = _chosen(host, backend, device)
    made: Backend = host.load(entry)
    key = alive = None
    if not _is_heard(host):
        place = (entry.name, entry.source_text, id(made), device, repr(fallback))
        key, alive = kept_key(graph, options, *place)
    kept: Kept = host.kept.setdefault("executables", Kept())
    compiled: Compiled | None = None if key is None else kept.get(key)
    if compiled is None:
        compiled = _made(graph, made, entry, device, fallback, host, options)
        if key is not None and getattr(compiled.executable, "state", None) is None:
            kept.put(key, compiled, (made, alive))
    find = Handles(
        (graph.digest() if key is None else key[0], compiled.digest),
        lambda other: _brought(other, made, entry, host),
        lambda part: _made(part, made, entry, device, fallback, host, options),
    )
    return compiled.again(keys, find)


def _is_heard(host: Host) -> bool:
    """Whether somebody wants to hear of every graph that is compiled, or mapped."""
    from amanda.host._entry import hook_of

    wanted = {"before_compile", "after_compile", "gap_met"}
    return any(hook_of(entry) in wanted for entry in host.entries("hooks"))


def _made(
    graph: Graph,
    made: Backend,
    entry: Entry,
    device: str | None,
    fallback: str | Sequence[str] | None,
    host: Host,
    options: Mapping[str, Any],
) -> Compiled:
    """What a backend compiles a graph to, which is brought to where it takes it."""
    from amanda.backend import Compiled, refusals, untaken

    graph = _brought(graph, made, entry, host)
    with called(entry, "asked what it takes", PluginBrokenError):
        problems = refusals(graph, made.takes)
    if problems and not fallback:
        raise untaken(entry.what, problems)
    host.fire("before_compile", graph=graph, backend=entry.name, device=device)
    executable: Any
    if problems:
        executable = _split(graph, made, entry, device, fallback, host, options)
    else:
        with using(host), called(entry, "compiling", BackendError):
            executable = made.compile(graph, device, dict(options))
    if not callable(executable):
        raise PluginBrokenError(
            f"{entry.what} did not return an executable",
            got=type(executable).__name__,
        )
    compiled = Compiled(
        graph,
        executable,
        backend=entry.name,
        device=device,
        fire=host.fire,
        is_heard=host.listens,
    )
    host.fire(
        "after_compile",
        graph=graph,
        backend=entry.name,
        device=device,
        executable=compiled,
    )
    return compiled


def _chosen(
    host: Host, backend: str | None, device: str | None
) -> tuple[Entry, str | None]:
    """The backend that is meant, and the device that its name or the caller says."""
    text = backend or os.environ.get(BACKEND_VARIABLE) or _only_one(host)
    parts = text.split(":")
    for i in range(1, len(parts) + 1):
        name, place = ":".join(parts[:i]), ":".join(parts[i:])
        if not host.has("backends", name):
            continue
        if place and device and place != device:
            raise UsageError(
                f"two devices are named: {place!r} and {device!r}",
                where=f"backend={text!r}",
            )
        return host.find("backends", name), device or place or None
    try:
        return host.find("backends", parts[0]), None
    except PluginMissingError as error:
        error.problems = tuple(_states(host))
        raise


def _only_one(host: Host) -> str:
    names = host.names("backends")
    if len(names) == 1:
        return names[0]
    if not names:
        raise PluginMissingError(
            "no backend is installed, so nothing can run a graph",
            hint="install a plug-in that has one: pip install amanda-NAME",
        )
    raise UsageError(
        "several backends are installed, and none is chosen",
        hint=f"name one, or set {BACKEND_VARIABLE}",
        problems=_states(host),
    )


def _states(host: Host) -> list[str]:
    """Each backend with its state, a line each."""
    return [
        f"{entry.name} ({entry.source_text}): {entry.state}"
        + (f", {entry.fault}" if entry.fault else "")
        for entry in host.entries("backends")
    ]


def _brought(graph: Graph, made: Backend, entry: Entry, host: Host) -> Graph:
    """The graph in the namespace of the backend; the same one where it is there."""
    from amanda.backend import consumes

    if graph.namespace is not None and consumes(graph.namespace, made.namespace):
        return graph
    try:
        goal = parse_span(made.namespace)
    except NamespaceError as error:
        raise PluginBrokenError(
            f"{entry.what} consumes no proper namespace", got=error.message
        ) from error
    return _converted(graph, _route(graph, goal, host), False, host)


def brought(
    graph: Graph, backend: str | None, host: Host
) -> tuple[Graph, Mapping[Any, OutputPort]]:
    """A copy of a graph in the namespace of a backend, and what became of its values.

    Where it had to be converted, results and values of named ops are known."""
    entry, _ = _chosen(host, backend, None)
    there = _brought(graph, host.load(entry), entry, host)
    twins: dict[Any, Any] = {}
    if there is graph:
        return graph.clone(memo=twins), twins
    for op in graph:
        if op.name is not None and op.name in there:
            twins.update(zip(op.outputs, there[op.name].outputs, strict=False))
    twins.update(zip(graph.parameters, there.parameters, strict=False))
    twins.update(zip(graph.results, there.results, strict=True))
    return there, twins


def _split(
    graph: Graph,
    made: Backend,
    entry: Entry,
    device: str | None,
    fallback: str | Sequence[str] | None,
    host: Host,
    options: Mapping[str, Any],
) -> Any:
    """The graph on several backends: each op on the first one that takes it."""
    from amanda.backend import Party, split

    names = [fallback] if isinstance(fallback, str) else list(fallback or ())
    parties = {entry.name: Party(made, device, options, entry.what)}
    for other in (host.find("backends", name) for name in names):
        parties.setdefault(other.name, Party(host.load(other), None, {}, other.what))
    find, doing = host.find, "compiling"
    return split(
        graph, parties, lambda name: called(find("backends", name), doing, BackendError)
    )


# What there is


def backends(*, host: Host | None = None) -> list[Entry]:
    """Every backend that can be chosen, with its state. Imports none of them."""
    return (host or default_host()).entries("backends")


def plugins(*, host: Host | None = None) -> list[PluginInfo]:
    """Every plug-in that is installed, with its state. Imports none of them."""
    return (host or default_host()).plugins()


def _expect(graph: object, verb: str) -> None:
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
