"""Lowering: ops that a target does not support, replaced by their definitions.

A namespace may define some of its ops (composites) by others. Such a namespace object
has the methods of `Definitions`; what it defines, every backend and every mapping gets
for free, as long as the target supports the ops at the bottom.

    unlowered = lower(graph, lambda op: op.type in KERNELS or f"no kernel: {op.type}")
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from amanda.current_host import host_in_use
from amanda.dictionary.validation import location_of
from amanda.errors import AmandaError, NamespaceError, Undecided
from amanda.graph import CORE, Graph, Op
from amanda.mapping.side import Decline

__all__ = [
    "Definitions",
    "Overrides",
    "Refusal",
    "Supports",
    "Unlowered",
    "definitions_of",
    "expand_foreign",
    "lower",
]

Supports: TypeAlias = Callable[[Op], object]
"""True for a supported op; otherwise the reason, or False."""
Overrides: TypeAlias = Mapping[str, Callable[..., Any]]
"""A target's own definitions of ops, by type; one may raise Decline."""


class Definitions(Protocol):
    """A namespace that defines some of its ops by others.

    The methods are looked up on the class of the namespace object, whose attributes may
    be builders of ops.
    """

    def __contains__(self, op_type: object, /) -> bool: ...

    def is_composite(self, op_type: str, /) -> bool:
        """Whether an op type is defined by other ops."""

    def infer(self, graph: Graph, /) -> object:
        """Add inferred types to the values of a graph, in place."""

    def fold(self, graph: Graph, /) -> object:
        """Replace ops of constants by their results, where small, in place."""

    def assign_layout(self, graph: Graph, layout: str, /) -> object:
        """Convert ops to a layout of data, such as `NC*`, in place. Optional."""

    def complex_as_pairs(
        self, graph: Graph, keeps: Callable[[Op], bool] | None = None, /
    ) -> object:
        """Replace complex numbers by pairs of real ones, in a new last axis, in place.

        Inputs and results of the graph, too. Ops that `keeps` holds for stay where no
        other op has their complex values. Optional."""

    def explicit_state(self, graph: Graph, /) -> object:
        """Replace variables by inputs and results with the note `x-state`, in place.

        Optional."""

    def implicit_state(self, graph: Graph, /) -> object:
        """Replace inputs and results with the note `x-state` by variables, in place.

        Optional."""

    def stable_form(self, graph: Graph, /) -> Graph:
        """A copy that computes without overflow, for backends; else the graph itself.

        Optional."""

    def expand(
        self, op: Op, definition: Callable[..., Any] | None = None, /
    ) -> Sequence[Op]:
        """Replace an op by its definition, one level deep; returns the new ops.

        `definition` is used instead of the namespace's own. Raises Undecided, with the
        graph unchanged, where the definition depends on types that are unknown.
        """


class Unlowered(NamedTuple):
    """An op that is not supported and could not be replaced."""

    op: Op
    reason: str
    root: Op
    """The op of the graph as it was, of whose definition `op` is a part."""

    @property
    def why(self) -> str:
        """The reason, with the part of the definition that it is about."""
        if self.op is self.root:
            return self.reason
        return f"its definition needs {self.op.type}: {self.reason}"

    def __str__(self) -> str:
        return f"{self.root.label}: {self.why}"


class Refusal(NamedTuple):
    """An op that a target does not support, and that could not be lowered.

    >>> print(Refusal("Foo", "Foo 'a'", "in body 'then' of If 'b'", "no kernel"))
    Foo 'a', in body 'then' of If 'b': no kernel
    """

    op: str
    """Its type."""
    label: str
    """Its type and its name or position."""
    location: str = ""
    """The bodies and functions that it is in; empty in the root graph."""
    why: str = ""

    @classmethod
    def of(cls, op: Op, why: object) -> Refusal:
        """The refusal of an op of a graph, with the backend's answer."""
        reason = why if isinstance(why, str) else ""
        return cls(op.type or "graph", op.label, location_of(op), reason)

    def __str__(self) -> str:
        place = f", {self.location}" if self.location else ""
        return f"{self.label}{place}" + (f": {self.why}" if self.why else "")


def definitions_of(namespace: str | None) -> Definitions | None:
    """The namespace object where it defines ops by others, else None."""
    if namespace is None or namespace == CORE:
        return None
    try:
        found: Any = host_in_use().namespace(namespace)
    except NamespaceError:
        return None
    return found if hasattr(type(found), "expand") else None


def lower(
    graph: Graph,
    supports: Supports,
    overrides: Overrides | None = None,
    *,
    first: Overrides | None = None,
    keep: Collection[Op] = (),
    known: Mapping[str, Definitions] | None = None,
) -> list[Unlowered]:
    """Replace ops that are not supported by their definitions, in place.

    Supported ops stay whole. `overrides` are the target's own definitions, of
    primitives too; they come before those of the namespace, and those of `first` even
    before it is asked whether an op is supported. Ops that are neither
    supported nor replaceable stay, and are returned with the reason, as do those of
    `keep`. Constants, nested graphs and ops of namespaces without definitions are
    ignored. Definitions need types: infer them first. `known` has namespace objects by
    name; others are those of the host in use.
    """
    lowering = _Lowering(supports, overrides or {}, first or {}, known or {})
    for part in graph.graphs():
        for op in list(part):
            if op not in keep:
                lowering.run(op)
    return lowering.unlowered


def expand_foreign(graph: Graph, keeps: Callable[[Op], bool]) -> Graph:
    """A copy without the foreign ops that their own namespaces define by others.

    The graph itself where there are none; those that `keeps` accepts stay. A definition
    that depends on types which are still unknown leaves its op.
    """
    own = (None, CORE, graph.namespace)
    known: dict[str | None, Definitions | None] = dict.fromkeys(own)

    def is_defined(op: Op) -> bool:
        space = op.own_namespace
        if space not in known:
            known[space] = definitions_of(space)
        found = known[space]
        is_composite = found is not None and found.is_composite(op.type or "")
        return is_composite and not keeps(op)

    if not any(is_defined(op) for op in graph.walk(deferred=False)):
        return graph
    copy = graph.clone()
    home = definitions_of(graph.namespace)
    waiting: list[Op] = []
    while True:
        if home is not None:
            home.infer(copy)
        lower(copy, lambda op: not is_defined(op))
        before, waiting = waiting, [op for op in copy.walk() if is_defined(op)]
        if not waiting or waiting == before:
            return copy


class _Lowering:
    def __init__(
        self,
        supports: Supports,
        overrides: Overrides,
        first: Overrides,
        known: Mapping[str, Definitions],
    ) -> None:
        self.supports = supports
        self.overrides = overrides
        self.first = first
        self.unlowered: list[Unlowered] = []
        self._spaces: dict[str | None, Definitions | None] = dict(known.items())

    def run(self, start: Op) -> None:
        waiting = [start]
        while waiting:
            op = waiting.pop()
            space = None if isinstance(op, Graph) else self._definitions(op.namespace)
            if space is None or op.type not in space:
                continue
            made = self._expand_first(space, op)
            if made is not None:
                waiting += reversed(made)
                continue
            answer = self.supports(op)
            if answer is True:
                continue
            definition = self.overrides.get(op.type or "")
            if definition is None and not space.is_composite(op.type or ""):
                why = answer if isinstance(answer, str) else "it has no definition"
                self.unlowered.append(Unlowered(op, why, start))
                continue
            try:
                waiting += reversed(space.expand(op, definition))
            except (Undecided, Decline) as error:
                self.unlowered.append(Unlowered(op, str(error.message), start))
            except AmandaError as error:
                error.who = error.who or op.label
                raise

    def _expand_first(self, space: Definitions, op: Op) -> Sequence[Op] | None:
        """The ops of a definition that comes first; None if there is none that fits."""
        definition = self.first.get(op.type or "")
        if definition is None:
            return None
        try:
            return space.expand(op, definition)
        except (Undecided, Decline):
            return None

    def _definitions(self, namespace: str | None) -> Definitions | None:
        if namespace not in self._spaces:
            self._spaces[namespace] = definitions_of(namespace)
        return self._spaces[namespace]
