"""What stands between a model and a framework or backend, everything at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from amanda.errors import AmandaError, BackendError, NamespaceError
from amanda.types import Sym, TensorType

if TYPE_CHECKING:
    from amanda.backend import (
        Crossing,
        DynamicSize,
        GuardedBackend,
        MemoryEstimate,
        OpRange,
        PrecisionChange,
    )
    from amanda.dictionary import Dictionary, Problem
    from amanda.graph import Graph, Op
    from amanda.host import Host
    from amanda.mapping import Gap, Plan, Refusal, Report
    from amanda.types import Dim

__all__ = ["Readiness", "check_readiness"]


@dataclass
class Readiness:
    """What was found of a model and its goal."""

    plan: Plan
    faults: Sequence[Problem] = ()
    """What the dictionaries of the model find."""
    error: AmandaError | None = None
    """Why a step of the conversion could not be made at all."""
    reports: Sequence[Report] = ()
    gaps: Sequence[Gap] = ()
    refusals: Sequence[Refusal] = ()
    """Ops that the backend does not support; a fallback may run them."""
    pieces: Sequence[OpRange] = ()
    """What runs where with the fallbacks."""
    crossings: Sequence[Crossing] = ()
    unplaced: Sequence[str] = ()
    """Why some ops run on none of the backends."""
    sizes: Sequence[DynamicSize] = ()
    precision: Sequence[PrecisionChange] = ()
    memory: MemoryEstimate | None = None
    missing_files: Sequence[str] = ()

    @property
    def is_clear(self) -> bool:
        """Whether nothing stands in the way; what changes on the way is allowed."""
        refused = self.unplaced if self.pieces or self.unplaced else self.refusals
        return not (self.error or self.gaps or refused or self.missing_files)


def check_readiness(
    graph: Graph,
    plan: Plan,
    host: Host,
    backend: GuardedBackend | None = None,
    fallback: Sequence[str] = (),
) -> Readiness:
    """Everything that stands in the way of a plan, which is run for it.

    `backend` is the goal of the plan where it is one. With `fallback`, the pieces are
    found that a compilation with these backends would make.
    """
    from amanda.api.type_changes import changed_ops
    from amanda.backend import DynamicSize
    from amanda.host import use_host

    found = Readiness(plan)
    with use_host(host):
        found.faults = _dictionary_faults(graph)
        try:
            found.gaps, found.refusals = plan.gaps, plan.refusals
        except AmandaError as error:
            from amanda.mapping.routes.plan import gaps_of

            found.error, found.reports = error, plan.finished_reports
            found.gaps = gaps_of(found.reports)
            found.memory = _estimate_memory([graph], host)
            found.sizes = [
                DynamicSize(dim, "dim", "open; --dim gives it a size")
                for dim in _symbolic_dims(graph)
            ]
            return found
        found.reports = plan.reports
        made = plan.result_with_gaps
        found.memory = _estimate_memory([plan.lowered_graph, made, graph], host)
        found.sizes = list(_frozen_dims(graph, made))
        found.precision = [
            *_changed_ports(graph, made),
            *changed_ops(graph, made, _typed_form(graph, made, host)),
        ]
        if backend is not None:
            found.sizes += _sizes_on_backend(plan.lowered_graph, backend)
            found.precision += backend.precision_changes(plan.lowered_graph)
            if fallback:
                _find_pieces(found, backend, fallback, host)
    return found


# -- the model -------------------------------------------------------------------------


def _dictionary_faults(graph: Graph) -> Sequence[Problem]:
    """The faults of all ops whose dictionaries are installed."""
    from amanda.dictionary import check_graph

    if graph.namespace is None:
        return []
    against = _find_dictionary(graph.namespace)
    return check_graph(graph, _find_dictionary, against).problems


def _find_dictionary(name: str) -> Dictionary | None:
    from amanda.api.namespaces import namespace
    from amanda.dictionary import Dictionary

    try:
        return Dictionary.of(namespace(name))
    except NamespaceError:
        return None


def _estimate_memory(graphs: Iterable[Graph], host: Host) -> MemoryEstimate:
    """The estimate of the graph, of several forms of a model, with most known types.

    Where all forms lack types, one is converted to a namespace that infers them."""
    from amanda.backend import estimate_memory

    found = []
    for graph in graphs:
        estimate = estimate_memory(graph)
        if not estimate.unknown:
            return estimate
        found.append(estimate)
        typed = _convert_to_typed(graph, host)
        if typed is not None:
            found.append(estimate_memory(typed))
    return min(found, key=lambda estimate: estimate.unknown)


def _convert_to_typed(graph: Graph, host: Host) -> Graph | None:
    """The graph in a namespace that infers types, where one mapping leads there."""
    from amanda.api.conversion import _installed_links, convert
    from amanda.dictionary import parse_name
    from amanda.mapping import definitions_of

    if graph.namespace is None or definitions_of(graph.namespace) is not None:
        return None
    here = parse_name(graph.namespace)
    for link in _installed_links(host):
        target = link.target.exact
        if target is None or here not in link.source:
            continue
        if definitions_of(str(target)) is not None:
            try:
                return convert(graph, str(target), keep_foreign=True, host=host)
            except AmandaError:  # it is reported where the plan itself fails
                return None
    return None


# -- what changes ----------------------------------------------------------------------


def _tensor_ports(graph: Graph) -> dict[tuple[str, str | int], TensorType]:
    """The tensor types of inputs and results, by name or index."""
    rows: list[tuple[str, int, str | None, object]] = [
        ("input", port.index, port.name, port.type) for port in graph.parameters
    ]
    rows += [
        ("result", port.index, port.name, None if value is None else value.type)
        for port, value in zip(graph.outputs, graph.results, strict=True)
    ]
    return {
        (place, name if name is not None else index): type
        for place, index, name, type in rows
        if isinstance(type, TensorType)
    }


def _dims(type: TensorType) -> tuple[Dim, ...]:
    """The dims of a tensor; none where its rank is unknown."""
    return type.shape.dims if type.shape.has_rank else ()


def _frozen_dims(before: Graph, after: Graph) -> Iterator[DynamicSize]:
    """Symbolic dims of inputs that are numbers after a conversion."""
    from amanda.backend import DynamicSize

    made = _tensor_ports(after)
    for (place, name), type in _tensor_ports(before).items():
        other = made.get((place, name))
        if place != "input" or other is None:
            continue
        for dim, size in zip(_dims(type), _dims(other), strict=False):
            if isinstance(dim, Sym) and not isinstance(size, Sym):
                yield DynamicSize(f"{dim} of {name}", "dim", f"frozen to {size}")


def _typed_form(graph: Graph, made: Graph, host: Host) -> Graph | None:
    """The graph where types are inferred, if it lacks some and has not become that."""
    from amanda.mapping import definitions_of

    ports = (port for op in graph.walk() for port in op.outputs)
    if definitions_of(made.namespace) is not None or all(p.type for p in ports):
        return None
    return _convert_to_typed(graph, host)


def _changed_ports(before: Graph, after: Graph) -> Iterator[PrecisionChange]:
    """Inputs and results whose element types a conversion changes."""
    from amanda.backend import PrecisionChange

    made = _tensor_ports(after)
    for (place, name), type in _tensor_ports(before).items():
        other = made.get((place, name))
        kinds = (type.dtype.kind, other.dtype.kind) if other is not None else ()
        if other is not None and "unknown" not in kinds and type.dtype != other.dtype:
            yield PrecisionChange(str(type.dtype), str(other.dtype), f"{place} {name}")


def _sizes_on_backend(graph: Graph, backend: GuardedBackend) -> list[DynamicSize]:
    """What a backend does with sizes that it does not know when it compiles."""
    from amanda.backend import DynamicSize

    listed = backend.dynamic_sizes(graph)
    if listed is not None:
        return listed
    silent = "the backend does not say what it does"
    return [DynamicSize(dim, "dim", silent) for dim in _symbolic_dims(graph)]


def _symbolic_dims(graph: Graph) -> list[str]:
    """The symbolic dims of inputs, each once."""
    dims = (
        dim
        for (place, _), type in _tensor_ports(graph).items()
        if place == "input"
        for dim in _dims(type)
    )
    return list(dict.fromkeys(str(dim) for dim in dims if isinstance(dim, Sym)))


# -- fallback --------------------------------------------------------------------------


def _find_pieces(
    found: Readiness, backend: GuardedBackend, names: Sequence[str], host: Host
) -> None:
    from amanda.api.compilation import find_backend
    from amanda.backend import SplitBackend, plan_pieces

    parties = {backend.backend.name: SplitBackend(backend)}
    for name in names:
        other = find_backend(host, name)
        parties.setdefault(other.backend.name, SplitBackend(other))
    graph = found.plan.lowered_graph
    try:
        found.pieces, found.crossings = plan_pieces(
            graph, parties, _gap_test(graph, bool(found.gaps))
        )
    except BackendError as error:
        found.unplaced = error.problems


def _gap_test(graph: Graph, has_gaps: bool) -> Callable[[Op], bool]:
    """Whether an op is a gap, about which no backend is asked."""
    from amanda.graph import CORE

    own = (None, CORE, graph.namespace)
    return lambda op: has_gaps and op.own_namespace not in own
