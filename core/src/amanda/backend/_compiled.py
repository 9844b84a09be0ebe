"""A graph on a backend, ready to be called: what the core does around each call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from amanda.backend._feeds import Feeds
from amanda.backend._protocols import Executable, FeedSlot, Key
from amanda.backend._results import copy_if_shared, copy_into_out, expect_out
from amanda.current_host import use_host
from amanda.errors import AmandaError, BackendError, PluginBrokenError, UsageError

if TYPE_CHECKING:
    from amanda.graph import Graph, OutputPort
    from amanda.types import Type

__all__ = ["Compiled"]


class Host(Protocol):
    """What a compiled graph needs of the host: its listeners."""

    def fire(self, hook: str, **event: Any) -> Any: ...

    def listens(self) -> bool: ...


Finding = Callable[["OutputPort", Mapping[Key, Any]], Any]


class Compiled:
    """A graph on a backend, ready to be called.

    Feeds are a mapping by name, or a sequence in the order of the inputs; results are a
    dict in the order of the outputs. Inputs and outputs without a name are called by
    their place. It keeps nothing of the graph, and several threads may call it.

    `compiled[port]` is what a value of the graph was in the last call, see `find`.
    """

    def __init__(
        self,
        graph: Graph,
        executable: Executable,
        *,
        backend: str,
        device: str | None,
        keys: Sequence[Any] | None = None,
        host: Host | None = None,
        find: Finding | None = None,
    ) -> None:
        self.backend = backend
        self.device = device
        self.executable = executable
        self.digest = graph.digest()
        """The hash of the structure of the graph that the backend got."""
        self.inputs = _make_slots((port.name, port.type) for port in graph.parameters)
        results = zip(graph.outputs, graph.results, strict=True)
        self.outputs = _make_slots(
            (port.name, value.type if value is not None else None)
            for port, value in results
        )
        self._feeds = Feeds(self.inputs)
        self._slots = [slot.key for slot in self.outputs]
        self._keys = self._slots if keys is None else list(keys)
        self._host = host
        self._find = find
        self._last: Mapping[Key, Any] | None = None

    def __call__(
        self,
        feeds: Mapping[Any, Any] | Sequence[Any],
        out: Mapping[Any, Any] | None = None,
    ) -> dict[Any, Any]:
        """What the graph makes of `feeds`.

        `out` may have arrays for some results, by key; these are filled, and returned.
        """
        bound = self._feeds.bind(feeds)
        if out:
            expect_out(out, self._keys)
        host = self._host
        fire = host.fire if host is not None and host.listens() else None
        if fire is not None:
            fire("before_run", executable=self, feeds=bound)
        try:
            with use_host(host):
                answer = self.executable(bound, out)
        except (AmandaError, KeyboardInterrupt, MemoryError):
            raise
        except Exception as cause:
            raise BackendError(
                f"backend {self.backend!r} failed while running",
                got=f"{type(cause).__name__}: {cause}",
                hint="check the feeds; else report this to the authors of the backend",
            ) from cause
        made = copy_if_shared(self._in_order(answer), bound.values())
        results = dict(zip(self._keys, made, strict=False))  # as many: looked at above
        if out:
            results = copy_into_out(results, out)
        self._last = bound
        if fire is not None:
            fire("after_run", executable=self, feeds=bound, results=results)
        return results

    def again(self, keys: Sequence[Any] | None, find: Finding | None) -> Compiled:
        """The same executable, for somebody else: nothing of a call is shared."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._feeds = Feeds(self.inputs)
        twin._keys = self._slots if keys is None else list(keys)
        twin._find, twin._last = find, None
        return twin

    def bind(self, feeds: Mapping[Any, Any] | Sequence[Any]) -> dict[Key, Any]:
        """Each input with what is fed to it; all that does not fit is told at once."""
        return self._feeds.bind(feeds)

    def _in_order(self, answer: Any) -> Sequence[Any]:
        """What the executable returned, in the order of the outputs."""
        slots = self._slots
        if answer.__class__ is list or answer.__class__ is tuple:
            if len(answer) == len(slots):
                return answer
        elif isinstance(answer, Mapping):
            if answer.keys() == set(slots):
                return [answer[key] for key in slots]
        elif isinstance(answer, Sequence) and len(answer) == len(slots):
            return answer
        told = isinstance(answer, Mapping)
        raise PluginBrokenError(
            f"backend {self.backend!r} did not return the results of the graph",
            expected=", ".join(map(str, slots)) or "nothing",
            got=", ".join(map(str, answer)) if told else type(answer).__name__,
        )

    @property
    def state(self) -> Any:
        """The variables that it keeps from call to call, by key: to look at and to set.

        `state.reset()` gives them their initial values again."""
        found = getattr(self.executable, "state", None)
        if found is None:
            raise UsageError(
                f"{self!r} has no state: there is no variable in its graph"
            )
        return found

    def plan(self) -> Any:
        """How it runs, where the backend tells: its steps, and what is kept where."""
        tell = getattr(self.executable, "plan", None)
        if not callable(tell):
            raise UsageError(f"backend {self.backend!r} does not tell its plan")
        return tell()

    def __getitem__(self, port: OutputPort) -> Any:
        """What a value is, of what was fed last.

        The handle may be older than any conversion, rewriting or renaming since: its
        value is where it lives now, and is computed anew if the executable has dropped
        it. A handle whose value is gone, or is no part of what was compiled, is told
        with the reason.
        """
        if self._find is None:
            raise UsageError(f"{self!r} was made without a way to find values in it")
        if self._last is None:
            raise UsageError("nothing was run yet, so no value is there")
        return self._find(port, self._last)

    def __repr__(self) -> str:
        at = f" on {self.device}" if self.device else ""
        inputs, outputs = (", ".join(map(str, s)) for s in (self.inputs, self.outputs))
        return f"<compiled by {self.backend}{at}: ({inputs}) -> ({outputs})>"


def _make_slots(
    ports: Iterable[tuple[str | None, Type | None]],
) -> tuple[FeedSlot, ...]:
    return tuple(
        FeedSlot(i if name is None else name, type_)
        for i, (name, type_) in enumerate(ports)
    )
