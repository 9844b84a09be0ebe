"""Compiled graphs: what the core does around each call of an executable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from amanda.argument_checks import argument_check, checks_itself
from amanda.backend._complex_ports import ComplexPorts, complex_default
from amanda.backend._dim_names import SeparateDims, warn_of_shared_dims
from amanda.backend._explicit_state import ExplicitState
from amanda.backend._feeds import Feeds, SharedDimError
from amanda.backend._protocols import Executable, FeedSlot, Key
from amanda.backend._random_streams import (
    RandomStreams,
    random_streams,
    use_random_streams,
)
from amanda.backend._refs import ref_slots, with_cells
from amanda.backend._results import copy_if_shared, copy_into_out, expect_out
from amanda.backend._targets import fed_parameter, parameter_key
from amanda.current_host import NamedPlugin, Plugin, PluginCall
from amanda.errors import BackendError, PluginBrokenError, UsageError
from amanda.graph import VALUE_NOTE, StatePort, state_ports
from amanda.tensors import Tensor

if TYPE_CHECKING:
    from amanda.backend._profile import Profile
    from amanda.files.mapped_file import MappedFile
    from amanda.graph import Graph, OutputPort
    from amanda.mapping.routes.report import ChangedPort
    from amanda.types import Type

__all__ = ["Compiled"]


_HEARD = ("before_run", "after_run")
"""The hooks of each call."""


class EventSource(Protocol):
    """The part of a host that a compiled graph uses: its listeners."""

    @property
    def revision(self) -> int: ...

    def fire(self, hook: str, **event: Any) -> Any: ...

    def listens(self, *hooks: str) -> bool: ...


Finding = Callable[["OutputPort", Mapping[Key, Any]], Any]


class Compiled:
    """A graph compiled on a backend.

    Feeds are a mapping by name, or a sequence in the order of the inputs; results are a
    dict in the order of the outputs. Unnamed inputs and outputs have their index as
    key. It holds no reference to the graph, and several threads may call it.

    `compiled[port]` is the value of a port of the graph in the last call.
    """

    def __init__(
        self,
        graph: Graph,
        executable: Executable,
        *,
        backend: str,
        device: str | None,
        keys: Sequence[Any] | None = None,
        host: EventSource | None = None,
        find: Finding | None = None,
        plugin: Plugin | None = None,
        separate_dims: SeparateDims | None = None,
        changed_ports: Sequence[ChangedPort] = (),
        state: Any = None,
    ) -> None:
        self.backend = backend
        self.device = device
        self._plugin = plugin or NamedPlugin(f"backend {backend!r}")
        self.executable = executable
        self.digest = graph.digest()
        """The structure hash of the graph that was compiled."""
        self.inputs = _make_slots(
            (port.name, port.type, _default_of(port)) for port in graph.parameters
        )
        _expect_distinct(self.inputs, "inputs", "a feed would not say which it is for")
        results = zip(graph.outputs, graph.results, strict=True)
        self.outputs = _make_slots(
            (port.name, value.type if value is not None else None, None)
            for port, value in results
        )
        if changed_ports:
            self._use_complex_ports(changed_ports)
        if variables := state_ports(graph):
            self._use_state(variables, state)
        self._feeds = Feeds(self.inputs, self._feed_key)
        self._refs = ref_slots(self.inputs)
        self._files = tuple(_mapped_files(graph))
        self._slots = [slot.key for slot in self.outputs]
        self._keys = self._slots if keys is None else list(keys)
        self._host = host
        self._fire: Callable[..., Any] | None = None
        """Fires events; None while nothing listens, as of `_revision` of the host."""
        self._revision = -1
        self._find = find
        self._last: Mapping[Key, Any] | Sequence[Any] | None = None
        """The feeds of the last call, by key or in order."""
        self._call_again = (
            None if self._refs else self.executable_attribute("call_again")
        )
        self._repeats_names = len(set(self._slots)) < len(self._slots)
        if self._repeats_names:
            self._call_again = None  # so that every call is checked
        self._streams: RandomStreams | None = None
        """Streams of random numbers; None for those of the surrounding call."""
        self._before: RandomStreams | None = None
        """The streams before the last call."""
        has_state = self.executable_attribute("state") is not None
        self._separate_dims = None if has_state else separate_dims
        """What runs feeds whose sizes differ for one dim, where that is allowed."""
        self._with_separate_dims: Compiled | None = None

    def _use_complex_ports(self, changed: Sequence[ChangedPort]) -> None:
        """Accept and return complex numbers where the executable has pairs."""
        keys = [[slot.key for slot in s] for s in (self.inputs, self.outputs)]
        self.executable = ComplexPorts(self.executable, changed, *keys)
        self.inputs = _with_types_before(self.inputs, changed, "input")
        self.outputs = _with_types_before(self.outputs, changed, "result")

    def _use_state(self, ports: Sequence[StatePort], state: Any) -> None:
        """Keep the variables that the executable has as inputs and results."""
        keys = [slot.key for slot in self.outputs]
        self.executable = ExplicitState(
            self.executable, ports, self.inputs, keys, state
        )
        inputs, results = {p.input for p in ports}, {p.result for p in ports}
        self.inputs = _without(self.inputs, inputs)
        self.outputs = _without(self.outputs, results)

    @checks_itself
    def __call__(
        self,
        feeds: Mapping[Any, Any] | Sequence[Any],
        out: Mapping[Any, Any] | None = None,
    ) -> dict[Any, Any]:
        """Run on `feeds`; returns the results by key.

        `out` may have arrays for some results, which are written to and returned.
        """
        host = self._host
        if host is not None and host.revision != self._revision:
            self._find_listeners(host)
        if self._call_again is not None and self._fire is None and not out:
            try:
                values = self._feeds.values_in_order(feeds)
                if self._files:
                    self.check_files()
                known = None if values is None else self._call_again(values)
            except (Exception, SystemExit):  # noqa: BLE001  what follows explains it
                known = None
            if known is not None:
                self._last = values
                return dict(zip(self._keys, known))  # noqa: B905  faster
        return self._call_checked(feeds, out)

    def call_consuming(self, values: list[Any]) -> Sequence[Any]:
        """The results of feeds in the order of the inputs; their list is cleared.

        An executable that supports it frees each feed after its last use."""
        call = self.executable_attribute("call_consuming")
        host = self._host
        if host is not None and host.revision != self._revision:
            self._find_listeners(host)
        if call is not None and self._fire is None and not self._files:
            self._last = None
            results: Sequence[Any] | None = call(values)
            if results is not None:
                return results
        found = [*self(values).values()]
        values.clear()
        return found

    def _call_checked(
        self,
        feeds: Mapping[Any, Any] | Sequence[Any],
        out: Mapping[Any, Any] | None,
    ) -> dict[Any, Any]:
        """Run on feeds that may be invalid, and fire the events of a run."""
        _check_call(self, feeds, out)
        if self._repeats_names and self._keys == self._slots:
            _expect_distinct(self.outputs, "results", "a run returns one for each name")
        host, fire = self._host, self._fire
        try:
            bound = self._feeds.bind(feeds)
        except SharedDimError as error:
            if self._separate_dims is None:
                raise
            return self._call_with_separate_dims(self._separate_dims, error, feeds, out)
        if self._refs:
            state = self.executable_attribute("state")
            bound = with_cells(bound, self._refs, state)
        if self._files:
            self.check_files()
        if out:
            expect_out(out, self._keys)
        if fire is not None:
            fire("before_run", executable=self, feeds=bound)
        streams = self._streams or random_streams()
        self._before = streams.copy()
        with (
            PluginCall(host, self._plugin, "running", BackendError),
            use_random_streams(streams),
        ):
            answer = self.executable(bound, out)
            made = copy_if_shared(self._in_order(answer), bound.values())
        results = dict(
            zip(self._keys, made, strict=False)
        )  # of equal length: checked above
        if out:
            results = copy_into_out(results, out)
        self._last = bound
        if fire is not None:
            fire("after_run", executable=self, feeds=bound, results=results)
        return results

    def _find_listeners(self, host: EventSource) -> None:
        """Look whether anything listens, until the entries of the host change."""
        revision = host.revision  # first: a change meanwhile counts as one after it
        self._fire = host.fire if host.listens(*_HEARD) else None
        self._revision = revision

    def _call_with_separate_dims(
        self,
        separate: SeparateDims,
        error: SharedDimError,
        feeds: Mapping[Any, Any] | Sequence[Any],
        out: Mapping[Any, Any] | None,
    ) -> dict[Any, Any]:
        """Run on feeds whose sizes differ for one dim; warns the first time."""
        other = self._with_separate_dims
        if other is None:
            warn_of_shared_dims(error)
            other = separate.executable().again(self._keys, self._find)
            other._streams = self._streams
            self._with_separate_dims = other
        results = other(feeds, out)
        self._last, self._before = other._last, other._before
        return results

    def check_files(self) -> None:
        """Raise FormatError if a file whose memory a call reads was written to."""
        for file in getattr(self.executable, "mapped_files", self._files):
            file.check()

    def again(
        self,
        keys: Sequence[Any] | None,
        find: Finding | None,
        seed: int | None = None,
    ) -> Compiled:
        """The same executable for another caller; the state of calls is not shared.

        Random ops without a seed of their own draw from streams that start at `seed`,
        or at one of the system's entropy."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._feeds = Feeds(self.inputs, twin._feed_key)
        twin._keys = self._slots if keys is None else list(keys)
        twin._find, twin._last = find, None
        twin._streams = RandomStreams(seed)
        twin._before = twin._streams.copy()
        twin._with_separate_dims = None
        return twin

    def _feed_key(self, key: Any) -> Any:
        """The key of an input, which may be given by its handle."""
        port = fed_parameter(key)
        if port is None:
            return key
        known = getattr(self._find, "is_compiled", None)
        if known is not None and not known(port.graph):
            raise UsageError(
                f"the handle {port} is of another graph",
                hint="feed handles of the graph that was compiled, or names",
            )
        return parameter_key(port)

    def bind(self, feeds: Mapping[Any, Any] | Sequence[Any]) -> dict[Key, Any]:
        """The feed of each input, by key; an error lists all that do not match."""
        return self._feeds.bind(feeds)

    def _in_order(self, answer: Any) -> Sequence[Any]:
        """The returned values in the order of the outputs."""
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
            f"{self._plugin.what} did not return the results of the graph",
            expected=", ".join(map(str, slots)) or "nothing",
            got=", ".join(map(str, answer)) if told else type(answer).__name__,
        )

    def executable_attribute(self, name: str) -> Any:
        """An optional attribute of the executable, or None."""
        with self._calling(f"asked for {name!r} of its executable"):
            return getattr(self.executable, name, None)

    def _calling(self, doing: str) -> PluginCall[Any]:
        return PluginCall(self._host, self._plugin, doing, BackendError)

    @property
    def state(self) -> Any:
        """The variables that persist between calls, by key; they can be read and set.

        `state.reset()` restores their initial values."""
        found = self.executable_attribute("state")
        if found is None:
            raise UsageError(
                f"{self!r} has no state: there is no variable in its graph"
            )
        return found

    def plan(self) -> Any:
        """The steps and the memory of a run, if the backend reports them."""
        report = self.executable_attribute("plan")
        if not callable(report):
            raise UsageError(f"backend {self.backend!r} reports no plan")
        with self._calling("reporting its plan"):
            return report()

    def profile(self, feeds: Mapping[Any, Any] | Sequence[Any]) -> Profile:
        """Run on feeds and measure each op; compile with `profile=True` for that."""
        call = self.executable_attribute("profile")
        if not callable(call):
            raise UsageError(
                f"{self!r} measures no ops",
                expected="a graph compiled with profile=True, for one backend that has "
                "this option and no fallback",
                hint="`amanda run --profile` names those that have it",
            )
        with self._calling("profiling"):
            found: Profile = call(self.bind(feeds))
        return found

    def __getitem__(self, port: OutputPort) -> Any:
        """The value of a port for the last feeds.

        The handle may be older than conversions, rewrites and renamings: it is followed
        to where its value is now, which is recomputed if the executable dropped it. An
        error says why there is none.
        """
        if self._find is None:
            raise UsageError(f"{self!r} has no lookup of values")
        if self._last is None:
            raise UsageError("there is no value before the first run")
        last = self._last
        if not isinstance(last, Mapping):
            last = dict(zip([slot.key for slot in self.inputs], last, strict=True))
        assert self._before is not None
        with use_random_streams(self._before.copy()):
            return self._find(port, last)

    def __reduce__(self) -> Any:
        raise UsageError(
            f"{self!r} cannot be pickled or copied",
            hint="save the graph, and compile it where it runs",
        )

    def __repr__(self) -> str:
        at = f" on {self.device}" if self.device else ""
        inputs, outputs = (", ".join(map(str, s)) for s in (self.inputs, self.outputs))
        return f"<compiled by {self.backend}{at}: ({inputs}) -> ({outputs})>"

    def _repr_html_(self) -> str:
        """Its backend, inputs and results, for notebooks."""
        from amanda.html_tables import html_page, html_table

        sides = (("input", self.inputs), ("result", self.outputs))
        tables = [
            html_table((what, "type"), [(slot.key, slot.type or "?") for slot in slots])
            for what, slots in sides
        ]
        facts = {"backend": self.backend, "device": self.device}
        return html_page("compiled graph", facts, tables)


_check_call = argument_check(Compiled.__call__)


def _expect_distinct(slots: Iterable[FeedSlot], what: str, reason: str) -> None:
    """Raise UsageError for inputs, or results, of one name."""
    counts = Counter(slot.key for slot in slots)
    twice = [key for key, count in counts.items() if count > 1]
    if twice:
        port = "parameters" if what == "inputs" else "outputs"
        raise UsageError(
            f"{counts[twice[0]]} {what} of the graph are named {twice[0]!r}: {reason}",
            hint=f"rename them: graph.{port}[0].name = ...",
        )


def _mapped_files(graph: Graph) -> set[MappedFile]:
    """The mapped files that constants of a graph are in."""
    constants = (op.attrs["value"] for op in graph.walk() if op.is_constant)
    files = (value.mapped_file for value in constants if isinstance(value, Tensor))
    return {file for file in files if file is not None}


def _with_types_before(
    slots: tuple[FeedSlot, ...], changed: Sequence[ChangedPort], place: str
) -> tuple[FeedSlot, ...]:
    """Slots with the types of ports before their complex numbers became pairs."""
    ports = {port.index: port for port in changed if port.place == place}
    return tuple(
        slot._replace(type=ports[i].before, default=complex_default(slot, ports[i]))
        if i in ports
        else slot
        for i, slot in enumerate(slots)
    )


def _without(
    slots: tuple[FeedSlot, ...], indices: Collection[int | None]
) -> tuple[FeedSlot, ...]:
    return tuple(slot for i, slot in enumerate(slots) if i not in indices)


def _default_of(port: OutputPort) -> Any:
    return port.attrs.get(VALUE_NOTE) if port.has_attrs else None


def _make_slots(
    ports: Iterable[tuple[str | None, Type | None, Tensor | None]],
) -> tuple[FeedSlot, ...]:
    return tuple(
        FeedSlot(i if name is None else name, type_, default)
        for i, (name, type_, default) in enumerate(ports)
    )
