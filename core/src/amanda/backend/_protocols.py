"""The protocols of backends and executables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, runtime_checkable

from amanda.dictionary import parse_span
from amanda.errors import NamespaceError

if TYPE_CHECKING:
    from amanda.graph import Graph, Op
    from amanda.mapping import Refusal
    from amanda.tensors import Tensor
    from amanda.types import Type

Key = str | int
"""The key of an input or output: its name, or its index if it has none."""


@runtime_checkable
class Executable(Protocol):
    """A compiled graph. Several threads may call it at once.

    If values persist between calls, `state` has them and is not None; the executable is
    then not cached. `mapped_files` are the mapped files whose memory a call reads; an
    executable without it is taken to read those of all constants of its graph. They
    are checked before each call.

    Random ops draw by `amanda.backend.random_streams()`. An executable whose `draws`
    is true has random generators of its own instead, and is not cached.

    An optional method `profile(feeds)` runs it and returns a `Profile`: the time of
    each op. Its backend then has a true attribute `profiles`, and an option `profile`
    with which it compiles for that.

    An optional method `report()` describes how it runs. Its attribute `implementations`
    has an `Implementation` for each op: what runs it, chosen by its types.

    An optional method `call_again(values)` is a faster way for feeds whose dtypes and
    shapes it was called with before: it returns the results in order, sharing no memory
    with each other or with feeds. It gets the feeds in order, unchecked, and returns
    None, or raises an error, where it was not called with such feeds before.
    """

    def __call__(
        self, feeds: Mapping[Key, Any], out: Mapping[Key, Any] | None = None
    ) -> Mapping[Key, Any] | Sequence[Any]:
        """The results, by key or in the order of the graph's results.

        `feeds` has every input, by key. `out` may have arrays to write results to; it
        may be ignored, the core fills them afterwards.
        """


@runtime_checkable
class Backend(Protocol):
    """The protocol of entries of `amanda.backends`.

    An optional method `states()` returns rows with a `name`, a `state` and a `reason`,
    also for devices that are not available, for `amanda backends --load`. One named
    `implementations(definition)` returns an `Implementation` for each dtype for which
    ops of this definition have one of their own, for `amanda ops --backend`. With an
    attribute `compiles_seed` that is true, the seed of random numbers is an option.
    One named `prepare(graph)` returns a graph that is in the namespace of the backend
    already as it can be compiled: itself, or a copy with the inputs and results that
    its ops stand for. One named `select(device, options)` returns the backend that runs
    there, where devices differ in what they support. One named `dynamic_sizes(graph)`
    returns a `DynamicSize` for each size that is not known when a graph is compiled,
    and `precision_changes(graph)` a `PrecisionChange` for each dtype in which it does
    not compute, for `amanda check`.
    """

    name: str
    namespace: str
    """The namespace that it consumes: `amanda/std/1`, or a span, `amanda/onnx/7..18`.
    """

    def devices(self) -> Sequence[str]:
        """The available devices, the default one first."""

    def takes(self, op: Op) -> Literal[True] | str:
        """True, or the reason why this op is not supported."""

    def compile(
        self, graph: Graph, device: str | None, options: Mapping[str, Any]
    ) -> Executable:
        """Compile a graph, without changing it."""


class DynamicSize(NamedTuple):
    """A size that a backend does not know when it compiles a graph."""

    what: str
    """A symbolic dim, or a value or op that decides a shape."""
    kind: Literal["dim", "value", "result"]
    """A dim of inputs, the value of a shape argument, or a size that data decides."""
    treatment: str
    """What the backend does: `one program for each size`."""


class PrecisionChange(NamedTuple):
    """A dtype in which a backend does not compute, though values have it."""

    dtype: str
    computed_in: str
    where: str
    """The ops that it is about."""


class FeedSlot(NamedTuple):
    """An input or output of a compiled graph."""

    key: Key
    type: Type | None
    default: Tensor | None = None
    """The feed of an input that is not fed, if it has one."""

    def __str__(self) -> str:
        return f"{self.key}: {self.type}" if self.type is not None else str(self.key)


def consumes(namespace: str, wanted: str) -> bool:
    """Whether a backend that consumes `wanted` accepts graphs of `namespace`.

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


def refusals(graph: Graph, takes: Callable[[Op], object]) -> list[Refusal]:
    """Every op that a backend does not support, with the reason, at any depth.

    Every backend supports constants. A nested graph is an op like any other.
    """
    from amanda.graph import CORE
    from amanda.mapping import Refusal

    answers = ((op, takes(op)) for op in graph.walk() if op.namespace != CORE)
    return [Refusal.of(op, answer) for op, answer in answers if answer is not True]
