"""Rounds of a loop gone back, from the last one to the first, to carry gradients.

What is carried is remembered: stacked, as it was when each round began. Going back, a
round is computed anew from that, so nothing else of it has to be kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from amanda.graph import Graph, Op, OutputPort
from amanda_std.engine.values import Value, value_type
from amanda_std.ops.control.bodies import filled, pulled
from amanda_std.ops.tensor.creation import zeros_like

Way = tuple[int, bool]
"""The axis that rows lie along, and whether the last one comes first."""


class Rounds:
    """A loop or scan whose gradient is asked for.

    `first` input and `lead` result of the body: where what is carried begins."""

    def __init__(
        self, op: Op, body: Graph, g: Sequence[Any], wanted: Sequence[OutputPort],
        *, count: int, lead: int, first: int,
    ) -> None:  # fmt: skip
        self.op, self.body = op, body
        self.g, self.wanted = g, wanted
        self.count, self.lead, self.first = count, lead, first
        self.outs: list[Way] = [(0, False)] * (len(op.outputs) - count)
        """How the rows of the op lie."""

    def remembered(self, parameter: int) -> OutputPort:
        """A parameter of the body in every round, stacked: it may be there already."""
        port = self.body.parameters[parameter]
        known = self.body.results[self.lead + self.count :]
        for i, value in enumerate(known):
            if value is port and self.outs[i] == (0, False):
                return self.op.outputs[self.count + i]
        self.body.result(port)
        made = self.op.add_output()
        self.outs.append((0, False))
        for key, plain in (("out_axes", 0), ("out_reverse", False)):
            if self.op.has_attrs and self.op.attrs.get(key) is not None:
                self.op.attrs[key] = (*self.op.attrs[key], plain)
        from amanda_std.passes.infer import result_types_of

        made.type = (result_types_of(self.op) or [None])[-1]
        return made

    def back(
        self,
        known: Mapping[int, OutputPort],
        fixed: Mapping[int, Any],
        rows: Mapping[int, tuple[OutputPort | None, Way]],
    ) -> dict[OutputPort, Any]:
        """The gradients of what the op reads.

        Of the parameters that are not carried: `known` ones were remembered, `fixed`
        ones are the same in every round, `rows` were scanned."""
        from amanda_std.ops.control.scan import scan

        trip = _Trip(self, known, fixed, rows)
        made = scan(
            trip.once, None, *trip.starts(), *(value for value, _ in trip.scanned),
            carried=len(trip.moving) + len(trip.inner),
            axes=tuple(axis for _, (axis, _) in trip.scanned),
            reverse=tuple(back for _, (_, back) in trip.scanned),
            out_axes=tuple(axis for axis, _ in trip.given),
            out_reverse=tuple(back for _, back in trip.given),
        )  # fmt: skip
        return trip.handed(made)


class _Trip:
    """One way back: what is carried, what is scanned, and what a round does."""

    def __init__(
        self, rounds: Rounds, known: Mapping[int, OutputPort],
        fixed: Mapping[int, Any], rows: Mapping[int, tuple[OutputPort | None, Way]],
    ) -> None:  # fmt: skip
        self.rounds, self.fixed = rounds, fixed
        op, body, g = rounds.op, rounds.body, rounds.g
        self.head = len(known) + len(fixed)
        wanted = set(rounds.wanted)
        self.rows = {k: x for k, (x, _) in rows.items() if x in wanted}
        captured = set(body.captures)
        self.inner = [v for v in rounds.wanted if v in captured]
        self.moving = self._moving(wanted)
        """Which carried values have gradients."""
        saved = {self.head + i: rounds.remembered(self.head + i)
                 for i in range(rounds.count)}  # fmt: skip
        self.scanned: list[tuple[Any, Way]] = []
        self.place: dict[int, int] = {}  # of the scanned values of a parameter
        for k, port in {**known, **saved}.items():
            self._scan(k, Value(port), (0, True))
        for k, (x, (axis, back)) in rows.items():
            assert x is not None
            self._scan(k, Value(x), (axis, not back))
        self.seeds = {}  # of the results that are rows
        for j, seed in enumerate(g[rounds.count :]):
            if seed is not None:
                self.seeds[rounds.lead + rounds.count + j] = len(self.scanned)
                axis, back = rounds.outs[j]
                self.scanned.append((seed, (axis, not back)))
        self.given = [(rows[k][1][0], not rows[k][1][1]) for k in self.rows]
        self.op = op

    def _scan(self, parameter: int, value: Any, way: Way) -> None:
        self.place[parameter] = len(self.scanned)
        self.scanned.append((value, way))

    def _moving(self, wanted: set[OutputPort]) -> list[int]:
        """The carried values that depend on what is wanted, in any round."""
        from amanda_std.autodiff.gradients import dependents, is_differentiable_type

        rounds, body = self.rounds, self.rounds.body
        first, parameters = rounds.first, body.parameters
        found = {
            i for i in range(rounds.count) if rounds.op.inputs[first + i] in wanted
        }
        while True:
            start = [parameters[self.head + i] for i in sorted(found)]
            start += [parameters[k] for k in self.rows]
            on_way = dependents(body, [*start, *self.inner])
            more = {
                i
                for i in range(rounds.count)
                if body.results[rounds.lead + i] in on_way
                and is_differentiable_type(value_type(parameters[self.head + i]))
            }
            if more <= found:
                return sorted(found)
            found |= more

    def starts(self) -> list[Any]:
        """The gradients of what was carried last, and sums of none."""
        rounds = self.rounds
        last = [filled(rounds.g[i], Value(rounds.op.outputs[i])) for i in self.moving]
        return [*last, *(zeros_like(Value(v)) for v in self.inner)]

    def once(self, *values: Any) -> list[Any]:
        """One round back: gradients of what it began with, from those of its end."""
        count = len(self.moving)
        slopes, sums = values[:count], values[count : count + len(self.inner)]
        seen = values[count + len(self.inner) :]
        rounds = self.rounds
        args = [
            self.fixed[k] if k in self.fixed else seen[self.place[k]]
            for k in range(len(rounds.body.parameters))
        ]
        seeds: list[Any] = [None] * len(rounds.body.results)
        for i, slope in zip(self.moving, slopes, strict=True):
            seeds[rounds.lead + i] = slope
        for at, place in self.seeds.items():
            seeds[at] = seen[place]
        begun = [args[self.head + i] for i in self.moving]
        rows = [args[k] for k in self.rows]
        targets = [*(v.port for v in begun), *self.inner, *(v.port for v in rows)]
        made = pulled(rounds.body, args, seeds, targets)
        before = [filled(m, v) for m, v in zip(made, begun, strict=False)]
        added = [
            total if m is None else total + m
            for total, m in zip(sums, made[count:], strict=False)
        ]
        last = made[count + len(self.inner) :]
        return [
            *before,
            *added,
            *(filled(m, v) for m, v in zip(last, rows, strict=True)),
        ]

    def handed(self, made: Sequence[Any]) -> dict[OutputPort, Any]:
        """What the way back gave, by the values that it is for."""
        rounds = self.rounds
        starts = [rounds.op.inputs[rounds.first + i] for i in self.moving]
        found: dict[OutputPort, Any] = {}
        ports = [*starts, *self.inner, *self.rows.values()]
        for port, gradient in zip(ports, made, strict=True):
            if port is not None:
                old = found.get(port)
                found[port] = gradient if old is None else old + gradient
        return found
