"""Gradients of loops and scans: iterate backwards over the iterations.

The carried values at the start of each iteration are stacked. The backward pass
computes each iteration again from these, so nothing else is stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from amanda.graph import Graph, Op, OutputPort
from amanda_std.engine.values import Value, value_type
from amanda_std.ops._late import late
from amanda_std.ops.control.bodies import gradient_or_zeros
from amanda_std.ops.control.body_gradient import body_gradients
from amanda_std.ops.tensor.creation import zeros_like

RowLayout = tuple[int, bool]
"""Axis of the rows, and whether they are in reverse order."""


class LoopGradient:
    """A loop or scan to be differentiated.

    `first` input and `lead` result of the body: where the carried values begin."""

    def __init__(
        self, op: Op, body: Graph, g: Sequence[Any], wanted: Sequence[OutputPort],
        *, count: int, lead: int, first: int,
    ) -> None:  # fmt: skip
        self.op, self.body = op, body
        self.g, self.wanted = g, wanted
        self.count, self.lead, self.first = count, lead, first
        self.outs: list[RowLayout] = [(0, False)] * (len(op.outputs) - count)
        """Layout of the rows of the op."""

    def stack_parameter(self, parameter: int) -> OutputPort:
        """A parameter of the body in each iteration, stacked; reused if present."""
        port = self.body.parameters[parameter]
        known = self.body.results[self.lead + self.count :]
        for i, value in enumerate(known):
            if value is port and self.outs[i] == (0, False):
                return self.op.outputs[self.count + i]
        self.body.result(port)
        outputs = self.op.add_output()
        self.outs.append((0, False))
        for key, plain in (("out_axes", 0), ("out_reverse", False)):
            if self.op.has_attrs and self.op.attrs.get(key) is not None:
                self.op.attrs[key] = (*self.op.attrs[key], plain)
        from amanda_std.passes.infer import result_types_of

        outputs.type = (result_types_of(self.op) or [None])[-1]
        return outputs

    def gradients(
        self,
        known: Mapping[int, OutputPort],
        fixed: Mapping[int, Any],
        rows: Mapping[int, tuple[OutputPort | None, RowLayout]],
    ) -> dict[OutputPort, Any]:
        """Gradients with respect to the inputs and captures of the op.

        Of the parameters that are not carried, `known` ones are stacked, `fixed` ones
        are constant over the iterations, `rows` were scanned."""

        backward = _BackwardScan(self, known, fixed, rows)
        outputs = late.scan(
            backward.iterate, None, *backward.initial_carry(),
            *(value for value, _ in backward.scanned),
            carried=len(backward.carries) + len(backward.inner),
            axes=tuple(axis for _, (axis, _) in backward.scanned),
            reverse=tuple(back for _, (_, back) in backward.scanned),
            out_axes=tuple(axis for axis, _ in backward.given),
            out_reverse=tuple(back for _, back in backward.given),
        )  # fmt: skip
        return backward.assign_results(outputs)


class _BackwardScan:
    """The backward scan: its carried values, scanned values and body."""

    def __init__(
        self, loop: LoopGradient, known: Mapping[int, OutputPort],
        fixed: Mapping[int, Any],
        rows: Mapping[int, tuple[OutputPort | None, RowLayout]],
    ) -> None:  # fmt: skip
        self.loop, self.fixed = loop, fixed
        op, body, g = loop.op, loop.body, loop.g
        self.head = len(known) + len(fixed)
        requested = set(loop.wanted)
        self.rows = {k: x for k, (x, _) in rows.items() if x in requested}
        captured = set(body.captures)
        self.inner = [v for v in loop.wanted if v in captured]
        self.carries = self._differentiated_carries(requested)
        """Which carried values have gradients."""
        saved = {self.head + i: loop.stack_parameter(self.head + i)
                 for i in range(loop.count)}  # fmt: skip
        self.scanned: list[tuple[Any, RowLayout]] = []
        self.slots: dict[int, int] = {}  # parameter -> scanned value
        for k, port in {**known, **saved}.items():
            self._scan(k, Value(port), (0, True))
        for k, (x, (axis, back)) in rows.items():
            assert x is not None
            self._scan(k, Value(x), (axis, not back))
        self.seeds = {}  # result -> scanned value
        for j, seed in enumerate(g[loop.count :]):
            if seed is not None:
                self.seeds[loop.lead + loop.count + j] = len(self.scanned)
                axis, back = loop.outs[j]
                self.scanned.append((seed, (axis, not back)))
        self.given = [(rows[k][1][0], not rows[k][1][1]) for k in self.rows]
        self.op = op

    def _scan(self, parameter: int, value: Any, layout: RowLayout) -> None:
        self.slots[parameter] = len(self.scanned)
        self.scanned.append((value, layout))

    def _differentiated_carries(self, wanted: set[OutputPort]) -> list[int]:
        """Carried values that depend on what is differentiated, in any iteration."""
        from amanda_std.autodiff.gradients import dependents, is_differentiable_type

        loop, body = self.loop, self.loop.body
        first, parameters = loop.first, body.parameters
        result = {i for i in range(loop.count) if loop.op.inputs[first + i] in wanted}
        while True:
            start = [parameters[self.head + i] for i in sorted(result)]
            start += [parameters[k] for k in self.rows]
            on_way = dependents(body, [*start, *self.inner])
            more = {
                i
                for i in range(loop.count)
                if body.results[loop.lead + i] in on_way
                and is_differentiable_type(value_type(parameters[self.head + i]))
            }
            if more <= result:
                return sorted(result)
            result |= more

    def initial_carry(self) -> list[Any]:
        """Gradients of the final carried values, and zero sums."""
        loop = self.loop
        last = [
            gradient_or_zeros(loop.g[i], Value(loop.op.outputs[i]))
            for i in self.carries
        ]
        return [*last, *(zeros_like(Value(v)) for v in self.inner)]

    def iterate(self, *values: Any) -> list[Any]:
        """One backward iteration: gradients at its start from those at its end."""
        count = len(self.carries)
        gradients, sums = values[:count], values[count : count + len(self.inner)]
        seen = values[count + len(self.inner) :]
        loop = self.loop
        args = [
            self.fixed[k] if k in self.fixed else seen[self.slots[k]]
            for k in range(len(loop.body.parameters))
        ]
        seeds: list[Any] = [None] * len(loop.body.results)
        for i, gradient in zip(self.carries, gradients, strict=True):
            seeds[loop.lead + i] = gradient
        for at, position in self.seeds.items():
            seeds[at] = seen[position]
        initial = [args[self.head + i] for i in self.carries]
        rows = [args[k] for k in self.rows]
        targets = [*(v.port for v in initial), *self.inner, *(v.port for v in rows)]
        outputs = body_gradients(loop.body, args, seeds, targets)
        before = [
            gradient_or_zeros(m, v) for m, v in zip(outputs, initial, strict=False)
        ]
        added = [
            total if m is None else total + m
            for total, m in zip(sums, outputs[count:], strict=False)
        ]
        last = outputs[count + len(self.inner) :]
        return [
            *before,
            *added,
            *(gradient_or_zeros(m, v) for m, v in zip(last, rows, strict=True)),
        ]

    def assign_results(self, made: Sequence[Any]) -> dict[OutputPort, Any]:
        """Assign the results of the backward scan to the values that they belong to."""
        loop = self.loop
        starts = [loop.op.inputs[loop.first + i] for i in self.carries]
        result: dict[OutputPort, Any] = {}
        ports = [*starts, *self.inner, *self.rows.values()]
        for port, gradient in zip(ports, made, strict=True):
            if port is not None:
                old = result.get(port)
                result[port] = gradient if old is None else old + gradient
        return result
