"""Loading and saving models, in whatever format is installed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amanda.api.expect import expect_graph_from
from amanda.argument_checks import check_arguments
from amanda.errors import FormatError, PluginBrokenError, UsageError
from amanda.graph import bulk
from amanda.host import host_in_use

if TYPE_CHECKING:
    from amanda.graph import Graph
    from amanda.host import Host, PluginEntry

__all__ = ["load", "save"]


def load(
    source: object,
    format: str | None = None,
    *,
    host: Host | None = None,
    **options: Any,
) -> Graph:
    """Read a file, a folder or a live object of a framework as a graph.

    Without `format`, it is found by the type of a live object, or by the first bytes
    and the suffix of a file. `options` are those of the format.
    """
    host = host or host_in_use()
    entry = host.format_to_read(source, format)
    is_path = isinstance(source, str | os.PathLike)
    what = str(source) if is_path else f"an object of type {type(source).__qualname__}"
    codec = host.load(entry)
    if not callable(getattr(codec, "read", None)):
        raise FormatError(f"{entry.what} only writes, so it cannot read {what}")
    _expect_options(codec.read, options, entry)
    host.fire("before_load", source=source, format=entry.name)
    with _calling(host, entry, f"reading {what}"), bulk():
        graph = codec.read(Path(source) if is_path else source, **options)  # type: ignore[arg-type]
    expect_graph_from(graph, entry, "reading")
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
    """Write a graph to a file, in the format of its suffix or the one named.

    The file is replaced atomically.
    """
    host = host or host_in_use()
    target = Path(path)
    entry = host.format_to_write(target, format, graph.namespace)
    codec = host.load(entry)
    if not callable(getattr(codec, "write", None)):
        raise FormatError(f"{entry.what} only reads, so it cannot write {target}")
    if (span := entry.manifest.get("namespace")) is not None:
        _expect_namespace(graph, span, entry)
    host.fire("before_save", graph=graph, path=str(target), format=entry.name)
    with _calling(host, entry, f"writing {target}"), bulk():
        codec.write(graph, target, **options)
    host.fire("after_save", graph=graph, path=str(target), format=entry.name)


def _expect_options(
    method: Callable[..., Any], options: Mapping[str, Any], entry: PluginEntry
) -> None:
    """Raise UsageError for an option that a format does not have."""
    found = list(signature(method).parameters.values())[1:]
    known = [each.name for each in found if each.kind is not each.VAR_KEYWORD]
    unknown = [name for name in options if name not in known]
    if unknown and len(known) == len(found):
        raise UsageError(
            f"{entry.what} has no option {unknown[0]!r}",
            expected=f"one of {', '.join(known)}" if known else "no options",
        )


@contextmanager
def _calling(host: Host, entry: PluginEntry, doing: str) -> Iterator[None]:
    """Call a format; an OSError becomes a FormatError."""
    try:
        with host.calling(entry, doing, PluginBrokenError, passing=(OSError,)):
            yield
    except OSError as error:
        cause = error.strerror or str(error)
        raise FormatError(f"failed while {doing}", got=cause.lower()) from error


def _expect_namespace(graph: Graph, span: str, entry: PluginEntry) -> None:
    from amanda.backend import consumes

    if graph.namespace is None or not consumes(graph.namespace, span):
        raise FormatError(
            f"{entry.what} does not write graphs of this namespace",
            expected=span,
            got=graph.namespace or "no namespace",
            hint=f"amanda.convert(graph, {span!r}) first",
        )


check_arguments(globals())
