"""Compiling and running graphs on backends."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from amanda.addons import known_addons
from amanda.api.conversion import (
    convert_along,
    expand_frontend_ops,
    find_route_to_backend,
    separate_dims_on_host,
    stable_on_host,
)
from amanda.argument_checks import check_arguments
from amanda.errors import PluginBrokenError, PluginMissingError, UsageError
from amanda.host import host_in_use

if TYPE_CHECKING:
    from amanda.backend import Compiled, GuardedBackend, Lowered, SeparateDims
    from amanda.graph import Graph, Op, OutputPort
    from amanda.host import Host, PluginEntry
    from amanda.mapping import Report

__all__ = ["backends", "copy_for_backend", "compile", "run"]

_HEARD = ("before_compile", "after_compile", "gap_met")
"""Hooks that must fire for every compilation, so the cache is not used."""

BACKEND_VARIABLE = "AMANDA_BACKEND"
"""Environment variable with the default backend, as `name` or `name:device`."""


def backends(*, host: Host | None = None) -> list[PluginEntry]:
    """All registered backends, with their state. Imports none of them."""
    return (host or host_in_use()).entries("backends")


def compile(
    graph: Graph,
    backend: str | None = None,
    device: str | None = None,
    fallback: str | Sequence[str] | None = None,
    *,
    host: Host | None = None,
    seed: int | None = None,
    strict_shapes: bool = False,
    keep_executable: bool = True,
    **options: Any,
) -> Compiled:
    """Compile a graph on a backend.

    `backend` is `name` or `name:device`; the default is AMANDA_BACKEND, or the only one
    installed. The graph is converted to the namespace that the backend consumes.
    `options` are those of the backend. Unsupported ops run on `fallback`, one or more
    other backends; `compiled.executable.report()` lists the pieces and the reasons.

    Random ops without a seed of their own draw from streams that advance with every
    call and iteration. They start at `seed`, or at one of the system's entropy.

    Feeds must have one size for each symbolic dim. In formats such as ONNX the names of
    dims are documentation: for a graph of such a file, different sizes are a warning,
    and an error only with `strict_shapes`.

    The last few executables are kept for equal graphs; with `keep_executable=False`
    this one is not, and is freed with its weights when it is dropped.
    """
    host = host or host_in_use()
    return _compile_or_reuse(
        graph,
        backend,
        device,
        fallback,
        host,
        options,
        None,
        seed,
        strict_shapes,
        keep_executable,
    )


def run(
    graph: Graph,
    feeds: Mapping[Any, Any] | Sequence[Any],
    targets: Iterable[str | Op | OutputPort] | None = None,
    backend: str | None = None,
    fallback: str | Sequence[str] | None = None,
    *,
    device: str | None = None,
    host: Host | None = None,
    seed: int | None = None,
    strict_shapes: bool = False,
    **options: Any,
) -> dict[Any, Any]:
    """Run a graph on `feeds`; returns a dict of its results, in order.

    Feeds are a list in the order of the inputs, or a dict by name or by handle.
    `targets` are names of results or ops, ops, or values of the graph. Only what they
    need is run and fed, and they are the keys of the dict. With `seed`, random ops
    without a seed of their own draw the same numbers in every run. `strict_shapes` is
    as for `compile`.
    """
    host = host or host_in_use()
    keys = None
    if targets is not None:
        from amanda.backend import feeds_by_key, target_of

        keys = list(targets)
        values = [target_of(graph, target) for target in keys]
        memo: dict[Any, Any] = {}
        source, graph = graph, graph.clone(values, memo=memo)
        if isinstance(feeds, Mapping):
            feeds = feeds_by_key(feeds, lambda key: _key_in_part(key, source, memo))
    compiled = _compile_or_reuse(
        graph, backend, device, fallback, host, options, keys, seed, strict_shapes
    )
    return compiled(feeds)


def _key_in_part(key: Any, graph: Graph, memo: Mapping[Any, Any]) -> Any:
    """The key of a feed in the part of a graph that targets need."""
    from amanda.backend import fed_parameter, parameter_key

    port = fed_parameter(key)
    if port is None:
        return key
    if port.graph is not graph:
        raise UsageError(f"the handle {port} is of another graph")
    return parameter_key(memo.get(port, port))


def _compile_or_reuse(
    graph: Graph,
    backend: str | None,
    device: str | None,
    fallback: str | Sequence[str] | None,
    host: Host,
    options: Mapping[str, Any],
    keys: list[Any] | None,
    seed: int | None,
    strict_shapes: bool,
    is_cached: bool = True,
) -> Compiled:
    """Compile a graph, or return the cached executable of an equal one."""
    from amanda.backend import (
        ExecutableCache,
        SeparateDims,
        ValueLookup,
        cache_key,
        shares_unchecked_dims,
    )

    entry, device = choose_backend(host, backend, device)
    made = load_backend(host, entry, device, options)
    if getattr(made.backend, "compiles_seed", False):
        options = {**options, "seed": seed}
    key = alive = None
    if is_cached and not host.listens(*_HEARD):
        loaded = id(made.backend)
        place = (entry.name, entry.source_text, loaded, device, repr(fallback))
        key, alive = cache_key(graph, options, *place, strict_shapes)

    def compile_part(part: Graph) -> Compiled:
        separate = None
        if not strict_shapes and shares_unchecked_dims(part):
            separate = SeparateDims(part, compile_separated)
        return _compile_on_backend(
            part, made, entry, device, fallback, host, options, separate
        )

    def compile_separated(part: Graph) -> Compiled:
        return compile_part(separate_dims_on_host(part, host))

    kept: ExecutableCache = host.caches.setdefault("executables", ExecutableCache())
    compiled: Compiled | None = None if key is None else kept.get(key)
    if compiled is None:
        compiled = compile_part(graph)
        if key is not None and not _keeps_state(compiled):
            kept.put(key, compiled, (made, alive))
    find = ValueLookup(
        (graph.digest() if key is None else key[0], compiled.digest),
        lambda other: _convert_for_backend(other, made, host),
        compile_part,
    )
    return compiled.again(keys, find, seed)


def _keeps_state(compiled: Compiled) -> bool:
    """Whether calls of an executable depend on those before."""
    has_variables = compiled.executable_attribute("state") is not None
    return has_variables or bool(compiled.executable_attribute("draws"))


def _compile_on_backend(
    graph: Graph,
    made: GuardedBackend,
    entry: PluginEntry,
    device: str | None,
    fallback: str | Sequence[str] | None,
    host: Host,
    options: Mapping[str, Any],
    separate: SeparateDims | None,
) -> Compiled:
    """Convert and lower a graph for a backend, and compile it there."""
    from amanda.backend import Compiled, State, unsupported_ops_error
    from amanda.graph import state_ports, without_state_notes

    reports: list[Report] = []
    graph = _convert_for_backend(graph, made, host, reports)
    lowered, problems = lower_on_host(stable_on_host(graph, host), made.takes, host)
    if problems and not fallback:
        others = _possible_fallbacks(host, entry, graph.namespace or "")
        raise unsupported_ops_error(entry.what, problems, others)
    host.fire("before_compile", graph=lowered, backend=entry.name, device=device)
    state = None
    if state_ports(graph):
        lowered = without_state_notes(lowered)
        state = options.get("state")
        State.expect(state)
        options = {key: options[key] for key in options if key != "state"}
    executable: Any
    if problems:
        executable = _compile_with_fallback(
            lowered, made, entry, device, fallback, host, options
        )
    else:
        executable = made.compile(lowered, device, options)
    compiled = Compiled(
        graph,
        executable,
        backend=entry.name,
        device=device,
        host=host,
        plugin=entry,
        separate_dims=separate,
        changed_ports=[port for report in reports for port in report.changed_ports],
        state=state,
    )
    host.fire(
        "after_compile",
        graph=graph,
        backend=entry.name,
        device=device,
        executable=compiled,
    )
    return compiled


def choose_backend(
    host: Host, backend: str | None, device: str | None
) -> tuple[PluginEntry, str | None]:
    """The chosen backend and device."""
    text = backend or os.environ.get(BACKEND_VARIABLE) or _only_backend(host)
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
        error.problems = tuple(_backend_states(host))
        raise


def _possible_fallbacks(host: Host, entry: PluginEntry, namespace: str) -> list[str]:
    """Other backends of the same namespace, by their manifests."""
    from amanda.backend import consumes

    names = host.names("backends")
    return [
        other.name if names.count(other.name) == 1 else other.choice
        for other in host.entries("backends")
        if other is not entry
        and not other.fault
        and consumes(namespace, str(other.manifest.get("namespace", "")))
    ]


def _only_backend(host: Host) -> str:
    names = host.names("backends")
    if len(names) == 1:
        return names[0]
    if not names:
        known = dict.fromkeys(r.dist for r in known_addons() if r.kind == "backends")
        raise PluginMissingError(
            "no backend is installed, so nothing can run a graph",
            hint=f"install a plug-in that has one: {' or '.join(known)}",
        )
    raise UsageError(
        "several backends are installed, but none is chosen",
        hint=f"name one, or set {BACKEND_VARIABLE}",
        problems=_backend_states(host),
    )


def _backend_states(host: Host) -> list[str]:
    """One line for each backend, with its state."""
    return [
        f"{entry.name} ({entry.source_text}): {entry.state}"
        + (f", {entry.fault}" if entry.fault else "")
        for entry in host.entries("backends")
    ]


def load_backend(
    host: Host,
    entry: PluginEntry,
    device: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> GuardedBackend:
    """The backend of an entry, as the core calls it: that of the device and the
    options, where its devices are backends of their own."""
    from amanda.backend import GuardedBackend

    found = GuardedBackend(host.load(entry), entry, host)
    return found.select(device, {} if options is None else options)


def find_backend(host: Host, backend: str) -> GuardedBackend:
    """The backend that `name` or `name:device` chooses, as the core calls it."""
    entry, device = choose_backend(host, backend, None)
    return load_backend(host, entry, device)


def lower_on_host(graph: Graph, takes: Callable[[Op], object], host: Host) -> Lowered:
    """Lower a graph to what a backend takes, by the definitions of its namespace."""
    from amanda.backend import lower_for_backend

    definitions = host.namespace_plugin(graph.namespace)
    with host.calling(definitions, "lowering a graph", PluginBrokenError):
        return lower_for_backend(graph, takes)


def _convert_for_backend(
    graph: Graph,
    made: GuardedBackend,
    host: Host,
    reports: list[Report] | None = None,
) -> Graph:
    """Convert a graph to the namespace of a backend, unless it is in it."""
    graph = expand_frontend_ops(graph, host, made.takes)
    route = find_route_to_backend(graph, made, host)
    is_there = route.source == route.target and not route.steps
    if is_there:
        return made.prepare(graph)
    return convert_along(graph, route, False, host, reports, stable=True)


def copy_for_backend(
    graph: Graph, backend: str | None, host: Host, device: str | None = None
) -> tuple[Graph, Mapping[Any, OutputPort]]:
    """A copy of a graph in the namespace of a backend, and a map of its values.

    After a conversion, the map has the results and the values of named ops."""
    entry, device = choose_backend(host, backend, device)
    there = _convert_for_backend(graph, load_backend(host, entry, device), host)
    twins: dict[Any, Any] = {}
    if there is graph:
        return graph.clone(memo=twins), twins
    for op in graph:
        if op.name is not None and op.name in there:
            twins.update(zip(op.outputs, there[op.name].outputs, strict=False))
    for here, other in zip(_plain_ports(graph), _plain_ports(there), strict=True):
        twins.update(zip(here, other, strict=True))
    return there, twins


def _plain_ports(graph: Graph) -> tuple[list[Any], list[Any]]:
    """The inputs and the values of the results of a graph, without variables."""
    from amanda.graph import state_ports

    ports = state_ports(graph)
    inputs, results = {p.input for p in ports}, {p.result for p in ports}
    return (
        [port for port in graph.parameters if port.index not in inputs],
        [
            value
            for i, value in enumerate(graph.results)
            if i not in results and value is not None
        ],
    )


def _compile_with_fallback(
    graph: Graph,
    made: GuardedBackend,
    entry: PluginEntry,
    device: str | None,
    fallback: str | Sequence[str] | None,
    host: Host,
    options: Mapping[str, Any],
) -> Any:
    """Compile a graph on several backends: each op on the first that supports it."""
    from amanda.backend import SplitBackend, split_graph

    names = [fallback] if isinstance(fallback, str) else list(fallback or ())
    parties = {entry.name: SplitBackend(made, device, options)}
    for name in names:
        other, place = choose_backend(host, name, None)
        key = other.name if place is None else name
        if key not in parties:
            parties[key] = SplitBackend(load_backend(host, other, place), place)
    return split_graph(graph, parties)


check_arguments(globals())
