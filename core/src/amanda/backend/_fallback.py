"""Fallback: a graph on several backends, cut into as few pieces as possible.

Used only if the caller names a fallback; the report says what runs where.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from amanda.backend._compiled import Compiled
from amanda.backend._guarded import GuardedBackend
from amanda.backend._memory import type_bytes
from amanda.backend._partition import Piece, partition
from amanda.backend._protocols import Key, consumes, refusals
from amanda.errors import BackendError, UsageError

if TYPE_CHECKING:
    from amanda.graph import Graph, Op, OutputPort
    from amanda.mapping import Refusal
    from amanda.types import Dim

__all__ = [
    "Crossing",
    "Transfer",
    "SplitBackend",
    "PlacementReport",
    "SplitExecutable",
    "OpRange",
    "plan_pieces",
    "split_graph",
    "unsupported_ops_error",
]

Takes = Callable[["Op"], object]


class OpRange(NamedTuple):
    """A piece of the graph: its backend and its ops."""

    backend: str
    ops: tuple[str, ...]
    why: tuple[str, ...]
    """Why the preferred backend does not run it, op by op."""
    sources: tuple[str, ...] = ()
    """The ops of the model, by name, that the ops were converted from."""


class Transfer(NamedTuple):
    """A value that is copied from one backend to another."""

    value: str
    made_by: str
    read_by: str
    bytes: int
    """Number of bytes copied so far."""


class Crossing(NamedTuple):
    """A value that each call would copy from one backend to another."""

    value: str
    made_by: str
    read_by: str
    bytes: Dim | None
    """As a formula where dims are symbolic; None where the type is unknown."""


class PlacementReport(NamedTuple):
    """What runs where, in order, and what is copied between backends."""

    pieces: tuple[OpRange, ...]
    transfers: tuple[Transfer, ...]

    def __str__(self) -> str:
        lines = []
        for piece in self.pieces:
            lines.append(f"on {piece.backend}: {', '.join(piece.ops)}")
            lines += [f"  {why}" for why in piece.why]
        lines += [
            f"{c.value} from {c.made_by} to {c.read_by}, {c.bytes} bytes so far"
            for c in self.transfers
        ]
        return "\n".join(lines)


class SplitBackend(NamedTuple):
    """A backend for pieces, with its device and options."""

    backend: GuardedBackend
    device: str | None = None
    options: Mapping[str, Any] = MappingProxyType({})

    @property
    def what(self) -> str:
        return self.backend.plugin.what


def unsupported_ops_error(
    who: str, problems: Sequence[Refusal | str], others: Sequence[str] = ()
) -> BackendError:
    """The error for ops that none of the backends supports.

    `others` are backends that may run them as a fallback.
    """
    number = "1 op" if len(problems) == 1 else f"{len(problems)} ops"
    return BackendError(
        f"{who} does not take {number} of the graph",
        hint="choose another backend, replace these ops, or name a fallback that runs "
        f"them: {' or '.join(others)}"
        if others
        else "choose another backend, or replace these ops",
        problems=map(str, problems),
    )


def split_graph(graph: Graph, parties: Mapping[str, SplitBackend]) -> SplitExecutable:
    """Cut a graph into pieces, each op on the first backend that supports it."""
    _expect_one_namespace(graph, parties)
    chosen, reasons = _assign_ops(graph, parties)
    parts = []
    for piece in _cut(graph, chosen):
        name = str(piece.who)
        backend, device, options = parties[name]
        made = backend.compile(piece.graph, device, options)
        call = Compiled(
            piece.graph, made, backend=name, device=device, plugin=backend.plugin
        )
        parts.append((piece, call))
    return SplitExecutable(graph, parts, reasons)


def plan_pieces(
    graph: Graph,
    parties: Mapping[str, SplitBackend],
    leaves_out: Callable[[Op], bool] | None = None,
) -> tuple[list[OpRange], list[Crossing]]:
    """The pieces that `split_graph` would make, and the values that cross; nothing is
    compiled. No backend is asked about ops that `leaves_out` holds for."""
    _expect_one_namespace(graph, parties)
    chosen, reasons = _assign_ops(graph, parties, leaves_out)
    pieces = _cut(graph, chosen)
    makers = {port: piece.who for piece in pieces for port in piece.gives}
    crossings = {
        (port, piece.who): Crossing(
            port.name or str(port),
            str(makers[port]),
            str(piece.who),
            type_bytes(port.type),
        )
        for piece in pieces
        for port in piece.reads
        if makers.get(port, piece.who) != piece.who
    }
    return [_op_range(piece, reasons) for piece in pieces], list(crossings.values())


def _expect_one_namespace(graph: Graph, parties: Mapping[str, SplitBackend]) -> None:
    if not parties:
        raise UsageError("no backend is given for the ops of the graph")
    first, *others = parties.values()
    for other in others:
        if not consumes(graph.namespace or "", other.backend.namespace):
            raise UsageError(
                f"{other.what} cannot run what {first.what} does not take",
                expected=f"one that consumes {graph.namespace}",
                got=other.backend.namespace,
            )


def _cut(graph: Graph, chosen: Mapping[Op, str]) -> list[Piece]:
    return partition(graph, chosen.__getitem__, copied=lambda op: op.is_constant)


def _op_range(piece: Piece, reasons: Mapping[Op, str]) -> OpRange:
    return OpRange(
        str(piece.who),
        tuple(op.label for op in piece.ops if not op.is_constant),
        tuple(reasons[op] for op in piece.ops if op in reasons),
        tuple(_source_names(piece.ops)),
    )


def _assign_ops(
    graph: Graph,
    parties: Mapping[str, SplitBackend],
    leaves_out: Callable[[Op], bool] | None = None,
) -> tuple[dict[Op, str], dict[Op, str]]:
    """The backend of each op, and why preferred ones do not support it."""
    chosen: dict[Op, str] = {}
    reasons: dict[Op, str] = {}
    problems: list[str] = []
    for op in graph:
        told: list[str] = []
        for name, party in parties.items():
            is_left_out = leaves_out is not None and leaves_out(op)
            is_taken = op.is_constant or is_left_out
            refused = [] if is_taken else _refusals_of(op, party.backend.takes)
            if not refused:
                chosen[op] = name
                break
            told += [f"{name}: {why}" for why in refused]
        else:
            problems += told
        if told:
            reasons[op] = "; ".join(told)
    if problems:
        first, *others = (party.what for party in parties.values())
        raise unsupported_ops_error(
            f"{first}, with {', '.join(others)} beside it,", problems
        )
    return chosen, reasons


def _refusals_of(op: Op, takes: Takes) -> list[str]:
    """Why an op, or an op in its bodies, is not supported."""
    answer = takes(op)
    reasons = [] if answer is True else [f"{op.label}: {answer or 'not taken'}"]
    inner = [*op.bodies.values(), *([op] if op.is_graph else ())]
    for body in inner:
        reasons += map(str, refusals(body, takes))
    return reasons


class SplitExecutable:
    """An executable of several backends."""

    def __init__(
        self,
        graph: Graph,
        parts: Sequence[tuple[Piece, Compiled]],
        reasons: Mapping[Op, str],
    ) -> None:
        places: dict[OutputPort, int] = {p: i for i, p in enumerate(graph.parameters)}
        self._inputs = len(places)
        makers: dict[int, str] = {}
        self._crossings: dict[tuple[int, str], list[Any]] = {}
        rows = []
        for piece, call in parts:
            reads = tuple(places[v] for v in piece.reads)
            for value, place in zip(piece.reads, reads, strict=True):
                maker = makers.get(place, call.backend)
                if maker != call.backend:
                    crossing = [str(value), maker, call.backend, 0]
                    self._crossings.setdefault((place, call.backend), crossing)
            for port in piece.gives:
                makers[len(places)] = call.backend
                places[port] = len(places)
            rows.append((call, reads, tuple(places[v] for v in piece.gives)))
        self._rows = rows
        self._count = len(places)
        self._results = [
            None if v is None else places[v] if v in places else _constant(v)
            for v in graph.results
        ]
        self._pieces = tuple(_op_range(piece, reasons) for piece, _ in parts)
        self._lock = Lock()
        states = [s for _, c in parts if (s := c.executable_attribute("state"))]
        self.state = states[0] if states else None
        """The variables of the piece that has any."""

    def __call__(
        self, feeds: Mapping[Key, Any], out: Mapping[Key, Any] | None = None
    ) -> Sequence[Any]:
        del out
        if len(feeds) != self._inputs:
            raise UsageError(
                "a call needs a feed for each input",
                expected=f"{self._inputs} feeds, in the order of the inputs",
                got=f"{len(feeds)} feeds",
            )
        values: list[Any] = [*feeds.values(), *[None] * (self._count - self._inputs)]
        for call, reads, gives in self._rows:
            made = call([values[place] for place in reads])
            self._count_crossings(call.backend, reads, values)
            for place, value in zip(gives, made.values(), strict=True):
                values[place] = value
        return [
            values[r] if isinstance(r, int) else None if r is None else r.numpy()
            for r in self._results
        ]

    def _count_crossings(
        self, backend: str, reads: Sequence[int], values: Sequence[Any]
    ) -> None:
        with self._lock:
            for place in reads:
                row = self._crossings.get((place, backend))
                if row is not None:
                    row[3] += getattr(values[place], "nbytes", 0)

    def report(self) -> PlacementReport:
        """What runs where, why, and what was copied."""
        rows = (Transfer(*row) for row in self._crossings.values())
        return PlacementReport(self._pieces, tuple(rows))


def _source_names(ops: Sequence[Op]) -> dict[str, None]:
    """The names of the ops that some ops were converted from, each once."""
    names: dict[str, None] = {}
    for op in ops:
        if op.is_constant:
            continue
        if op.provenance is not None:
            names.update(dict.fromkeys(op.provenance.sources))
        elif op.name is not None:
            names[op.name] = None
    return names


def _constant(value: OutputPort) -> Any:
    """The tensor of a result that no part computes."""
    if not value.op.is_constant:
        raise UsageError(f"the result {value} is computed by none of the parts")
    return value.op.attrs["value"]
