"""Parts of a graph as graphs, and a cache of their executables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, permutations
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from amanda.backend import cache_key
from amanda.graph import Graph

if TYPE_CHECKING:
    from amanda.backend import Compiled
    from amanda.graph import Op, OutputPort
    from amanda.tensors import Tensor

__all__ = ["SessionPart", "PartCache", "extract", "values_read"]

TRIES: Final = 24
"""Number of orders of inputs that are tried for one executable."""


class SessionPart(NamedTuple):
    """Some ops of a graph, with the values that they read and return."""

    ops: tuple[Op, ...]
    """In order, without constants."""
    inputs: tuple[OutputPort, ...]
    outputs: tuple[OutputPort, ...]


def extract(graph: Graph, part: SessionPart, order: Sequence[OutputPort]) -> Graph:
    """A part as a graph, with its inputs as parameters in this order."""
    from amanda.graph import copy_ops

    made = Graph(graph.namespace)
    memo: dict[Any, Any] = {}
    for value in order:
        memo[value] = made.parameter(value.type)
    constants = dict.fromkeys(
        v.op for op in part.ops for v in values_read(op) if v.op.is_constant
    )
    copy_ops(graph, made, [*constants, *part.ops], memo)
    for value in part.outputs:
        made.result(memo[value])
    for name, function in graph.functions.items():
        made.add_function(name, function.clone())
    return made


def _in_graph_order(graph: Graph, commutes: Callable[[Op], bool]) -> Graph:
    """The graph, with operands of commutative ops in canonical order.

    Parts that differ only in the order of such operands are then equal."""
    numbers: dict[Any, int] = {}
    for parameter in graph.parameters:
        numbers[parameter] = len(numbers)
    for op in graph:
        ports = [v for v in op.inputs if v is not None]
        if len(ports) == 2 == len(op.inputs) and commutes(op):
            first, second = ports
            if numbers.get(first, -1) > numbers.get(second, -1):
                for place, value in zip(op.input_ports, (second, first), strict=True):
                    place.connect(value)
        for port in op.outputs:
            numbers[port] = len(numbers)
    return graph


def values_read(op: Op) -> Iterator[OutputPort]:
    """The inputs of an op, and what its bodies capture."""
    yield from (v for v in op.inputs if v is not None)
    inner = [op] if isinstance(op, Graph) else op.bodies.values()
    for body in inner:
        yield from body.captures


class PartTemplate(NamedTuple):
    """An executable, with the values that were its inputs."""

    key: Any
    compiled: Compiled
    inputs: tuple[OutputPort, ...]
    alive: list[Tensor]
    """Objects that the key has by identity."""


class PartCache:
    """Executables of parts, by structure; names of inputs do not matter.

    Equal parts share an executable, with other values as inputs. If several orders of
    inputs are possible, the one that keeps most previous values in position is used,
    since these may be on the device already; at most `TRIES` orders are tried. Operands
    of an op that `commutes` may be in any order.
    """

    def __init__(
        self,
        compile: Callable[[Graph], Compiled],
        commutes: Callable[[Op], bool] = lambda _: False,
    ) -> None:
        self._compile = compile
        self._commutes = commutes
        self._rows: dict[Any, list[PartTemplate]] = {}
        self.compiled = 0

    def find(
        self, graph: Graph, part: SessionPart
    ) -> tuple[Compiled, tuple[OutputPort, ...]]:
        """The executable of a part, and its inputs in order."""
        rows = self._rows.setdefault(_looks(part), [])
        for row in rows:
            by_hits = islice(_orders(part.inputs, row.inputs), TRIES - 1)
            for order in dict.fromkeys([*by_hits, part.inputs]):
                if cache_key(self._extract_part(graph, part, order), {})[0] == row.key:
                    return row.compiled, order
        made = self._extract_part(graph, part, part.inputs)
        key, tensors = cache_key(made, {})
        compiled = self._compile(made)
        self.compiled += 1
        if compiled.executable_attribute("state") is None:
            rows.append(PartTemplate(key, compiled, part.inputs, tensors))
        return compiled, part.inputs

    def _extract_part(
        self, graph: Graph, part: SessionPart, order: Sequence[OutputPort]
    ) -> Graph:
        return _in_graph_order(extract(graph, part, order), self._commutes)


def _looks(part: SessionPart) -> Any:
    """A cheap key that equal parts share."""
    types = sorted(str(value.type) for value in part.inputs)
    ops = sorted(str(op.type) for op in part.ops)
    return tuple(types), tuple(ops), len(part.outputs)


def _orders(
    values: Sequence[OutputPort], before: Sequence[OutputPort]
) -> Iterator[tuple[OutputPort, ...]]:
    """Orders of values with equal types, those that move the fewest values first."""
    present = set(values)
    seen: set[tuple[OutputPort, ...]] = set()
    kept = [value if value in present else None for value in before]
    while True:
        taken = {value for value in kept if value is not None}
        free: dict[str, list[OutputPort]] = {}
        for value in values:
            if value not in taken:
                free.setdefault(str(value.type), []).append(value)
        for order in _fill_constants(kept, before, free):
            if order not in seen:
                seen.add(order)
                yield order
        last = next(
            (i for i in reversed(range(len(kept))) if kept[i] is not None), None
        )
        if last is None:
            return
        kept[last] = None


def _fill_constants(
    kept: Sequence[OutputPort | None],
    before: Sequence[OutputPort],
    free: Mapping[str, Sequence[OutputPort]],
) -> Iterator[tuple[OutputPort, ...]]:
    types = list(free)
    for chosen in _choices([free[t] for t in types]):
        waiting = {t: iter(row) for t, row in zip(types, chosen, strict=True)}
        order = [
            value
            if value is not None
            else next(waiting.get(str(old.type), iter(())), None)
            for value, old in zip(kept, before, strict=True)
        ]
        if None not in order:
            yield tuple(value for value in order if value is not None)


def _choices(
    rows: Sequence[Sequence[OutputPort]],
) -> Iterator[list[tuple[OutputPort, ...]]]:
    """The product of the orders of each row, generated lazily."""
    if not rows:
        yield []
        return
    for first in permutations(rows[0]):
        for rest in _choices(rows[1:]):
            yield [first, *rest]
