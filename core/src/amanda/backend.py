"""Backends: what they have to be, and what the core does around each call of one.

A backend takes a graph of its own namespace and makes it something that can be called.
Around that, for every backend alike, `Compiled` checks what is fed, names what comes
out, and sees to it that a call is a function: nothing that it returns is part of what
went in, or of another result.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, runtime_checkable

from amanda.dictionary import parse_span
from amanda.errors import (
    AmandaError,
    BackendError,
    NamespaceError,
    PluginBrokenError,
    UsageError,
)

if TYPE_CHECKING:
    from amanda.graph import Graph, Op
    from amanda.types import Shape, Type

__all__ = [
    "Backend",
    "Compiled",
    "Executable",
    "Key",
    "Slot",
    "consumes",
    "refusals",
]

Key = str | int
"""What an input or output is called: its name, or its place where it has none."""


@runtime_checkable
class Executable(Protocol):
    """What a backend compiles to. Several threads may call it at once."""

    def __call__(
        self, feeds: Mapping[Key, Any], out: Mapping[Key, Any] | None = None
    ) -> Mapping[Key, Any] | Sequence[Any]:
        """The results, by key or in the order of the graph's results.

        Every input is fed, under its key. `out` may hold arrays to write results to;
        who cannot ignores them.
        """


@runtime_checkable
class Backend(Protocol):
    """What entries of `amanda.backends` are."""

    name: str
    namespace: str
    """What it consumes: `amanda/std/1`, or a span such as `amanda/onnx/7..18`."""

    def devices(self) -> Sequence[str]:
        """The devices that can be used here, the default one first."""

    def takes(self, op: Op) -> Literal[True] | str:
        """True, or the reason why this op cannot be run."""

    def compile(
        self, graph: Graph, device: str | None, options: Mapping[str, Any]
    ) -> Executable:
        """The graph as something to call. The graph itself is left as it is."""


class Slot(NamedTuple):
    """An input or an output of something compiled."""

    key: Key
    type: Type | None

    def __str__(self) -> str:
        return f"{self.key}: {self.type}" if self.type is not None else str(self.key)


def consumes(namespace: str, wanted: str) -> bool:
    """Is a graph of `namespace` one for a backend that consumes `wanted`?

    >>> consumes("amanda/onnx/13", "amanda/onnx/7..18")
    True
    """
    if namespace == wanted:
        return True
    try:
        name = parse_span(namespace).exact
        return name is not None and name in parse_span(wanted)
    except NamespaceError:
        return False


def refusals(graph: Graph, takes: Callable[[Op], object]) -> list[str]:
    """Every op that a backend does not take, with its reason, in all graphs inside.

    Constants are the core's, and taken by all. A graph that stands as an op is asked
    about like any other op.
    """
    from amanda.graph import CORE

    problems = []
    for op in graph.walk():
        if op.namespace == CORE:
            continue
        answer = takes(op)
        if answer is not True:
            reason = f": {answer}" if isinstance(answer, str) and answer else ""
            problems.append(f"{op.label}{reason}")
    return problems


class Compiled:
    """A graph on a backend, ready to be called.

    Feeds are a mapping by name, or a sequence in the order of the inputs; results are a
    dict in the order of the outputs. Inputs and outputs without a name are called by
    their place. It keeps nothing of the graph, and several threads may call it.
    """

    def __init__(
        self,
        graph: Graph,
        executable: Executable,
        *,
        backend: str,
        device: str | None,
        keys: Sequence[Any] | None = None,
        fire: Callable[..., object] = lambda *_, **__: None,
    ) -> None:
        self.backend = backend
        self.device = device
        self.executable = executable
        self.inputs = _slots((port.name, port.type) for port in graph.parameters)
        results = zip(graph.outputs, graph.results, strict=True)
        self.outputs = _slots(
            (port.name, value.type if value is not None else None)
            for port, value in results
        )
        self._keys = [slot.key for slot in self.outputs] if keys is None else list(keys)
        self._fire = fire

    def __call__(
        self,
        feeds: Mapping[Any, Any] | Sequence[Any],
        out: Mapping[Any, Any] | None = None,
    ) -> dict[Any, Any]:
        """What the graph makes of `feeds`."""
        bound = self.bind(feeds)
        self._fire("before_run", executable=self, feeds=bound)
        try:
            answer = self.executable(bound, out)
        except (AmandaError, KeyboardInterrupt, MemoryError):
            raise
        except Exception as cause:
            raise BackendError(
                f"backend {self.backend!r} failed while running",
                got=f"{type(cause).__name__}: {cause}",
                hint="check the feeds; else report this to the authors of the backend",
            ) from cause
        results = self._results(answer, bound, out)
        self._fire("after_run", executable=self, feeds=bound, results=results)
        return results

    def bind(self, feeds: Mapping[Any, Any] | Sequence[Any]) -> dict[Key, Any]:
        """Each input with what is fed to it; all that does not fit is told at once."""
        if isinstance(feeds, Mapping):
            given = dict(feeds)
        elif isinstance(feeds, list | tuple):
            if len(feeds) != len(self.inputs):
                number = "1 value is" if len(feeds) == 1 else f"{len(feeds)} values are"
                raise self._misfed([f"{number} fed"])
            given = {s.key: f for s, f in zip(self.inputs, feeds, strict=True)}
        else:
            raise UsageError(
                "feeds are a dict by name, or a list in the order of the inputs",
                got=type(feeds).__name__,
            )
        problems = list(_strangers(given, [slot.key for slot in self.inputs]))
        problems += [
            f"no feed for {s.key!r}" for s in self.inputs if s.key not in given
        ]
        problems += _unfit(self.inputs, given)
        if problems:
            raise self._misfed(problems)
        return {slot.key: given[slot.key] for slot in self.inputs}

    def _misfed(self, problems: list[str]) -> UsageError:
        inputs = ", ".join(map(str, self.inputs)) or "nothing"
        return UsageError(
            "the feeds do not fit the graph", expected=inputs, problems=problems
        )

    def _results(
        self, answer: object, feeds: Mapping[Key, Any], out: Mapping[Any, Any] | None
    ) -> dict[Any, Any]:
        slots = [slot.key for slot in self.outputs]
        if isinstance(answer, Mapping):
            fine = set(answer) == set(slots)
            values = [answer[key] for key in slots] if fine else []
        else:
            fine = isinstance(answer, Sequence) and len(answer) == len(slots)
            values = list(answer) if fine else []  # type: ignore[call-overload]
        if not fine:
            listed = answer if isinstance(answer, Mapping) else type(answer).__name__
            raise PluginBrokenError(
                f"backend {self.backend!r} did not return the results of the graph",
                expected=", ".join(map(str, slots)) or "nothing",
                got=", ".join(map(str, listed)) if answer is listed else listed,
            )
        owned = {_memory(value) for value in (out or {}).values()}
        apart = _apart(values, feeds.values(), owned)
        return dict(zip(self._keys, apart, strict=True))

    def __repr__(self) -> str:
        at = f" on {self.device}" if self.device else ""
        inputs, outputs = (", ".join(map(str, s)) for s in (self.inputs, self.outputs))
        return f"<compiled by {self.backend}{at}: ({inputs}) -> ({outputs})>"


def _slots(ports: Iterable[tuple[str | None, Type | None]]) -> tuple[Slot, ...]:
    return tuple(
        Slot(i if name is None else name, type_)
        for i, (name, type_) in enumerate(ports)
    )


def _strangers(given: Iterable[Any], keys: Sequence[Key]) -> Iterator[str]:
    for key in given:
        if key not in keys:
            names = [name for name in keys if isinstance(name, str)]
            near = get_close_matches(str(key), names, n=1)
            yield f"no input {key!r}" + (f"; did you mean {near[0]!r}?" if near else "")


def _unfit(slots: Iterable[Slot], given: Mapping[Any, Any]) -> Iterator[str]:
    """What is of another shape or element type than its input says, if it says so."""
    from amanda.types import TensorType

    sizes: dict[object, tuple[int, Key]] = {}
    for slot in slots:
        value = given.get(slot.key)
        shape = getattr(value, "shape", None)
        if not isinstance(slot.type, TensorType) or not isinstance(shape, tuple):
            continue
        wrong = _wrong_type(slot.type, value) or _wrong_shape(slot, shape, sizes)
        if wrong:
            yield f"{slot.key!r} is {wrong}"


def _wrong_type(wanted: Any, value: Any) -> str:
    from amanda.types import DType

    try:
        got = DType.of(value)
    except (AmandaError, AttributeError, TypeError, ValueError):
        return ""  # of a kind that only the backend knows
    known = isinstance(wanted.dtype, DType) and wanted.dtype.kind != "unknown"
    return f"{got}, not {wanted.dtype}" if known and got is not wanted.dtype else ""


def _wrong_shape(
    slot: Slot, shape: Sequence[int], sizes: dict[object, tuple[int, Key]]
) -> str:
    wanted = slot.type.shape  # type: ignore[union-attr]
    if not wanted.has_rank:
        return ""
    if wanted.rank != len(shape):
        return _of_shape(shape, wanted)
    for dim, size in zip(wanted.dims, shape, strict=True):
        if isinstance(dim, int):
            if dim != size:
                return _of_shape(shape, wanted)
            continue
        before, key = sizes.setdefault(dim.key, (size, slot.key))
        if before != size:
            return f"{_of_shape(shape, wanted)} where {dim} is {before} by {key!r}"
    return ""


def _of_shape(shape: Sequence[int], wanted: Shape) -> str:
    return f"of shape {list(shape)}, not {wanted}"


def _apart(values: Iterable[Any], fed: Iterable[Any], owned: set[int]) -> list[Any]:
    """The values, with copies of arrays that share memory with another or a feed."""
    taken = {_memory(value) for value in fed} - owned - {0}
    apart = []
    for value in values:
        memory = _memory(value)
        if memory and memory in taken:
            value = value.copy()
            memory = _memory(value)
        taken.add(memory)
        apart.append(value)
    return apart


def _memory(value: Any) -> int:
    """What owns the memory of an array; 0 for what is no array of numpy's."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, numpy.ndarray):
        return 0
    while isinstance(value.base, numpy.ndarray):
        value = value.base
    return id(value if value.base is None else value.base)
