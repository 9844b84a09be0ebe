"""Sessions: a graph run repeatedly, computing only what depends on changed feeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import or_
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from amanda.api.compilation import compile, copy_for_backend
from amanda.api.conversion import separate_dims_on_host
from amanda.backend import (
    FeedSlot,
    Key,
    SharedDimError,
    State,
    fed_parameter,
    feed_error,
    feed_faults,
    feeds_by_key,
    fill_state,
    parameter_key,
    shares_unchecked_dims,
    target_of,
    warn_of_shared_dims,
)
from amanda.errors import UsageError
from amanda.graph import VALUE_NOTE, Graph, Parameter, state_ports
from amanda.host import host_in_use
from amanda.session._feeds import FeedCopy, copy_value
from amanda.session._parts import PartCache, SessionPart, values_read
from amanda.types import RefType, ResourceType

if TYPE_CHECKING:
    from amanda.backend import Compiled
    from amanda.graph import Op, OutputPort, StatePort
    from amanda.host import Host

__all__ = ["NonFiniteValue", "RunStatistics", "Session"]

Plan = TypeVar("Plan")

PARTS: Final = 64
"""Maximal number of parts; each is compiled, and its values are cached."""
BLOCK: Final = 32
"""Number of ops that are checked for NaN and infinities at once."""


class RunStatistics(NamedTuple):
    """Statistics of a run."""

    ops: int
    """Ops that were computed; constants are not counted."""
    parts: int
    """Executables that were called."""
    compiled: int
    """Graphs that were compiled."""
    reused: int
    """Values that were cached by earlier runs."""


class NonFiniteValue(NamedTuple):
    """The first value that is not finite."""

    op: Op
    value: OutputPort
    what: str
    """NaN or Inf"""
    places: tuple[tuple[int, ...], ...]
    """The first few positions."""
    number: int
    """How many elements are not finite."""

    def __str__(self) -> str:
        at = ", ".join(str(list(place)) for place in self.places)
        more = "" if self.number == len(self.places) else " ..."
        return (
            f"{self.what} from {self.op.label}: {self.number} elements, at {at}{more}"
        )


class Session:
    """Runs a graph repeatedly, computing only what depends on changed feeds.

    It caches feeds, targets, and the values where subgraphs that depend on different
    feeds meet. Ops with effects run whenever they are needed. The session has a copy of
    the graph; `update` applies changes. `strict_shapes` is as for `amanda.compile`.

    Several threads may call a session; its calls are serialized. `steps` ends with an
    error if the session is used otherwise before its last step.
    """

    def __init__(
        self,
        graph: Graph,
        backend: str | None = None,
        device: str | None = None,
        *,
        host: Host | None = None,
        strict_shapes: bool = False,
        **options: Any,
    ) -> None:
        self._lock = RLock()
        self._strict_shapes = strict_shapes
        self._has_separate_dims = False
        self._changes = 0  # of feeds and values; `steps` must not miss one
        self._place = (backend, device)
        self._host = host or host_in_use()
        self._options = dict(options)
        self._commuting: dict[Any, bool] = {}
        self._shelf = PartCache(self._compile_part, self._commutes)
        self._fed: dict[Key, FeedCopy] = {}
        self._source = graph
        self._state = State()
        """Variables that the target has as inputs and results."""
        self.last = RunStatistics(0, 0, 0, 0)
        """Statistics of the last run."""
        self.update()

    def update(self, graph: Graph | None = None) -> None:
        """Use the current state of the graph, or another graph.

        Executables of equal parts and feeds of existing inputs stay cached; values are
        dropped."""
        with self._lock:
            self._changes += 1
            self._has_separate_dims = False
            self._update(self._source if graph is None else graph)

    def _update(self, graph: Graph) -> None:
        self._source = graph
        memo: dict[Any, Any] = {}
        if self._has_separate_dims:
            graph = separate_dims_on_host(graph, self._host, memo)
        self._graph, twins = copy_for_backend(
            graph, self._place[0], self._host, self._place[1]
        )
        self._twins = (
            {port: twins[copy] for port, copy in memo.items() if copy in twins}
            if memo
            else twins
        )
        self._keys = {
            p: p.index if p.name is None else p.name for p in self._graph.parameters
        }
        self._bits = {p: 1 << i for i, p in enumerate(self._graph.parameters)}
        self._always = 1 << len(self._bits)
        self._masks = self._dependencies()
        self._values: dict[OutputPort, Any] = {}
        self._parts: dict[Any, tuple[Compiled, tuple[OutputPort, ...]]] = {}
        self._state_ports = state_ports(self._graph)
        if self._state_ports:
            self._fill_state()
        known = set(self._keys.values())
        self._fed = {key: fed for key, fed in self._fed.items() if key in known}

    def _fill_state(self) -> None:
        """Take the variables out of the inputs, which are fed from results."""
        given = self._options.pop("state", None)
        State.expect(given)
        self._state = self._state if given is None else given
        slots = [
            FeedSlot(self._keys[p], p.type, p.attrs.get(VALUE_NOTE))
            for p in self._graph.parameters
        ]
        fill_state(self._state, self._state_ports, slots)

    @property
    def _state_results(self) -> dict[Any, StatePort]:
        """The variables that a run writes, by the key of the result."""
        found = [p for p in self._state_ports if p.result is not None]
        return {p.result if p.result_name is None else p.result_name: p for p in found}

    def _assign_variables(self, computed: Iterable[OutputPort]) -> None:
        """Assign variables their new values, of those that were computed."""
        known = set(computed)
        for port in self._state_results.values():
            assert port.result is not None
            value = self._graph.results[port.result]
            if value in known:
                self._state.cell(port.key).assign(self._value(value))

    def _feed_variables(self) -> dict[Any, Any]:
        """The values of variables, as feeds; they change without a feed."""
        cells = [(p, self._state.cell(p.key)) for p in self._state_ports]
        parameters = self._graph.parameters
        return {
            self._keys[parameters[p.input]]: cell.read()
            for p, cell in cells
            if cell.has_value
        }

    def forget(self) -> None:
        """Drop all values and feeds; executables stay cached."""
        with self._lock:
            self._changes += 1
            self._values.clear()
            self._fed.clear()

    # -- running ---------------------------------------------------------------

    def run(
        self,
        targets: Iterable[str | Op | OutputPort] | None = None,
        feeds: Mapping[Any, Any] | Sequence[Any] = (),
    ) -> dict[Any, Any]:
        """The values of the targets, or of all results, by target.

        Omitted feeds keep their last value."""
        with self._lock:
            return self._run_targets(None if targets is None else [*targets], feeds)

    def _run_targets(
        self,
        targets: Iterable[str | Op | OutputPort] | None,
        feeds: Mapping[Any, Any] | Sequence[Any],
    ) -> dict[Any, Any]:
        before = self._shelf.compiled
        named, here, parts = self._with_valid_dims(
            lambda: self._plan_run(targets, feeds)
        )
        for part in parts:
            self._run(part)
        self._assign_variables(named.values())
        hidden = self._state_results if targets is None else {}
        ops = sum(len(part.ops) for part in parts)
        made = self._shelf.compiled - before
        self.last = RunStatistics(ops, len(parts), made, here)
        return {
            key: copy_value(self._value(port))
            for key, port in named.items()
            if key not in hidden
        }

    def _plan_run(
        self,
        targets: Iterable[str | Op | OutputPort] | None,
        feeds: Mapping[Any, Any] | Sequence[Any],
    ) -> tuple[dict[Any, OutputPort], int, list[SessionPart]]:
        """The values of targets, how many are cached, and the parts to run."""
        named = self._resolve_targets(targets)
        self._feed(feeds)
        ports = list(dict.fromkeys(named.values()))
        here = sum(self._is_there(port) for port in ports)
        effects = self._effects if targets is None else ()
        wanted = [p for p in ports if not self._is_there(p)]
        return named, here, self._plan_parts(wanted, effects)

    def _with_valid_dims(self, plan: Callable[[], Plan]) -> Plan:
        """A plan of a run, with separate dims where feeds differ in a shared one."""
        try:
            return plan()
        except SharedDimError as error:
            is_strict = self._strict_shapes or self._has_separate_dims
            if is_strict or not shares_unchecked_dims(self._source):
                raise
            warn_of_shared_dims(error)
        self._has_separate_dims = True
        self._update(self._source)
        return plan()

    def _resolve_targets(
        self, targets: Iterable[str | Op | OutputPort] | None
    ) -> dict[Any, OutputPort]:
        if targets is None:
            rows = zip(self._graph.outputs, self._graph.results, strict=True)
            return {
                port.index if port.name is None else port.name: value
                for port, value in rows
                if value is not None
            }
        return {target: self._find_value(target) for target in targets}

    def _find_value(self, target: str | Op | OutputPort) -> OutputPort:
        """The value of a target, in the copy of the graph."""
        if isinstance(target, str):
            return target_of(self._graph, target)
        port = target_of(self._source, target)
        twin = self._twins.get(port)
        if twin is None:
            raise UsageError(
                f"{port} is not a value of the session",
                hint="if the graph was changed, call update(); in a graph that is "
                "converted to run, only results and named ops are found",
            )
        return twin

    def _feed(self, feeds: Mapping[Any, Any] | Sequence[Any]) -> None:
        """Store feeds, and drop the values that depend on changed ones."""
        if not isinstance(feeds, Mapping):
            given, hidden = list(feeds), {p.input for p in self._state_ports}
            keys = [key for p, key in self._keys.items() if p.index not in hidden]
            if given and len(given) != len(keys):
                raise UsageError(
                    "a list of feeds must have one for each input",
                    expected=len(keys),
                    got=len(given),
                    hint="name those that changed: feeds={name: value}",
                )
            feeds = dict(zip(keys, given, strict=False))
        else:
            feeds = feeds_by_key(feeds, self._feed_key)
        feeds |= self._feed_variables()
        ports = {key: port for port, key in self._keys.items()}
        self._expect_fit(feeds, ports.values())
        changed = self._always
        for key, value in feeds.items():
            held = self._fed.get(key)
            is_shared = isinstance(ports[key].type, RefType)
            if is_shared or held is None or not held.is_same(value):
                copy = FeedCopy.by_reference if is_shared else FeedCopy
                self._fed[key] = copy(value)
                self._changes += 1
                changed |= self._bits[ports[key]]
        stale = [p for p in self._values if self._masks[p.op] & changed]
        for port in stale:
            del self._values[port]

    def _feed_key(self, key: Any) -> Any:
        """The key of an input, which may be given by its handle."""
        port = fed_parameter(key)
        return key if port is None else parameter_key(self._find_value(port))  # type: ignore[arg-type]

    def _expect_fit(
        self, feeds: Mapping[Any, Any], ports: Iterable[OutputPort]
    ) -> None:
        slots = [FeedSlot(self._keys[port], port.type) for port in ports]  # type: ignore[index]
        problems, conflicts = feed_faults(slots, feeds)
        if problems or conflicts:
            raise feed_error(slots, problems, conflicts)

    def _is_there(self, port: OutputPort) -> bool:
        return (
            isinstance(port, Parameter) or port in self._values or port.op.is_constant
        )

    def _value(self, port: OutputPort) -> Any:
        if isinstance(port, Parameter):
            key = self._keys[port]
            if key not in self._fed:
                raise UsageError("an input has no feed", problems=[repr(key)])
            return self._fed[key].kept
        if port.op.is_constant:
            return port.op.attrs["value"].numpy()
        return self._values[port]

    # -- dependencies ------------------------------------------------------------

    def _dependencies(self) -> dict[Op, int]:
        """For each op a bit set of the inputs that it depends on, and of effects."""
        known: dict[Any, bool] = {}
        masks: dict[Op, int] = {}
        effects = []
        for op in self._graph:
            mask = 0
            if self._has_effects(op, known):
                mask = self._always
                effects.append(op)
            for value in values_read(op):
                own = self._bits.get(value)  # type: ignore[call-overload]
                mask |= masks.get(value.op, 0) if own is None else own
            for first in op.control_inputs:
                mask |= masks.get(first, 0)
            masks[op] = mask
        self._effects = tuple(effects)
        return masks

    def _commutes(self, op: Op) -> bool:
        """Whether an op is commutative, by its definition."""
        key = (op.namespace, op.type)
        if key not in self._commuting:
            entry = self._host.definition(op)
            traits = () if entry is None else entry.traits
            self._commuting[key] = "commutative" in traits
        return self._commuting[key]

    def _has_effects(self, op: Op, known: dict[Any, bool]) -> bool:
        """Whether an op has effects, by its definition; an unknown op has none."""
        inner = [op] if isinstance(op, Graph) else op.bodies.values()
        if any(self._has_effects(each, known) for body in inner for each in body):
            return True
        key = (op.namespace, op.type)
        if key not in known:
            entry = None if isinstance(op, Graph) else self._host.definition(op)
            known[key] = entry is not None and entry.effects
        return known[key]

    def _plan_parts(
        self, wanted: Sequence[OutputPort], effects: Iterable[Op]
    ) -> list[SessionPart]:
        """The parts to run, in order: ops with the same inputs form a part."""
        needed = self._needed_ops(wanted, effects)
        groups: dict[int, list[Op]] = {}
        for op in needed:
            mask = self._masks[op]
            mask = -1 if mask & self._always else mask
            groups.setdefault(mask, []).append(op)
        masks = sorted(groups, key=lambda m: (m < 0, m.bit_count()))
        rows = [groups[mask] for mask in masks]
        if len(rows) > PARTS:
            size = -(-len(rows) // PARTS)
            chunks = [rows[i : i + size] for i in range(0, len(rows), size)]
            rows = [[op for row in chunk for op in row] for chunk in chunks]
        return self._cut(rows, wanted)

    def _needed_ops(
        self, wanted: Sequence[OutputPort], effects: Iterable[Op]
    ) -> list[Op]:
        """The ops that have to run, in the order of the graph."""
        found: set[Op] = set()
        read: dict[Parameter, None] = {}
        waiting = [port.op for port in wanted] + list(effects)
        while waiting:
            op = waiting.pop()
            if op in found or op.is_constant:
                continue
            found.add(op)
            for value in values_read(op):
                if isinstance(value, Parameter):
                    read[value] = None
                elif not self._is_there(value):
                    waiting.append(value.op)
            waiting += [o for o in op.control_inputs if self._masks[o] & self._always]
        missing = [key for key in map(self._keys.get, read) if key not in self._fed]
        if missing:
            raise UsageError(
                "inputs that are needed have no feed",
                problems=[f"no feed for {key!r}" for key in missing],
            )
        mask = reduce(or_, (self._masks[op] for op in found), 0)
        used = [p for p in self._graph.parameters if mask & self._bits[p] or p in read]
        fed = {
            key: self._fed[key].kept
            for p in used
            if (key := self._keys[p]) in self._fed
        }
        self._expect_fit(fed, used)
        return [op for op in self._graph if op in found]

    def _cut(
        self, rows: Sequence[Sequence[Op]], wanted: Sequence[OutputPort]
    ) -> list[SessionPart]:
        home = {op: i for i, row in enumerate(rows) for op in row}
        outputs: list[dict[OutputPort, None]] = [{} for _ in rows]
        inputs: list[dict[OutputPort, None]] = [{} for _ in rows]
        for i, row in enumerate(rows):
            for op in row:
                for value in values_read(op):
                    if isinstance(value, Parameter):
                        inputs[i][value] = None
                    elif not value.op.is_constant and home.get(value.op) != i:
                        inputs[i][value] = None
                        if value.op in home:
                            outputs[home[value.op]][value] = None
        for port in wanted:
            outputs[home[port.op]][port] = None
        return [
            SessionPart(tuple(row), tuple(inputs[i]), tuple(outputs[i]))
            for i, row in enumerate(rows)
        ]

    # -- parts ---------------------------------------------------------------------

    def _run(self, part: SessionPart) -> None:
        if part not in self._parts:
            self._parts[part] = self._shelf.find(self._graph, part)
        compiled, order = self._parts[part]
        made = compiled([self._value(port) for port in order])
        self._values.update(zip(part.outputs, made.values(), strict=True))

    def _compile_part(self, graph: Graph) -> Compiled:
        backend, device = self._place
        compiled = compile(graph, backend, device, host=self._host, **self._options)
        state = compiled.executable_attribute("state")
        if state is not None:
            self._options.setdefault("state", state)  # shared by all parts
        return compiled

    # -- step by step ----------------------------------------------------------------

    def steps(
        self,
        targets: Iterable[str | Op | OutputPort] | None = None,
        feeds: Mapping[Any, Any] | Sequence[Any] = (),
    ) -> Iterator[tuple[Op, list[Any]]]:
        """Iterate over the ops that the targets need, with their values.

        Each op runs when it is reached. Ops that depend on effects run together, at the
        end."""
        for op, values in self._step_values(targets, feeds, 1):
            yield op, [copy_value(value) for value in values]

    def _step_values(
        self,
        targets: Iterable[str | Op | OutputPort] | None,
        feeds: Mapping[Any, Any] | Sequence[Any],
        block: int,
    ) -> Iterator[tuple[Op, list[Any]]]:
        with self._lock:
            targets = None if targets is None else list(targets)
            rows = self._with_valid_dims(lambda: self._step_rows(targets, feeds, block))
            changes = self._changes
        for row in rows:
            with self._lock:
                if self._changes != changes:
                    raise UsageError(
                        "the session was used otherwise between two steps",
                        hint="finish the steps first, or make another session",
                    )
                values = [
                    port for op in row for port in op.outputs if not _is_position(port)
                ]
                self._run(*self._cut([row], values))
                kept = {port: self._values[port] for port in values}
            for op in row:
                yield op, [kept[port] for port in op.outputs if port in kept]
        with self._lock:
            self._assign_variables(self._resolve_targets(targets).values())

    def _step_rows(
        self,
        targets: Iterable[str | Op | OutputPort] | None,
        feeds: Mapping[Any, Any] | Sequence[Any],
        block: int,
    ) -> list[list[Op]]:
        """The ops to run, in blocks; those that depend on effects are the last."""
        ports = self._resolve_targets(targets).values()
        self._feed(feeds)
        self._changes += 1
        self._values.clear()
        effects = self._effects if targets is None else ()
        wanted = [p for p in ports if not self._is_there(p)]
        ops = self._needed_ops(wanted, effects)
        pure = [op for op in ops if not self._masks[op] & self._always]
        rows = [pure[i : i + block] for i in range(0, len(pure), block)]
        rows.append([op for op in ops if self._masks[op] & self._always])
        return [row for row in rows if row]

    def __reduce__(self) -> Any:
        raise UsageError(
            "a session cannot be pickled or copied",
            hint="save its graph, and begin a session where it runs",
        )

    def first_not_finite(
        self,
        targets: Iterable[str | Op | OutputPort] | None = None,
        feeds: Mapping[Any, Any] | Sequence[Any] = (),
    ) -> NonFiniteValue | None:
        """The first op whose result has a NaN or an infinity, or None; later ops do not
        run.

        Feeds and constants are not checked."""
        for op, values in self._step_values(targets, feeds, BLOCK):
            for port, value in zip(op.outputs, values, strict=True):
                found = _non_finite_positions(op, port, value)
                if found is not None:
                    return found
        return None


def _non_finite_positions(
    op: Op, port: OutputPort, value: Any
) -> NonFiniteValue | None:
    import numpy as np

    if isinstance(value, list | tuple | dict) or value is None:
        return None
    array = np.asarray(value)
    if array.dtype.kind not in "fcV":
        return None
    if array.dtype.kind == "V":
        array = array.astype("float32")
    bad = ~np.isfinite(array)
    if not bad.any():
        return None
    what = "NaN" if np.isnan(array).any() else "Inf"
    where = np.argwhere(bad)
    places = tuple(tuple(map(int, place)) for place in where[:5])
    return NonFiniteValue(op, port, what, places, len(where))


def _is_position(port: OutputPort) -> bool:
    """Whether this is a reference to memory, which no call returns."""
    return isinstance(port.type, RefType | ResourceType)
