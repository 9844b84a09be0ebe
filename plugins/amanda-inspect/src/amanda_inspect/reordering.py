"""A transposition that returns the right elements in a wrong order.

Values with the same elements do not show it: what is reshaped or transposed from it has
them as well. It is found by another order of its axes that makes the result right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, permutations
from typing import Any, Final, NamedTuple

from amanda.errors import AmandaError
from amanda.graph import Graph, Op, OutputPort
from amanda_inspect.common import Unoptimized
from amanda_inspect.lockstep import Lockstep
from amanda_inspect.regions import Print, equal_in_order, prints_of_values
from amanda_inspect.rounding import error_size, rounding_bound
from amanda_inspect.windows import reads_of, run_ops

__all__ = ["find_transposition"]

TRANSPOSITION: Final = "transpose"
RESHAPE: Final = "reshape"


def find_transposition(
    run: Lockstep, op: Op, sides: tuple[Unoptimized, Unoptimized], limit: int
) -> Op | None:
    """The transposition of wrong axes in the region that ends in `op`, if there is one.

    The region is that before optimization, which removes transpositions that leave the
    axes in their order.
    """
    values = run.matching.values
    ports = [port for port in op.outputs if port in values]
    ops = sides[1].region(ports, values)
    results = [
        copy
        for each in ops
        for copy in each.outputs
        if sides[1].values.get(copy) in ports
    ]
    if not results or all(each.type != TRANSPOSITION for each in ops):
        return None
    region = _Region(run, sides[1], ops, results[-1])
    reference = _prints_of_reference(run, sides[0], [values[p] for p in ports], limit)
    return next((x for x in region.in_doubt(reference) if region.repairs(x)), None)


def _prints_of_reference(
    run: Lockstep, side: Unoptimized, ports: Sequence[OutputPort], limit: int
) -> list[Print]:
    """Prints of what the reference computes before optimization, and reads."""
    known = set(run.matching.values.values())
    return list(
        prints_of_values(
            side.region(ports, known),
            lambda port: run.reference.value(side.values[port]),
            run.reference.backend,
            limit,
        )
    )


class _Region(NamedTuple):
    """Ops before optimization, whose last result has an error."""

    run: Lockstep
    side: Unoptimized
    ops: Sequence[Op]
    result: OutputPort

    def in_doubt(self, reference: Sequence[Print]) -> Iterator[Op]:
        """The transpositions, but those that return a value of the reference.

        One that leaves the axes in order returns what it reads, which says nothing.
        """
        for op in self.ops:
            if op.type != TRANSPOSITION:
                continue
            array = self.run_ops(op.output)
            known = any(equal_in_order(array, each) for each in reference)
            if not known or _order(op, array.ndim) == list(range(array.ndim)):
                yield op

    def repairs(self, op: Op) -> bool:
        """Whether the result is right with a transposition of other axes."""
        reference = self.run.reference
        value = self.side.values[self.result]
        wanted = reference.value(self.run.matching.values[value])
        for array in self._results(op):
            try:
                got = self.run_ops(self.result, {op.output: array})
            except AmandaError:  # what follows does not take this shape
                continue
            if error_size(got, wanted) <= rounding_bound(wanted):
                return True
        return False

    def _results(self, op: Op) -> Iterator[Any]:
        """What a transposition returns with its axes in other orders.

        Only a reshape takes what has another shape.
        """
        read = op.inputs[0]
        assert read is not None
        array = self.run_ops(read)
        order = _order(op, array.ndim)
        shape = array.transpose(order).shape
        any_shape = all(user.type == RESHAPE for user in op.output.user_ops)
        for other in _other_orders(order):
            found = array.transpose(other)
            if any_shape or found.shape == shape:
                yield found.copy()

    def run_ops(
        self, port: OutputPort, given: Mapping[OutputPort, Any] | None = None
    ) -> Any:
        """A value of the region, with some values replaced by others."""
        given = given or {}
        if port in given or port.op not in self.ops:
            return given[port] if port in given else self._read(port)
        needed, waiting = {port.op}, [port.op]
        while waiting:
            for read in reads_of(waiting.pop()):
                inside = read not in given and read.op in self.ops
                if inside and read.op not in needed:
                    needed.add(read.op)
                    waiting.append(read.op)
        ops = [op for op in self.ops if op in needed]
        graph = ops[0].graph
        assert isinstance(graph, Graph)

        def value(read: OutputPort) -> Any:
            return given[read] if read in given else self._read(read)

        return run_ops(graph, ops, [port], value, self.run.backend)[port]

    def _read(self, port: OutputPort) -> Any:
        return self.run.forced_value(self.side.values[port])


def _order(op: Op, rank: int) -> list[int]:
    """The axes that a transposition reads, in its order."""
    perm = op.attrs.get("perm")
    return list(reversed(range(rank))) if perm is None else [i % rank for i in perm]


def _other_orders(order: Sequence[int]) -> Iterator[Sequence[int]]:
    """Other orders of axes: all of three, those with two exchanged of more."""
    if len(order) <= 3:
        yield from (other for other in permutations(order) if [*other] != [*order])
        return
    for i, j in combinations(range(len(order)), 2):
        other = list(order)
        other[i], other[j] = order[j], order[i]
        yield other
